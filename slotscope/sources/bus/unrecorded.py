"""What the recorders of a landing say that they could not record: gaps.jsonl of every point, read with each run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import GAPS_FILE, Gap, read_gap
from schemas.caveats import Caveat, Code
from slotscope.sources.bus.point_series import RecordedInput
from slotscope.sources.bus.polls_and_logs import instant, times
from slotscope.sources.files import exists, read_lines

GAPS_KEPT: Final = 1_000
"""Gaps of a point that are remembered; the newest ones."""
LINE_BYTES_MAX: Final = 1 << 14


class Unrecorded:
    """The gaps of all points; *known* are those of earlier runs, by series, as a list of their last lines."""

    def __init__(self, known: dict[str, list[Gap]] | None = None) -> None:
        self.known = known or {}
        self._unread: dict[str, int] = {}

    def read(self, files: Sequence[RecordedInput]) -> None:
        """Read the lines beside *files*, the recorded ones of this run; what is no gap is counted, but for a last line that is being written."""
        for series, path in {file.series: _beside(file.path) for file in files}.items():
            if not exists(path):
                continue
            gaps = {gap.identity: gap for gap in self.known.get(series, ())}
            try:
                for number, raw in read_lines(path, LINE_BYTES_MAX):
                    gap = _gap_of(raw, number)
                    if gap is not None:
                        gaps[gap.identity] = gap
                    elif raw.rstrip().endswith(b"}"):
                        self._unread[series] = self._unread.get(series, 0) + 1
            except DecodeError:
                self._unread[series] = self._unread.get(series, 0) + 1
            self.known[series] = sorted(gaps.values(), key=lambda gap: gap.from_ns)[-GAPS_KEPT:]

    def rows(self, ahead_ns: dict[str, int]) -> Iterator[dict[str, Any]]:
        """Rows of bronze/unrecorded; times by the clock of the replay, whose difference to that of each series is *ahead_ns*."""
        for series, gaps in sorted(self.known.items()):
            ahead = ahead_ns.get(series, 0)
            for number, gap in enumerate(gaps, 1):
                end_ns = None if gap.to_ns is None else gap.to_ns - ahead
                yield {
                    "point": series.rpartition("/")[2],
                    "gap": number,
                    "kind": str(gap.kind),
                    "reason": str(gap.reason),
                    "subject": gap.subject,
                    "detail": gap.detail,
                    "missed": gap.missed,
                    **times("valid_from", gap.from_ns - ahead),
                    "valid_to": None if end_ns is None else instant(end_ns),
                    "valid_to_ns": end_ns,
                }

    def notes(self, first_ns: int, last_ns: int, ahead_ns: dict[str, int]) -> list[Caveat]:
        """What a reader of the time from *first_ns* to *last_ns* should know: a line for each point and kind."""
        found = [
            Caveat.warning(Code.GAPS, f"{count} lines of {GAPS_FILE} of {series} cannot be read", series)
            for series, count in sorted(self._unread.items())
        ]
        for series, gaps in sorted(self.known.items()):
            ahead = ahead_ns.get(series, 0)
            by_kind: dict[str, list[tuple[int, int, Gap]]] = {}
            for gap in gaps:
                start_ns, end_ns = gap.from_ns - ahead, last_ns if gap.to_ns is None else gap.to_ns - ahead
                if start_ns <= last_ns and end_ns >= first_ns:
                    by_kind.setdefault(gap.kind, []).append((max(start_ns, first_ns), min(end_ns, last_ns), gap))
            for kind, spans in sorted(by_kind.items()):
                start_ns, end_ns, last = spans[-1]
                seconds = sum(end - start for start, end, _ in spans) / 1e9
                times_told = "once" if len(spans) == 1 else f"{len(spans)} times"
                words = (
                    f"{series} could not record {kind} {times_told}, {seconds:.1f} s in all, last from"
                    f" {instant(start_ns):%Y-%m-%d %H:%M:%S} to {instant(end_ns):%H:%M:%S} UTC ({last.reason}): what is told of"
                    " these times may be partial (bronze/unrecorded)"
                )
                found.append(Caveat.warning(Code.GAPS, words, series))
        return found


def _gap_of(raw: bytes, number: int) -> Gap | None:
    try:
        return read_gap(raw, line=number)
    except DecodeError:
        return None


def _beside(path: str) -> str:
    """Where the point of a recorded file says what is not there."""
    head, sign, rest = path.rpartition("://")
    return f"{head}{sign}{PurePosixPath(rest).parent.parent / GAPS_FILE}"
