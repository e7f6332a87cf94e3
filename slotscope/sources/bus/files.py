"""Captures that a user names: their times, and the capture point of each.

Files of one point with names that differ in numbers only were written one after the other.  Files are pcap or pcapng, plain
or compressed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, groupby
from pathlib import PurePath
from typing import Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.kernels.bus.capture_clocks import COMMON_MIN, SegmentReader, Segments, sketch_of
from cluster_core.kernels.bus.containers import PacketReader
from slotscope.sources.files import InputFile, expand, open_stream
from slotscope.sources.folder_kinds import CAPTURES

WINDOW_BYTES: Final = 8 << 20
OVERLAP_NS: Final = 1_000_000_000
"""Rotated files overlap by less: packets of several processors are out of order by microseconds."""
SHARED: Final = 0.1
"""What part of the segments of a capture must be in another one that was made at the same time under another clock."""
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
        """Return what decides the order of packets of equal times."""
        return self.path

    @property
    def point(self) -> str:
        """Return the name of the point for a reader."""
        return PurePath(self.path).name


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
