"""Captures to columns of bus messages: the fast twin of `formats.capture.bus_capture.read_bus`.

How this works. A chunk of the file goes through four kernels: records of the container, TCP segments, messages in
order, columns. What the third one only lists (holes, overlaps, lost step, cut packets) is followed by the plain
`TcpStream` and `BusFramer`, and the messages that come of it are put back in order of packets before the fourth
kernel sees them. So the two readers agree by construction wherever anything is unusual. Memory is bounded by a chunk,
the directions under way and what they gather. Containers other than pcap are read by the plain `CaptureReader`,
packets then go the same way.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_capture import STREAMS_MAX, SkippedPackets
from cluster_core.formats.capture.link_layers import SKIP_REASONS
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import FILE_HEADER_BYTES, LINK_TYPE_MASK, MAGICS
from cluster_core.formats.capture.reader import CaptureReader
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.follower import BusFollower
from cluster_core.kernels.bus.packets import (
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

CHUNK_BYTES = 6 << 20
"""The kernels take about this many bytes at a time (more than one packet can have), so that one finds in the cache what the one before has read."""

PCAP_VERSION = 2
_NO_BYTES = np.zeros(0, dtype=np.uint8)
_SCRATCH = ("_records", "_segments", "_window")


class BusDecoder:
    """Feed it the (decompressed) files of a series, in pieces; it yields batches in order.

    ``feed`` takes a piece of the current file (bytes, memoryview, mmap or uint8 array); or read into the bytes that
    `room` gives and tell `take` how many, so that nothing is copied.  `end_source` ends the file, `finish` the series.
    Never raises on any input; the rows of problems are in the batches.  *keep_packed*: the batches hold the messages'
    bytes, too.

    It can be saved between two files (`cluster_core.replay.saving`).
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX, keep_packed: bool = False) -> None:
        self._follower = BusFollower(streams_max, keep_packed=keep_packed)
        self._packets = 0
        self._lay_out()
        self._skipped: dict[int, list[int]] = {}
        self._reset()

    def _lay_out(self) -> None:
        self._records = rows_to_fill(RECORD, PACKETS_PER_CHUNK)
        self._segments = new_rows(SEGMENT, PACKETS_PER_CHUNK)
        self._window = _NO_BYTES

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    @property
    def repeated_bytes(self) -> int:
        """Payload bytes that came more than once, in directions that have ended."""
        return self._follower.repeated_bytes

    def _reset(self) -> None:
        self._tail: NDArray[np.uint8] = _NO_BYTES
        self._offset = 0  # of the tail's first byte in the file
        self._reader: CaptureReader | None = None
        self._is_pcap = False
        self._is_little = True
        self._fraction_ns = 0
        self._link_type = 0
        self._problem: CaptureProblem | None = None

    def take_packets(self, packets: list[Packet]) -> Iterator[BusBatch]:
        """Follow packets that somebody else has read (captures of several places, in one order of time)."""
        yield from self._take_packets(packets)

    def take_records(self, data: NDArray[np.uint8], records: NDArray[np.void]) -> Iterator[BusBatch]:
        """Follow packets whose *records* (`RECORD`) say where in *data* they are."""
        for start in range(0, len(records), PACKETS_PER_CHUNK):
            part = records[start : start + PACKETS_PER_CHUNK]
            self._records.view(np.ndarray)[: len(part)] = part
            yield from self._follow(data, len(part))

    def feed(self, piece: bytes | memoryview | NDArray[np.uint8]) -> Iterator[BusBatch]:
        """Add a piece of the current file and yield what it completes."""
        data = np.frombuffer(piece, dtype=np.uint8)
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

    def room(self) -> memoryview:
        """Room for the next piece of the current file, behind what is left of the one before; good until `take`."""
        kept = len(self._tail)
        if len(self._window) < max(CHUNK_BYTES, 2 * kept):
            self._window = np.empty(max(CHUNK_BYTES, 2 * kept), dtype=np.uint8)
        self._window[:kept] = self._tail
        return self._window.data[kept:]

    def take(self, count: int) -> Iterator[BusBatch]:
        """Take the first *count* bytes of the `room` and yield what they complete."""
        kept = len(self._tail)
        if self._is_pcap and self._problem is None:
            yield from self._feed_pcap(self._window[: kept + count], 0)
        else:
            yield from self.feed(self._window[kept : kept + count])

    def end_packets(self) -> BusBatch:
        """The captures behind `take_packets` end: tell what was skipped in them."""
        batch = self._empty()
        self._tell_skipped(batch)
        return batch

    def empty(self) -> BusBatch:
        """A batch without messages, for rows of others."""
        return self._empty()

    def end_source(self) -> BusBatch:
        """The current file ends: a batch without messages that tells what was skipped in it and what is wrong."""
        batch = self._empty()
        if self._reader is None and not self._is_pcap:
            self._reader = CaptureReader()
            self._reader.feed(self._tail.tobytes())
        if self._reader is not None:
            batch.rows.extend(self._reader.finish())
        elif self._problem is not None:
            skipped = self._offset - self._problem.offset
            batch.rows.append(CaptureProblem(self._problem.offset, self._problem.reason, skipped))
        elif len(self._tail):
            batch.rows.append(CaptureProblem(self._offset, "file ends inside a packet", len(self._tail)))
        self._tell_skipped(batch)
        self._reset()
        return batch

    def _tell_skipped(self, batch: BusBatch) -> None:
        for reason, counts in sorted(self._skipped.items()):
            batch.rows.append(SkippedPackets(SKIP_REASONS[reason], *counts))
        self._skipped = {}

    def finish(self) -> BusBatch:
        """The series ends: what every direction still held."""
        return self._follower.finish()

    def _empty(self) -> BusBatch:
        return self._follower.empty()

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

    def _feed_pcap(self, data: NDArray[np.uint8], at: int) -> Iterator[BusBatch]:
        base = self._offset
        while True:
            chunk = data[: at + CHUNK_BYTES]
            walked = walk_pcap(chunk, at, base, self._is_little, self._fraction_ns, self._link_type, self._records)
            count, at, status = walked
            yield from self._follow(chunk, count)
            if status == CHUNK_FULL or (status == WANTS_BYTES and count and len(chunk) < len(data)):
                continue
            break
        self._offset = base + at
        self._tail = data[at:].copy()
        if status != WANTS_BYTES:
            captured = struct.unpack_from("<I" if self._is_little else ">I", data[at + 8 : at + 12].tobytes())[0]
            reason = f"packet claims {captured} captured bytes"
            self._problem = CaptureProblem(base + at, reason)
            self._offset = base + len(data)
            self._tail = self._tail[:0]

    def _feed_reader(self, data: NDArray[np.uint8]) -> Iterator[BusBatch]:
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
                    batch = self._empty()
                    batch.rows.append(item)
                    yield batch
            yield from self._take_packets(packets)

    def _take_packets(self, packets: list[Packet]) -> Iterator[BusBatch]:
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

    def _follow(self, data: NDArray[np.uint8], count: int) -> Iterator[BusBatch]:
        if not count:
            return
        self._follower.reserve_addresses(count)
        view_segments(data, self._records, count, self._follower.addresses, self._segments)
        self._count_skipped(count)
        base = self._packets
        self._packets += count
        yield from self._follower.follow(data, self._records, self._segments, count, base)

    def _count_skipped(self, count: int) -> None:
        reasons = self._segments.reason[:count]
        if not reasons.any():
            return
        for reason in np.unique(reasons[reasons > 0]).tolist():
            at = np.flatnonzero(reasons == reason)
            counts = self._skipped.setdefault(reason, [0, 0, int(self._records.offset[at[0]])])
            counts[0] += len(at)
            counts[1] += int(self._records.captured[at].sum())
