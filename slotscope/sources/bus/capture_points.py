"""Capture points: whose clock is how far ahead, so that captures of one time can be put in one order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final, NamedTuple

from cluster_core.kernels.bus.capture_clocks import (
    FAR_NS,
    REFERENCE,
    Basis,
    Offset,
    Sayings,
    common_times,
    offset_of_copies,
    offset_of_order,
)
from cluster_core.kernels.bus.containers import Segments
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kinds import Severity
from schemas.caveats import Caveat, Code

TELL_NS: Final = 1_000_000
"""Clocks that are nearer together are the same to a reader."""
_DIGITS: Final = re.compile(r"\d+")
_OTHER_BASES: Final = {
    Basis.ORDER: "no segment was seen at both, but what must come before what allows {low} to {high}",
    Basis.BROADCAST: "no segment was seen at both, but messages that a node sends to all at once agree within {spread}",
    Basis.GOSSIP: "no segment was seen at both, but the seconds that nodes tell in gossip agree within {spread}",
    Basis.SERIES: "taken from an earlier file of the same series",
    Basis.BOUNDS: "no segment was seen at both, and what must come before what allows {low} to {high}; the middle is taken",
}


class Point(NamedTuple):
    """One capture: its file, its place among the files that were named, its segments, a way to decode it alone."""

    path: str
    place: int
    segments: Segments
    decode: Callable[[BusDecoder], Iterator[object]]


@dataclass(slots=True)
class PointClocks:
    """What is known of the clocks of the points so far; *spread_ns* is how far order between points is unsure."""

    known: dict[str, int] = field(default_factory=dict)
    notes: list[Caveat] = field(default_factory=list)
    spread_ns: int = 0

    def of_alone(self, path: str) -> Offset:
        """The offset of a capture that overlaps with no other."""
        ahead = self.known.get(series_of(path), 0)
        return Offset(Basis.SERIES, (0,), (ahead,)) if ahead else REFERENCE

    def align(self, points: Sequence[Point]) -> dict[str, Offset]:
        """The offset of each of several captures of one time; the point that was named first is the reference."""
        names = [series_of(point.path) for point in points]
        names = [name if names.count(name) == 1 else points[at].path for at, name in enumerate(names)]
        found = {at: _series(self.known[name]) for at, name in enumerate(names) if name in self.known}
        if not found:
            found[min(range(len(points)), key=lambda at: points[at].place)] = REFERENCE
        against = dict.fromkeys(found, -1)
        copies = _copies(points)
        while len(found) < len(points):
            at, other, offset = _next(points, found, copies)
            found[at], against[at] = offset.behind(found[other]), other
        for at, offset in found.items():
            self.known[names[at]] = int(offset.ahead_ns[-1])
            if against[at] >= 0:
                self._tell(points[at].path, points[against[at]].path, offset)
        return {points[at].path: offset for at, offset in found.items()}

    def _tell(self, path: str, other: str, offset: Offset) -> None:
        here, there = PurePath(path).name, PurePath(other).name
        if here == there:
            here, there = path, other
        words = {
            "low": "anything" if offset.low_ns == -FAR_NS else _ms(offset.low_ns),
            "high": "anything" if offset.high_ns == FAR_NS else _ms(offset.high_ns),
            "spread": _ms(offset.spread_ns),
        }
        if offset.basis is Basis.UNKNOWN:
            self.spread_ns = max(self.spread_ns, min(FAR_NS, max(offset.high_ns, -offset.low_ns)))
            self._note(
                Severity.WARNING,
                f"how far the clock of {here} is from that of {there} is not known: no segment was seen at"
                f" both, and what must come before what allows {words['low']} to {words['high']}; nothing is corrected,"
                " and what rests on the order between them is uncertain",
                here,
            )
            return
        self.spread_ns = max(self.spread_ns, offset.spread_ns)
        if offset.basis is Basis.COPIES:
            why = f"{offset.common} segments were seen at both and agree within {words['spread']}"
        else:
            why = _OTHER_BASES[offset.basis].format(**words)
        ahead = offset.ahead_ns[-1]
        drift = offset.drift_ns
        if max(map(abs, offset.ahead_ns)) < TELL_NS:
            self._note(Severity.NOTE, f"the clocks of {here} and {there} agree within a millisecond: {why}", here)
            return
        way = "ahead of" if ahead > 0 else "behind"
        text = f"the clock of {here} is {_ms(abs(ahead))} {way} that of {there}: {why}; its times are corrected"
        if abs(drift) >= TELL_NS:
            text += f", and so is its drift, {_ms(drift)} from its first packet to its last"
        if offset.basis is Basis.BOUNDS:
            text += "; what rests on the order between them is uncertain"
        self._note(Severity.WARNING, text, here)

    def _note(self, severity: Severity, text: str, point: str) -> None:
        self.notes.append(Caveat(severity, Code.CLOCKS, text, point))


def series_of(path: str) -> str:
    """Files of one point that were written one after the other: their names differ in numbers only."""
    whole = PurePath(path)
    return str(whole.with_name(_DIGITS.sub("#", whole.name)))


def _series(ahead: int) -> Offset:
    return Offset(Basis.SERIES, (0,), (ahead,))


def _copies(points: Sequence[Point]) -> dict[tuple[int, int], Offset]:
    """For two points (first, second), both ways: the offset of the second by what both saw."""
    found: dict[tuple[int, int], Offset] = {}
    for one in range(len(points)):
        for two in range(len(points)):
            if one != two:
                offset = offset_of_copies(*common_times(points[one].segments, points[two].segments))
                if offset is not None:
                    found[one, two] = offset
    return found


def _next(
    points: Sequence[Point], found: dict[int, Offset], copies: dict[tuple[int, int], Offset]
) -> tuple[int, int, Offset]:
    """The next point to place, by whose offset, and its own against that: most copies first, else by order."""
    by_copies = [
        (offset.common, -two, -one) for (one, two), offset in copies.items() if one in found and two not in found
    ]
    if by_copies:
        _, two, one = max(by_copies)
        return -two, -one, copies[-one, -two]
    tried = []
    for two in sorted(set(range(len(points))) - found.keys(), key=lambda at: points[at].place):
        for one in sorted(found, key=lambda at: points[at].place):
            here, there = points[one], points[two]
            sayings = (_sayings(point) for point in (here, there))
            offset = offset_of_order(here.segments, there.segments, sayings)
            if offset.is_certain:
                return two, one, offset
            tried.append((offset.basis is Basis.UNKNOWN, offset.high_ns - offset.low_ns, two, one, offset))
    *_, two, one, offset = min(tried, key=lambda each: each[:4])
    return two, one, offset


def _sayings(point: Point) -> Sayings:
    told, decoder = Sayings(), BusDecoder()
    for batch in point.decode(decoder):
        told.take(batch)  # type: ignore[arg-type]
    told.take(decoder.finish())
    return told


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.2f} ms" if abs(ns) < 10**9 else f"{ns / 1e9:.3f} s"
