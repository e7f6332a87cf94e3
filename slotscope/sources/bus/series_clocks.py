"""How far are the clocks of capture points ahead, as files show in which two of them have recorded the same traffic?

Each point is measured once, by its first file with traffic, so that it does not matter in how many runs files are read: against the first
ones of the others, else against those that say to be of its time, else, if its recorder was begun later under another clock, against any.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from cluster_core.kernels.bus.capture_clocks import (
    COMMON_MIN,
    NO_SEGMENTS,
    Segments,
    common_times,
    joined_segments,
    offset_of_copies,
)
from schemas.caveats import Caveat, Code
from slotscope.sources.bus.files import segments_of
from slotscope.sources.bus.point_series import READERS, PointFile

SEGMENTS_MIN: Final = 10 * COMMON_MIN
"""Files with fewer are measured by together."""
SAME_NS: Final = 1_000_000
"""Clocks that are nearer together are the same to a reader; offsets are told in whole ones."""
SEARCHED_MAX: Final = 500
"""So many files are looked through for the time of one that says another."""


class _Sample(NamedTuple):
    """The files by which the clock of a series is measured, and what they hold."""

    files: list[PointFile]
    segments: Segments


def measure_clocks(
    files: Sequence[PointFile], known_ns: dict[str, int], notes: list[Caveat], *, is_all: bool = False
) -> set[str]:
    """Add to *known_ns* how far the clocks of the series of *files* are ahead, to *notes* what a reader should know.

    Return the series whose clocks could not be measured.  The first point is the reference; of points that share nothing with
    it, if these are all files (*is_all*), the first one is another.
    """
    captures: dict[str, list[PointFile]] = {}
    for file in files:
        captures.setdefault(file.series, []).append(file)
    if not captures.keys() - known_ns.keys():
        return set()
    if len(captures) == 1 and not known_ns:
        known_ns[next(iter(captures))] = 0
        return set()
    for mine in captures.values():
        mine.sort(key=lambda file: file.from_ns)
    with ThreadPoolExecutor(READERS, "clocks") as readers:
        samples = dict(zip(captures, readers.map(_first_sample, captures.values()), strict=True))
    unmeasured, alone = [series for series in captures if series not in known_ns], set()
    tried: dict[str, set[str]] = {series: set() for series in captures}
    while unmeasured:
        count = len(unmeasured)
        for series in list(unmeasured):
            ahead_ns = _against_first_ones(samples, series, known_ns)
            if ahead_ns is None and len(samples[series].segments.ts_ns) >= COMMON_MIN:
                ahead_ns = _against_others(captures, samples[series], known_ns, tried[series])
            if ahead_ns is None:
                continue
            known_ns[series] = ahead_ns
            unmeasured.remove(series)
            if ahead_ns:
                notes.append(_different_clock(captures[series][0], ahead_ns))
        if len(unmeasured) < count:
            continue
        reference = next((name for name in unmeasured if len(samples[name].segments.ts_ns) >= COMMON_MIN), None)
        if reference is None or (known_ns and not is_all):
            break
        if known_ns:
            alone.add(reference)
        known_ns[reference] = 0
        unmeasured.remove(reference)
    return alone | set(unmeasured)


def unknown_clock(file: PointFile) -> Caveat:
    """Return a warning that the clock of the series of *file* could not be measured."""
    text = (
        f"the clock offset of {file.point} is unknown: fewer than {COMMON_MIN} segments of its first files with traffic were"
        " captured at another point; its times are not corrected"
    )
    return Caveat.warning(Code.CLOCKS, text, file.point)


def _different_clock(file: PointFile, ahead_ns: int) -> Caveat:
    way = "ahead of" if ahead_ns > 0 else "behind"
    text = f"the clock of {file.point} is {abs(ahead_ns) / 1e9:.3f} s {way} that of the first point; its times are corrected"
    return Caveat.warning(Code.CLOCKS, text, file.point)


def _first_sample(files: Sequence[PointFile]) -> _Sample:
    """The first files that have segments enough, or all."""
    sample = _Sample([], NO_SEGMENTS)
    for file in files:
        segments = segments_of(file.path)
        if len(segments.ts_ns) >= SEGMENTS_MIN:
            return _Sample([file], segments)
        sample = _Sample([*sample.files, file], joined_segments((sample.segments, segments)))
        if len(sample.segments.ts_ns) >= SEGMENTS_MIN:
            break
    return sample


def _against_first_ones(samples: dict[str, _Sample], series: str, known_ns: dict[str, int]) -> int | None:
    for other in [sample for sample in samples if sample in known_ns]:
        ahead_ns = _ahead_ns(samples[other].segments, samples[series].segments, known_ns[other])
        if ahead_ns is not None:
            return ahead_ns
    return None


def _against_others(
    captures: dict[str, list[PointFile]], sample: _Sample, known_ns: dict[str, int], tried: set[str]
) -> int | None:
    """Against files of measured series: those that say to be of its time, together, since two of many points share little; then each of the others.

    Those that were *tried* are passed over.
    """
    known = [file for series in sorted(captures.keys() & known_ns.keys()) for file in captures[series]]
    first_ns, last_ns = sample.files[0].from_ns, sample.files[-1].to_ns
    near: list[PointFile] = []
    far: list[PointFile] = []
    for file in known:
        begun_ns, ended_ns = file.from_ns, file.to_ns
        is_near = begun_ns < last_ns + known_ns[file.series] and first_ns + known_ns[file.series] < ended_ns
        (near if is_near else far).append(file)
    together = NO_SEGMENTS
    for file in near[:SEARCHED_MAX]:
        segments = segments_of(file.path)
        together = joined_segments((together, segments._replace(ts_ns=segments.ts_ns - known_ns[file.series])))
        ahead_ns = _ahead_ns(together, sample.segments, 0)
        if ahead_ns is not None:
            return ahead_ns
    for file in [file for file in far if file.path not in tried][: max(0, SEARCHED_MAX - len(tried))]:
        tried.add(file.path)
        ahead_ns = _ahead_ns(segments_of(file.path), sample.segments, known_ns[file.series])
        if ahead_ns is not None:
            return ahead_ns
    return None


def _ahead_ns(there: Segments, here: Segments, there_ns: int) -> int | None:
    """How far the clock of *here* is ahead if that of *there* is by *there_ns*; None where they share too little."""
    offset = offset_of_copies(*common_times(there, here))
    if offset is None:
        return None
    ahead_ns = there_ns + offset.ahead_ns
    return round(ahead_ns / SAME_NS) * SAME_NS if abs(ahead_ns) >= SAME_NS else 0
