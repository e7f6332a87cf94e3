"""How far are the clocks of capture points ahead, as the first files show that two of them have recorded of the same traffic?

Each point is measured once, by its first file with traffic, so that it does not matter in how many runs a landing is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from cluster_core.formats.landing import Kind
from cluster_core.kernels.bus.capture_clocks import COMMON_MIN, common_times, offset_of_copies
from cluster_core.kernels.bus.capture_segments import Segments
from schemas.caveats import Caveat, Code
from slotscope.sources.bus.files import segments_of
from slotscope.sources.bus.point_series import READERS, RecordedInput

SEGMENTS_MIN: Final = 10 * COMMON_MIN
"""A file with fewer is too short to measure a clock by."""
SAME_NS: Final = 1_000_000
"""Clocks that are nearer together are the same to a reader; offsets are told in whole ones."""


def measure_clocks(files: Sequence[RecordedInput], known_ns: dict[str, int], notes: list[Caveat]) -> set[str]:
    """Add to *known_ns* how far the clocks of the series of *files* are ahead, to *notes* what a reader should know.

    Return the series whose clocks could not be measured yet.
    """
    captures: dict[str, list[RecordedInput]] = {}
    for file in files:
        if file.place.kind is Kind.BUS:
            captures.setdefault(file.series, []).append(file)
    if not captures.keys() - known_ns.keys():
        return set()
    if len(captures) == 1 and not known_ns:
        known_ns[next(iter(captures))] = 0
        return set()
    names = sorted(captures)
    with ThreadPoolExecutor(READERS, "clocks") as readers:
        segments = dict(zip(names, readers.map(_first_segments, (captures[name] for name in names)), strict=True))
    unknown = sorted(series for series in segments if series not in known_ns)
    if not known_ns:
        measurable = [series for series in unknown if len(segments[series].ts_ns) >= SEGMENTS_MIN]
        known_ns.update(dict.fromkeys(measurable[:1], 0))
    is_done = False
    while not is_done:
        is_done = True
        for series in [one for one in unknown if one not in known_ns]:
            ahead_ns = _against(segments, series, known_ns)
            if ahead_ns is None:
                continue
            known_ns[series], is_done = ahead_ns, False
            if ahead_ns:
                notes.append(Caveat.warning(Code.CLOCKS, _words(series, ahead_ns), series))
    return set(unknown) - known_ns.keys()


def _first_segments(files: Sequence[RecordedInput]) -> Segments:
    """The segments of the first file that has enough of them, of the last one if none has."""
    found = segments_of(files[0].path)
    for file in files[1:]:
        if len(found.ts_ns) >= SEGMENTS_MIN:
            break
        found = segments_of(file.path)
    return found


def unknown_clock(series: str) -> Caveat:
    """That the clock of a series could not be measured."""
    words = (
        f"how far the clock of {series} is from the others is not known: fewer than {COMMON_MIN} segments were seen at both;"
        " nothing is corrected"
    )
    return Caveat.warning(Code.CLOCKS, words, series)


def _against(segments: dict[str, Segments], series: str, known_ns: dict[str, int]) -> int | None:
    for other in sorted(segments.keys() & known_ns.keys()):
        offset = offset_of_copies(*common_times(segments[other], segments[series]))
        if offset is not None:
            ahead_ns = known_ns[other] + offset.ahead_ns[len(offset.ahead_ns) // 2]
            return round(ahead_ns / SAME_NS) * SAME_NS if abs(ahead_ns) >= SAME_NS else 0
    return None


def _words(series: str, ahead_ns: int) -> str:
    way = "ahead of" if ahead_ns > 0 else "behind"
    return (
        f"the clock of {series} is {abs(ahead_ns) / 1e9:.3f} s {way} that of the first point; its times are corrected"
    )
