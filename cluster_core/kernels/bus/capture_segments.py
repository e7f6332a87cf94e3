"""The TCP segments of a capture as columns that can be compared with those of another capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_capture import Row
from cluster_core.kernels.bus.containers import ContainerReader
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, PACKETS_PER_CHUNK, SEGMENT, new_rows, view_segments
from cluster_core.kernels.interning import new_interned
from cluster_core.wire.tcp_stream import FIN, SYN

SEGMENTS_MAX = 1 << 21
"""Segments that are kept; above it only those of every second, fourth, … connection are, in every file the same ones."""
_MIX_A, _MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)
Hashes = NDArray[np.uint64]
Longs = NDArray[np.int64]


class Segments(NamedTuple):
    """One row a TCP segment: when, on which direction (*way*; *back* is the other one), its sequence numbers.

    *mark* is equal for copies of a segment at several points.  *start* and *end* are its first sequence number and the
    one behind its last; *upward* says which end of the connection sent it, by the order of their addresses.
    """

    ts_ns: Longs
    way: Hashes
    back: Hashes
    mark: Hashes
    start: Longs
    end: Longs
    ack: Longs
    flags: NDArray[np.uint8]
    upward: NDArray[np.bool_]


def _mixed(*columns: Longs | Hashes) -> Hashes:
    """A hash of the values of each row."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        total = (total ^ column.astype(np.uint64)) * _MIX_A
        total ^= total >> _SHIFT
        total *= _MIX_B
    return total ^ (total >> _SHIFT)


SKETCH_MARKS = 1024


def sketch_of(segments: Segments) -> tuple[int, ...]:
    """The least marks of segments that carry something: captures of the same traffic have many in common."""
    marks = np.unique(segments.mark[segments.end > segments.start])
    return tuple(marks[:SKETCH_MARKS].tolist())


class SegmentReader(ContainerReader[None]):
    """Reads captures and keeps only the TCP segments: feed it a file, then take `segments`."""

    def __init__(self) -> None:
        super().__init__()
        self._rows = new_rows(SEGMENT, PACKETS_PER_CHUNK)
        self._addresses = new_interned(ADDRESS_BYTES, 2 * PACKETS_PER_CHUNK)
        self._parts: list[Segments] = []
        self._kept = 0
        self._sparse = np.uint64(0)

    def segments(self) -> Segments:
        """All segments in the order of the file."""
        if len(self._parts) != 1:
            self._parts = [joined_segments([NO_SEGMENTS, *self._parts])]
        return self._parts[0]

    def _told(self, row: Row) -> Iterator[None]:
        return iter(())

    def _follow(self, data: NDArray[np.uint8], count: int) -> Iterator[None]:
        if not count:
            return
        if self._addresses.used[0] + 2 * count > self._addresses.capacity:
            self._addresses = new_interned(ADDRESS_BYTES, 2 * PACKETS_PER_CHUNK)
        view_segments(data, self._records, count, self._addresses, self._rows)
        at = np.flatnonzero(self._rows.reason[:count] == 0)
        part = self._columns(at)
        self._parts.append(self._thinned(part))
        self._kept += len(self._parts[-1].ts_ns)
        while self._kept > SEGMENTS_MAX:
            self._sparse = self._sparse << np.uint64(1) | np.uint64(1)
            self._parts = [self._thinned(self.segments())]
            self._kept = len(self._parts[0].ts_ns)
        yield from ()

    def _thinned(self, part: Segments) -> Segments:
        if not self._sparse:
            return part
        kept = ((part.way ^ part.back) & self._sparse) == 0
        columns: list[Any] = [column[kept] for column in part]
        return Segments(*columns)

    def _columns(self, at: NDArray[np.intp]) -> Segments:
        segments, records = self._rows[at].view(np.recarray), self._records[at].view(np.recarray)
        texts = self._addresses.rows()
        ips = _mixed(*np.ascontiguousarray(texts).view(np.uint64).reshape(len(texts), 2).T)
        ends = [_mixed(ips[segments[name]], segments[f"{name}_port"].astype(np.int64)) for name in ("source", "target")]
        way, back = _mixed(*ends), _mixed(*ends[::-1])
        flags = np.asarray(segments.tcp_flags)
        start = np.asarray(segments.seq)
        marks = np.where(flags & SYN, 1, 0) + np.where(flags & FIN, 1, 0)
        end = start + np.asarray(segments.length) + np.asarray(segments.missing) + marks
        ack = np.asarray(segments.ack)
        mark = _mixed(way, start, end, ack, flags.astype(np.int64))
        return Segments(
            np.array(records.ts_ns), way, back, mark, start.copy(), end, ack.copy(), flags.copy(), ends[0] < ends[1]
        )


def joined_segments(parts: Sequence[Segments]) -> Segments:
    """All segments, part after part."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Segments(*columns)


_KINDS: Final[tuple[Any, ...]] = (
    np.int64, np.uint64, np.uint64, np.uint64, np.int64, np.int64, np.int64, np.uint8, np.bool_,
)  # fmt: skip
NO_SEGMENTS: Final = Segments(*[np.zeros(0, dtype=kind) for kind in _KINDS])
