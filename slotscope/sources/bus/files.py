"""Captures: files that a user names or a recorder finished, the capture point of each, and the clocks of the points.

Files of one point with names that differ in numbers only were written one after the other.  Files are pcap or pcapng, plain
or compressed.  The offset of a clock follows from traffic that two points recorded.  Each point is measured once, by its first
file with traffic, so the number of runs that read its files changes nothing: against the first files of the others, else
against those that name the same time, else, if its recorder began later under another clock, against any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, groupby
from pathlib import PurePath
from typing import Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import RecordedPlace, read_path
from cluster_core.kernels.bus.capture_clocks import (
    COMMON_MIN,
    NO_SEGMENTS,
    SegmentReader,
    Segments,
    common_times,
    joined_segments,
    offset_of_copies,
    sketch_of,
)
from cluster_core.kernels.bus.containers import PacketReader
from schemas.caveats import Caveat, Code
from slotscope.sources.files import InputFile, expand, open_stream
from slotscope.sources.folder_kinds import CAPTURES

WINDOW_BYTES: Final = 8 << 20
OVERLAP_NS: Final = 1_000_000_000
"""Rotated files overlap by less: packets of several processors are out of order by microseconds."""
SHARED: Final = 0.1
"""Least share of a capture's segments that another capture of the same time must hold for their clocks to be compared."""
READERS: Final = min(4, os.cpu_count() or 1)
"""Threads that inflate files and find their packets."""
_DIGITS: Final = re.compile(r"\d+")


class CaptureFile(NamedTuple):
    """A capture, its point (*series*), and the times between which its packets lie (0 and 0 when it has none or is alone)."""

    path: str
    size: int
    series: str = ""
    from_ns: int = 0
    to_ns: int = 0

    @property
    def name(self) -> str:
        """Key that orders packets of equal times."""
        return self.path

    @property
    def point(self) -> str:
        """Return the name of the point for a reader."""
        return PurePath(self.path).name


class RecordedInput(NamedTuple):
    """A finished file of a landing."""

    path: str
    size: int
    place: RecordedPlace

    @property
    def series(self) -> str:
        """Key of its point: cluster and point."""
        return f"{self.place.cluster}/{self.place.point}"

    @property
    def point(self) -> str:
        """Return the name of the point for a reader."""
        return self.series

    @property
    def name(self) -> str:
        """Key that orders packets of equal times."""
        return f"{self.series}/{self.place.file.name}"

    @property
    def from_ns(self) -> int:
        """Return when the file begins."""
        return self.place.file.from_ns

    @property
    def to_ns(self) -> int:
        """Return when the file ends."""
        return self.place.file.to_ns or 0


PointFile = CaptureFile | RecordedInput


def recorded_inputs(files: Iterable[tuple[str, int]]) -> list[RecordedInput]:
    """Those of *files* (path and bytes) that a recorder has finished, in order of their points and times."""
    inputs = [RecordedInput(path, size, place) for path, size in files if (place := read_path(path)) is not None]
    return sorted(inputs, key=lambda file: (file.series, file.from_ns, file.path))


def find_captures(patterns: Sequence[str]) -> list[InputFile]:
    """The files that *patterns* name, in the order of the patterns; raises DecodeError for missing ones."""
    return list({file.path: file for pattern in patterns for file in expand([pattern], CAPTURES)}.values())


def survey(files: Sequence[InputFile], *, alone: bool = True) -> list[CaptureFile]:
    """Look at the times of the packets; of one file that is *alone* nothing is needed."""
    if alone and len(files) == 1:
        return [CaptureFile(files[0].path, files[0].size, _pattern(files[0].path))]
    surveys, sketches = [], {}
    for file in files:
        segments = segments_of(file.path)
        low, high = (int(segments.ts_ns.min()), int(segments.ts_ns.max())) if len(segments.ts_ns) else (0, 0)
        sketches[file.path] = set(sketch_of(segments))
        surveys.append(CaptureFile(file.path, file.size, _pattern(file.path), low, high))
    alike = groupby(sorted(surveys, key=lambda file: file.series), key=lambda file: file.series)
    several = {series for series, group in alike if _is_of_several(list(group), sketches)}
    return [file._replace(series=file.path) if file.series in several else file for file in surveys]


def _is_of_several(files: Sequence[CaptureFile], sketches: dict[str, set[int]]) -> bool:
    """Return whether files were recorded at the same time, by several points."""
    return any(
        min(first.to_ns, other.to_ns) - max(first.from_ns, other.from_ns) > OVERLAP_NS
        or len(marks & marks_there) >= max(COMMON_MIN, SHARED * min(len(marks), len(marks_there)))
        for first, other in combinations(files, 2)
        for marks, marks_there in [(sketches[first.path], sketches[other.path])]
    )


def _pattern(path: str) -> str:
    whole = PurePath(path)
    return str(whole.with_name(_DIGITS.sub("#", whole.name)))


def segments_of(path: str) -> Segments:
    """The TCP segments of a capture file, up to where it is damaged or cannot be opened."""
    reader, segments = PacketReader(), SegmentReader()
    try:
        stream = open_stream(path)
        try:
            while count := stream.readinto(reader.room(WINDOW_BYTES)):
                for packets in reader.take(count):
                    segments.add(packets)
        finally:
            stream.close()
    except DecodeError:
        pass  # reading it will tell again
    return segments.segments()


SEGMENTS_MIN: Final = 10 * COMMON_MIN
"""Files with fewer are measured by together."""
SAME_NS: Final = 1_000_000
"""Offset below which clocks count as equal; offsets are reported in multiples of it."""
SEARCHED_MAX: Final = 500
"""Number of files that are searched for the same time."""


class _Sample(NamedTuple):
    """The files by which the clock of a series is measured, and their segments."""

    files: list[PointFile]
    segments: Segments


def measure_clocks(
    files: Sequence[PointFile], known_ns: dict[str, int], notes: list[Caveat], *, is_all: bool = False
) -> set[str]:
    """Add to *known_ns* how far the clocks of the series of *files* are ahead, to *notes* caveats for the reader.

    Return the series with unmeasured clocks.  The first point is the reference; points that share no traffic with it get their
    own first point as reference if these are all files (*is_all*).
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
