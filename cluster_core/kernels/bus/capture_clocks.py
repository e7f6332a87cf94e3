"""Offset between the clocks of two capture points, from the timestamps of TCP segments that both captured.

It is positive if the second clock is ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.packet_order import Packets
from cluster_core.kernels.bus.packets import (
    ADDRESS_BYTES,
    PACKETS_PER_CHUNK,
    RECORD,
    SEGMENT,
    new_rows,
    rows_to_fill,
    view_segments,
)
from cluster_core.kernels.interning import new_interned
from cluster_core.wire.tcp_stream import FIN, SYN

SEGMENTS_MAX = 1 << 21
"""Maximum segments; above it, the same half, quarter, … of the connections is kept in every file."""
_MIX_A, _MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)
Hashes = NDArray[np.uint64]
Longs = NDArray[np.int64]


class Segments(NamedTuple):
    """One row per TCP segment: its time, and a *mark* that is equal at all capture points.

    *pair* is equal for both directions of a connection; *upward*: direction by the order of addresses; *has_data*: payload,
    SYN or FIN.
    """

    ts_ns: Longs
    mark: Hashes
    pair: Hashes
    has_data: NDArray[np.bool_]
    upward: NDArray[np.bool_]


def _mixed(*columns: Longs | Hashes) -> Hashes:
    """Return a hash of the values of each row."""
    total = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        total = (total ^ column.astype(np.uint64)) * _MIX_A
        total ^= total >> _SHIFT
        total *= _MIX_B
    return total ^ (total >> _SHIFT)


SKETCH_MARKS = 1024


def sketch_of(segments: Segments) -> tuple[int, ...]:
    """Return the least marks of segments with data: captures of the same traffic have many in common."""
    marks = np.unique(segments.mark[segments.has_data])
    return tuple(marks[:SKETCH_MARKS].tolist())


class SegmentReader:
    """Keeps only the TCP segments of a capture: `add` its packets, then take `segments`."""

    def __init__(self) -> None:
        self._records = rows_to_fill(RECORD, PACKETS_PER_CHUNK)
        self._rows = new_rows(SEGMENT, PACKETS_PER_CHUNK)
        self._addresses = new_interned(ADDRESS_BYTES, 2 * PACKETS_PER_CHUNK)
        self._parts: list[Segments] = []
        self._kept = 0
        self._sparse = np.uint64(0)

    def segments(self) -> Segments:
        """Return all segments in the order of the file."""
        if len(self._parts) != 1:
            self._parts = [joined_segments([NO_SEGMENTS, *self._parts])]
        return self._parts[0]

    def add(self, packets: Packets) -> None:
        """Add the segments of *packets*."""
        for start in range(0, len(packets), PACKETS_PER_CHUNK):
            part = packets.records[start : start + PACKETS_PER_CHUNK]
            self._records.view(np.ndarray)[: len(part)] = part
            self._follow(packets.data, len(part))

    def _follow(self, data: NDArray[np.uint8], count: int) -> None:
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

    def _thinned(self, part: Segments) -> Segments:
        if not self._sparse:
            return part
        kept = (part.pair & self._sparse) == 0
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
        mark = _mixed(way, start, end, np.asarray(segments.ack), flags.astype(np.int64))
        return Segments(np.array(records.ts_ns), mark, way ^ back, end > start, ends[0] < ends[1])


def joined_segments(parts: Sequence[Segments]) -> Segments:
    """Return all segments, part after part."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Segments(*columns)


_KINDS: Final[tuple[Any, ...]] = (np.int64, np.uint64, np.uint64, np.bool_, np.bool_)
NO_SEGMENTS: Final = Segments(*[np.zeros(0, dtype=kind) for kind in _KINDS])

COMMON_MIN: Final = 20
"""Minimum common segments; fewer may be retransmissions."""
COMMON_SHARE: Final = 0.5
"""Minimum share of differences that agree."""
TOGETHER_NS: Final = 20_000_000
"""Maximum agreement of times: longer than packets wait in a network."""


class Offset(NamedTuple):
    """A clock's lead, measured by *common* segments that agree within *spread_ns*."""

    ahead_ns: int
    spread_ns: int
    common: int


def common_times(first: Segments, second: Segments) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """Return the times of common segments at each point, once each, and their direction, in order of the second point."""
    first_rows, second_rows = _unique(first), _unique(second)
    _, at_one, at_two = np.intersect1d(
        first.mark[first_rows], second.mark[second_rows], assume_unique=True, return_indices=True
    )
    at_one, at_two = first_rows[at_one], second_rows[at_two]
    order = np.argsort(second.ts_ns[at_two], kind="stable")
    at_one, at_two = at_one[order], at_two[order]
    return first.ts_ns[at_one], second.ts_ns[at_two], second.upward[at_two]


def _unique(segments: Segments) -> NDArray[np.intp]:
    """Return segments with payload, SYN or FIN that were captured once."""
    filled = np.flatnonzero(segments.has_data)
    _, at, counts = np.unique(segments.mark[filled], return_index=True, return_counts=True)
    alone: NDArray[np.intp] = filled[at[counts == 1]]
    return alone


def offset_of_copies(first_ns: Longs, second_ns: Longs, upward: NDArray[np.bool_]) -> Offset | None:
    """Return the offset from the times of common segments, averaged over both directions; None if they contradict."""
    ahead = second_ns - first_ns
    if len(ahead) < COMMON_MIN:
        return None
    middle = _middle(ahead, upward)
    near = np.abs(ahead - middle) <= TOGETHER_NS
    if near.mean() < COMMON_SHARE:
        return None
    return Offset(middle, int(np.percentile(np.abs(ahead[near] - middle), 90)), len(ahead))


def _middle(ahead: Longs, upward: NDArray[np.bool_]) -> int:
    ways = [ahead[upward], ahead[~upward]]
    if min(map(len, ways)) < COMMON_MIN // 4:
        return int(np.median(ahead))
    return int(sum(int(np.median(way)) for way in ways) // 2)
