"""Find packets in the windows of captures, pcap and pcapng, without copying."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.pcap import (
    FILE_HEADER_BYTES,
    LINK_TYPE_MASK,
    MAGICS,
    CaptureProblem,
    CaptureReader,
    Packet,
)
from cluster_core.kernels.bus.packet_order import OFFSET_BITS, Packets
from cluster_core.kernels.bus.packets import CHUNK_FULL, PACKETS_PER_CHUNK, RECORD, WANTS_BYTES, rows_to_fill, walk_pcap

PCAP_VERSION = 2
_NO_BYTES = np.zeros(0, dtype=np.uint8)


class PacketReader:
    """Reads one decompressed capture: fill the bytes of `room` and pass their number to `take`, then `end_source`.

    *problems* lists faults of the file. *ahead_ns*: lead of its clock; *number*, *rank*: of the file; no packet has its turn
    before *from_ns*.
    """

    def __init__(self, number: int = 0, rank: int = 0, *, ahead_ns: int = 0, from_ns: int = 0) -> None:
        self.problems: list[CaptureProblem] = []
        self.turn_ns = from_ns
        """Lower bound of the turns of packets to come."""
        self._number, self._rank, self._ahead_ns = number, rank, ahead_ns
        self._records = rows_to_fill(RECORD, PACKETS_PER_CHUNK)
        self._window = self._tail = _NO_BYTES
        self._offset = 0  # of the tail's first byte in the file
        self._other: CaptureReader | None = None
        self._pcap: tuple[bool, int, int] | None = None
        """For a pcap file: little-endian or not, ns per unit of the fraction, link type."""
        self._damage: CaptureProblem | None = None

    def room(self, size_bytes: int) -> memoryview:
        """Return room for the next bytes, behind the incomplete packet before them; valid until `take`."""
        kept = len(self._tail)
        self._window = np.empty(kept + size_bytes, dtype=np.uint8)
        self._window[:kept] = self._tail
        return self._window.data[kept:]

    def take(self, count: int) -> Iterator[Packets]:
        """Take the first *count* bytes of the `room`, where packets stay, and yield complete ones."""
        kept, window, self._window = len(self._tail), self._window, _NO_BYTES
        data = window[: kept + count]
        if self._damage is not None:
            self._offset += count
        elif self._pcap is not None:
            yield from self._walk(data, 0)
        elif self._other is not None:
            yield from self._copy(self._other, data)
        elif len(data) < FILE_HEADER_BYTES:
            self._tail = data.copy()
        elif self._read_file_header(data[:FILE_HEADER_BYTES].tobytes()):
            yield from self._walk(data, FILE_HEADER_BYTES)
        else:
            self._tail, self._other = _NO_BYTES, CaptureReader()
            yield from self._copy(self._other, data)

    def end_source(self) -> None:
        """End the file and complete `problems`."""
        if self._other is None and self._pcap is None:
            self._other = CaptureReader()
            self._other.feed(self._tail.tobytes())
        if self._other is not None:
            self.problems += self._other.finish()
        elif self._damage is not None:
            skipped = self._offset - self._damage.offset
            self.problems.append(CaptureProblem(self._damage.offset, self._damage.reason, skipped))
        elif len(self._tail):
            self.problems.append(CaptureProblem(self._offset, "file ends inside a packet", len(self._tail)))

    def _read_file_header(self, header: bytes) -> bool:
        """Return whether it is a pcap file of a known version; `CaptureReader` takes or refuses others."""
        order, fraction_ns = MAGICS.get(header[:4], ("", 0))
        if not order or struct.unpack_from(order + "H", header, 4)[0] != PCAP_VERSION:
            return False
        self._pcap = order == "<", fraction_ns, struct.unpack_from(order + "I", header, 20)[0] & LINK_TYPE_MASK
        return True

    def _walk(self, data: NDArray[np.uint8], at: int) -> Iterator[Packets]:
        assert self._pcap is not None
        base, status, parts = self._offset, CHUNK_FULL, []
        while status == CHUNK_FULL:
            count, at, status = walk_pcap(data, at, base, *self._pcap, self._records)
            parts.append(np.array(self._records[:count].view(np.ndarray).view(RECORD)))
        self._offset, self._tail = base + at, data[at:].copy()
        if status != WANTS_BYTES:
            captured = struct.unpack_from("<I" if self._pcap[0] else ">I", data[at + 8 : at + 12].tobytes())[0]
            self._damage = CaptureProblem(base + at, f"packet claims {captured} captured bytes")
            self._offset, self._tail = base + len(data), _NO_BYTES
        yield from self._packets(parts[0] if len(parts) == 1 else np.concatenate(parts), data)

    def _copy(self, reader: CaptureReader, data: NDArray[np.uint8]) -> Iterator[Packets]:
        """Yield packets of a rare container, copied into one buffer."""
        items = reader.feed(data.tobytes())
        self.problems += [item for item in items if isinstance(item, CaptureProblem)]
        packets = [item for item in items if isinstance(item, Packet)]
        sizes = np.array([len(packet.data) for packet in packets], dtype=np.int64)
        records = np.zeros(len(packets), RECORD)
        for name in ("ts_ns", "link_type", "length", "offset"):
            records[name] = [getattr(packet, name) for packet in packets]
        records["at"], records["captured"] = np.cumsum(sizes) - sizes, sizes
        yield from self._packets(
            records, np.frombuffer(bytearray().join(packet.data for packet in packets), dtype=np.uint8)
        )

    def _packets(self, records: NDArray[np.void], data: NDArray[np.uint8]) -> Iterator[Packets]:
        if not len(records):
            return
        records["ts_ns"] -= self._ahead_ns
        records["offset"] |= self._number << OFFSET_BITS
        turns = np.maximum.accumulate(records["ts_ns"]).clip(self.turn_ns)
        self.turn_ns = int(turns[-1])
        yield Packets(turns, np.full(len(records), self._rank, dtype=np.int64), records, data)
