"""Packets in the windows of captures, pcap and pcapng, found without copying them; and the segments of TCP in them."""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import Row
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import FILE_HEADER_BYTES, LINK_TYPE_MASK, MAGICS, CaptureReader
from cluster_core.kernels.bus.packets import (
    ADDRESS_BYTES,
    CHUNK_FULL,
    PACKETS_PER_CHUNK,
    RECORD,
    SEGMENT,
    WANTS_BYTES,
    new_rows,
    rows_to_fill,
    view_segments,
    walk_pcap,
)
from cluster_core.kernels.interning import new_interned
from cluster_core.wire.tcp_stream import FIN, SYN

CHUNK_BYTES = 2 << 20
"""The kernels take about this many bytes at a time, or a packet, so that one finds in the cache what the one before has read."""

PCAP_VERSION = 2
_NO_BYTES = np.zeros(0, dtype=np.uint8)
T = TypeVar("T")


class ContainerReader(Generic[T]):
    """Feed it the (decompressed) files of a series, in pieces; a subclass says what becomes of the packets.

    ``feed`` takes a piece of the current file (bytes, memoryview, mmap or uint8 array); or read into the bytes that
    `room` gives and tell `take` how many, so that nothing is copied.
    """

    def __init__(self) -> None:
        self._lay_out()
        self._reset()

    def _lay_out(self) -> None:
        self._records = rows_to_fill(RECORD, PACKETS_PER_CHUNK)
        self._window = _NO_BYTES

    def _reset(self) -> None:
        self._tail: NDArray[np.uint8] = _NO_BYTES
        self._offset = 0  # of the tail's first byte in the file
        self._reader: CaptureReader | None = None
        self._is_pcap = False
        self._is_little = True
        self._fraction_ns = 0
        self._link_type = 0
        self._problem: CaptureProblem | None = None

    @abstractmethod
    def _follow(self, data: NDArray[np.uint8], count: int) -> Iterator[T]:
        """Take the first *count* records, whose bytes are in *data*."""

    @abstractmethod
    def _told(self, row: Row) -> Iterator[T]:
        """Something is wrong between two packets."""

    def _rest(self) -> Iterator[T]:
        """What was put off in order to come with what follows."""
        return iter(())

    def feed(self, piece: bytes | memoryview | NDArray[np.uint8]) -> Iterator[T]:
        """Add a piece of the current file and yield what it completes."""
        yield from self._feed(np.frombuffer(piece, dtype=np.uint8))
        yield from self._rest()

    def _feed(self, data: NDArray[np.uint8]) -> Iterator[T]:
        if self._problem is not None:
            self._offset += len(data)
            return
        if self._reader is not None:
            yield from self._feed_reader(data)
            return
        if len(self._tail):
            data = np.concatenate((self._tail, data))
        at = 0
        if not self._is_pcap:
            if len(data) < FILE_HEADER_BYTES:
                self._tail = data.copy()
                return
            if not self._read_file_header(data[:FILE_HEADER_BYTES].tobytes()):
                self._reader = CaptureReader()
                self._tail = self._tail[:0]
                yield from self._feed_reader(data)
                return
            at = FILE_HEADER_BYTES
        yield from self._feed_pcap(data, at)

    def room(self, size_bytes: int = 0) -> memoryview:
        """Room for the next piece of the current file, behind what is left of the one before; good until `take`."""
        kept, size_bytes = len(self._tail), size_bytes or CHUNK_BYTES
        if len(self._window) < max(size_bytes, 2 * kept):
            self._window = np.empty(max(size_bytes, 2 * kept), dtype=np.uint8)
        self._window[:kept] = self._tail
        return self._window.data[kept:]

    def take(self, count: int) -> Iterator[T]:
        """Take the first *count* bytes of the `room` and yield what they complete; what fills the room may come with later pieces."""
        kept, is_full = len(self._tail), len(self._tail) + count == len(self._window)
        if self._is_pcap and self._problem is None:
            yield from self._feed_pcap(self._window[: kept + count], 0)
        else:
            yield from self._feed(self._window[kept : kept + count])
        if not is_full:
            yield from self._rest()

    def _end(self) -> list[Row]:
        """The current file ends: what is wrong with it."""
        rows: list[Row] = []
        if self._reader is None and not self._is_pcap:
            self._reader = CaptureReader()
            self._reader.feed(self._tail.tobytes())
        if self._reader is not None:
            rows.extend(self._reader.finish())
        elif self._problem is not None:
            skipped = self._offset - self._problem.offset
            rows.append(CaptureProblem(self._problem.offset, self._problem.reason, skipped))
        elif len(self._tail):
            rows.append(CaptureProblem(self._offset, "file ends inside a packet", len(self._tail)))
        self._reset()
        return rows

    def _read_file_header(self, header: bytes) -> bool:
        """Take on a pcap file of a version that is known.

        Anything else is for the plain reader to take or to refuse.
        """
        order, fraction_ns = MAGICS.get(header[:4], ("", 0))
        if not order or struct.unpack_from(order + "H", header, 4)[0] != PCAP_VERSION:
            return False
        self._is_pcap = True
        self._is_little, self._fraction_ns = order == "<", fraction_ns
        self._link_type = struct.unpack_from(order + "I", header, 20)[0] & LINK_TYPE_MASK
        return True

    def _feed_pcap(self, data: NDArray[np.uint8], at: int) -> Iterator[T]:
        base, size_bytes = self._offset, CHUNK_BYTES
        while True:
            chunk = data[: at + size_bytes]
            walked = walk_pcap(chunk, at, base, self._is_little, self._fraction_ns, self._link_type, self._records)
            count, at, status = walked
            yield from self._follow(chunk, count)
            if status != CHUNK_FULL and (status != WANTS_BYTES or len(chunk) == len(data)):
                break
            size_bytes = CHUNK_BYTES if count else 2 * size_bytes
        self._offset = base + at
        self._tail = data[at:].copy()
        if status != WANTS_BYTES:
            captured = struct.unpack_from("<I" if self._is_little else ">I", data[at + 8 : at + 12].tobytes())[0]
            reason = f"packet claims {captured} captured bytes"
            self._problem = CaptureProblem(base + at, reason)
            self._offset = base + len(data)
            self._tail = self._tail[:0]

    def _feed_reader(self, data: NDArray[np.uint8]) -> Iterator[T]:
        """Packets of a rare container: copied into one buffer, then as usual."""
        assert self._reader is not None
        for start in range(0, len(data), CHUNK_BYTES):
            packets: list[Packet] = []
            for item in self._reader.feed(data[start : start + CHUNK_BYTES].tobytes()):
                if isinstance(item, Packet):
                    packets.append(item)
                else:
                    yield from self._take_packets(packets)
                    packets = []
                    yield from self._told(item)
            yield from self._take_packets(packets)

    def _take_packets(self, packets: list[Packet]) -> Iterator[T]:
        for start in range(0, len(packets), PACKETS_PER_CHUNK):
            part = packets[start : start + PACKETS_PER_CHUNK]
            count = len(part)
            sizes = np.array([len(packet.data) for packet in part], dtype=np.int64)
            self._records.ts_ns[:count] = [packet.ts_ns for packet in part]
            self._records.link_type[:count] = [packet.link_type for packet in part]
            self._records.at[:count] = np.cumsum(sizes) - sizes
            self._records.captured[:count] = sizes
            self._records.length[:count] = [packet.length for packet in part]
            self._records.offset[:count] = [packet.offset for packet in part]
            data = np.frombuffer(b"".join(packet.data for packet in part), dtype=np.uint8)
            yield from self._follow(data, count)


SEGMENTS_MAX = 1 << 21
"""Segments that are kept; above it only those of every second, fourth, … connection are, in every file the same ones."""
_MIX_A, _MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_SHIFT = np.uint64(29)
Hashes = NDArray[np.uint64]
Longs = NDArray[np.int64]


class Segments(NamedTuple):
    """One row a TCP segment: its time and, equal at all points that captured it, its *mark*.

    *pair* is equal for both directions of a connection; *upward* says which end sent it, by the order of their addresses.
    *has_data*: payload, SYN or FIN.
    """

    ts_ns: Longs
    mark: Hashes
    pair: Hashes
    has_data: NDArray[np.bool_]
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
    marks = np.unique(segments.mark[segments.has_data])
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
    """All segments, part after part."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Segments(*columns)


_KINDS: Final[tuple[Any, ...]] = (np.int64, np.uint64, np.uint64, np.bool_, np.bool_)
NO_SEGMENTS: Final = Segments(*[np.zeros(0, dtype=kind) for kind in _KINDS])
