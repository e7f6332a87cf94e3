"""The classic pcap container: microseconds or nanoseconds, either byte order (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct

from cluster_core.formats.capture.packet import PACKET_BYTES_MAX, CaptureProblem, ContainerReader, Packet

FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
LINK_TYPE_MASK = 0xFFFF
"""The upper half of the link type field says how long a frame check sequence is."""

MAGICS: dict[bytes, tuple[str, int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First four bytes to (byte order, nanoseconds of a unit of the fraction)."""


class PcapReader(ContainerReader):
    """Reads the classic container."""

    def __init__(self) -> None:
        super().__init__()
        self._record = struct.Struct("<IIII")
        self._fraction_ns = 0
        self._link_type = -1

    def _unit(self) -> str:
        return "file header" if self._link_type < 0 else "packet"

    def _read(self, found: list[Packet | CaptureProblem]) -> int:
        at = 0
        if self._link_type < 0:
            if len(self._buffer) < FILE_HEADER_BYTES:
                return 0
            at = self._read_file_header()
        return at if self._stopped is not None else self._read_records(at, found)

    def _read_file_header(self) -> int:
        order, self._fraction_ns = MAGICS.get(bytes(self._buffer[:4]), ("", 0))
        if not order:
            self._stop(0, "not a pcap file")
            return 0
        major, _, _, _, _, link_type = struct.unpack_from(order + "HHiIII", self._buffer, 4)
        if major != 2:
            self._stop(4, f"pcap version {major} is not known")
            return 0
        self._record = struct.Struct(order + "IIII")
        self._link_type = link_type & LINK_TYPE_MASK
        return FILE_HEADER_BYTES

    def _read_records(self, at: int, found: list[Packet | CaptureProblem]) -> int:
        size = len(self._buffer)
        while size - at >= RECORD_HEADER_BYTES:
            seconds, fraction, captured, length = self._record.unpack_from(self._buffer, at)
            if captured > PACKET_BYTES_MAX:
                self._stop(at, f"packet claims {captured} captured bytes")
                return at
            end = at + RECORD_HEADER_BYTES + captured
            if end > size:
                break
            data = bytes(memoryview(self._buffer)[at + RECORD_HEADER_BYTES : end])
            ts_ns = seconds * 1_000_000_000 + fraction * self._fraction_ns
            found.append(Packet(ts_ns, self._link_type, data, max(length, captured), self.offset + at))
            at = end
        return at
