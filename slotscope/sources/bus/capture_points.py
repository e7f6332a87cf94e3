"""Clock offsets of capture points: captures of one time are merged by corrected times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, NamedTuple

from cluster_core.kernels.bus.capture_clocks import Offset, common_times, offset_of_copies
from cluster_core.kernels.bus.containers import Segments
from cluster_core.kinds import Severity
from schemas.caveats import Caveat, Code

TELL_NS: Final = 1_000_000
"""Clocks that differ by less are the same to a reader."""
_DIGITS: Final = re.compile(r"\d+")


class Point(NamedTuple):
    """One capture: its file, its place among the files that were named, its segments."""

    path: str
    place: int
    segments: Segments


@dataclass(slots=True)
class PointClocks:
    """Offsets of the points so far, in ns, by their series; and what a reader should know about them."""

    known: dict[str, int] = field(default_factory=dict)
    notes: list[Caveat] = field(default_factory=list)

    def of_alone(self, path: str) -> int:
        """The offset of a capture that overlaps with no other."""
        return self.known.get(series_of(path), 0)

    def align(self, points: Sequence[Point]) -> dict[str, int]:
        """The offset of each of several captures of one time; the point that was named first is the reference."""
        names = [series_of(point.path) for point in points]
        names = [name if names.count(name) == 1 else points[at].path for at, name in enumerate(names)]
        found = {at: self.known[name] for at, name in enumerate(names) if name in self.known}
        first = min(range(len(points)), key=lambda at: points[at].place)
        found = found or {first: 0}
        copies = _copies(points)
        while len(found) < len(points):
            best = max(
                ((copy.common, -two, -one) for (one, two), copy in copies.items() if one in found and two not in found),
                default=None,
            )
            if best is None:
                at = min(set(range(len(points))) - found.keys(), key=lambda at: points[at].place)
                found[at] = 0
                self._note(Severity.WARNING, points[at].path, points[first].path, _UNKNOWN)
            else:
                at, other = -best[1], -best[2]
                found[at] = found[other] + copies[other, at].ahead_ns
                self._tell(points[at].path, points[other].path, found[at], copies[other, at])
        self.known |= {names[at]: ahead for at, ahead in found.items()}
        return {points[at].path: ahead for at, ahead in found.items()}

    def _tell(self, path: str, other: str, ahead: int, measured: Offset) -> None:
        why = f"{measured.common} segments were seen at both and agree within {_ms(measured.spread_ns)}"
        if abs(ahead) < TELL_NS:
            self._note(
                Severity.NOTE, path, other, "the clocks of {here} and {there} agree within a millisecond: " + why
            )
            return
        way = "ahead of" if ahead > 0 else "behind"
        text = f"the clock of {{here}} is {_ms(abs(ahead))} {way} that of {{there}}: {why}; its times are corrected"
        self._note(Severity.WARNING, path, other, text)

    def _note(self, severity: Severity, path: str, other: str, text: str) -> None:
        here, there = PurePath(path).name, PurePath(other).name
        if here == there:
            here, there = path, other
        self.notes.append(Caveat(severity, Code.CLOCKS, text.format(here=here, there=there), here))


_UNKNOWN: Final = (
    "the clock offset between {here} and {there} is unknown: no segment was captured at both; times of {here} are not"
    " corrected, and the order of events between the two is uncertain"
)


def series_of(path: str) -> str:
    """Files of one point that were written one after the other: their names differ in numbers only."""
    whole = PurePath(path)
    return str(whole.with_name(_DIGITS.sub("#", whole.name)))


def _copies(points: Sequence[Point]) -> dict[tuple[int, int], Offset]:
    """For two points (first, second), both ways: the offset of the second by what both saw."""
    pairs = ((one, two) for one in range(len(points)) for two in range(len(points)) if one != two)
    found = {
        (one, two): offset_of_copies(*common_times(points[one].segments, points[two].segments)) for one, two in pairs
    }
    return {pair: offset for pair, offset in found.items() if offset is not None}


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms" if abs(ns) < 10**9 else f"{ns / 1e9:.3f} s"
