"""Packets of pcap and pcapng files (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

PACKET_BYTES_MAX = 1 << 22
"""A larger captured length is damage; capture programs stop at 262,144 (libpcap's MAXIMUM_SNAPLEN)."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: *length* bytes sent, *data* captured; *offset* of its record."""

    ts_ns: int
    link_type: int
    data: bytes
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class CaptureProblem:
    """An unreadable place of the file; *skipped_bytes* were skipped (None: unknown)."""

    offset: int
    reason: str
    skipped_bytes: int | None = None


FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
LINK_TYPE_MASK = 0xFFFF
"""The upper half of the link type field is the length of the frame check sequence."""

MAGICS: dict[bytes, tuple[str, int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order and ns per unit of the fraction, by the first four bytes."""


SECTION = 0x0A0D0D0A
INTERFACE = 1
OBSOLETE_PACKET = 2
SIMPLE_PACKET = 3
ENHANCED_PACKET = 6
BLOCK_BYTES_MIN = 12
BLOCK_BYTES_MAX = PACKET_BYTES_MAX + (1 << 16)
INTERFACES_MAX = 4096
TSRESOL_OPTION = 9
TSOFFSET_OPTION = 14
BYTE_ORDER_MAGIC = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
MAGIC = b"\x0a\x0d\x0d\x0a"

_SECOND_NS = 1_000_000_000
_TSRESOL_DEFAULT = 6


class Interface(NamedTuple):
    """One interface of a section: link type and clock."""

    link_type: int
    ticks_per_second: int
    offset_s: int


_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd", b"BZ": "bzip2", b"\xfd7": "xz"}


class CaptureReader:
    """Reads a decompressed pcap or pcapng file fed in pieces; returns packets, and one problem where it stops.

    Keeps only the incomplete packet. An inconsistent pcapng packet block is a problem, and reading continues after it.
    """

    def __init__(self) -> None:
        self.offset = 0
        self._buffer = bytearray()
        self._stopped: CaptureProblem | None = None
        self._skipped = 0
        self._unit = ""
        self._record = struct.Struct("<IIII")
        self._fraction_ns = 0
        self._link_type = -1
        self._order = "<"
        self._interfaces: list[Interface] = []

    def feed(self, data: bytes) -> list[Packet | CaptureProblem]:
        """Add the next bytes of the file and return the packets that they complete."""
        if self._stopped is not None:
            self._skipped += len(data)
            return []
        self._buffer += data
        items: list[Packet | CaptureProblem] = []
        at = self._read(items)
        self.offset += at
        del self._buffer[:at]
        if self._stopped is not None:
            self._skipped = len(self._buffer)
            self._buffer.clear()
        return items

    def finish(self) -> list[CaptureProblem]:
        """End the file and return problems at its end, or of the whole file."""
        if self._stopped is not None:
            return [CaptureProblem(self._stopped.offset, self._stopped.reason, self._skipped)]
        if not self._unit:
            return [CaptureProblem(0, not_a_capture(bytes(self._buffer)), len(self._buffer))]
        if not self._buffer and self.offset:
            return []
        return [CaptureProblem(self.offset, f"file ends inside a {self._unit}", len(self._buffer))]

    def _stop(self, at: int, reason: str) -> None:
        """Stop reading at byte *at* of the buffer."""
        self._stopped = CaptureProblem(self.offset + at, reason)

    def _read(self, items: list[Packet | CaptureProblem]) -> int:
        """Append complete records of the buffer to *items*; return the bytes consumed."""
        start = bytes(self._buffer[:4])
        if not self._unit and len(start) == len(MAGIC):
            self._unit = "block" if start == MAGIC else "file header"
            if start != MAGIC and start not in MAGICS:
                self._stop(0, not_a_capture(start))
        if not self._unit or self._stopped is not None:
            return 0
        return self._read_blocks(items) if self._unit == "block" else self._read_pcap(items)

    def _read_pcap(self, items: list[Packet | CaptureProblem]) -> int:
        at = 0
        if self._link_type < 0:
            if len(self._buffer) < FILE_HEADER_BYTES:
                return 0
            at = self._read_file_header()
        return at if self._stopped is not None else self._read_records(at, items)

    def _read_file_header(self) -> int:
        order, self._fraction_ns = MAGICS[bytes(self._buffer[:4])]
        major, _, _, _, _, link_type = struct.unpack_from(order + "HHiIII", self._buffer, 4)
        if major != 2:
            self._stop(4, f"pcap version {major} is not known")
            return 0
        self._record = struct.Struct(order + "IIII")
        self._link_type = link_type & LINK_TYPE_MASK
        self._unit = "packet"
        return FILE_HEADER_BYTES

    def _read_records(self, at: int, items: list[Packet | CaptureProblem]) -> int:
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
            items.append(Packet(ts_ns, self._link_type, data, max(length, captured), self.offset + at))
            at = end
        return at

    def _read_blocks(self, items: list[Packet | CaptureProblem]) -> int:
        at = 0
        while self._stopped is None and len(self._buffer) - at >= BLOCK_BYTES_MIN:
            length = self._block_bytes(at)
            if self._stopped is not None or length > len(self._buffer) - at:
                break
            self._read_block(bytes(memoryview(self._buffer)[at : at + length]), self.offset + at, items)
            at += length
        return at

    def _block_bytes(self, at: int) -> int:
        """Return the length of the block at *at*; a section header also sets the byte order."""
        if self._buffer[at : at + 4] == MAGIC:
            order = BYTE_ORDER_MAGIC.get(bytes(self._buffer[at + 8 : at + 12]))
            if order is None:
                self._stop(at, "section header without a byte-order magic")
                return 0
            self._order = order
        (length,) = struct.unpack_from(self._order + "I", self._buffer, at + 4)
        if length < BLOCK_BYTES_MIN or length % 4 or length > BLOCK_BYTES_MAX:
            self._stop(at, f"block claims {length} bytes")
        return int(length)

    def _read_block(self, block: bytes, offset: int, items: list[Packet | CaptureProblem]) -> None:
        (kind,) = struct.unpack_from(self._order + "I", block)
        body = block[8:-4]
        if kind == SECTION:
            self._interfaces = []
        elif kind == INTERFACE:
            self._read_interface(body, offset, items)
        elif kind == ENHANCED_PACKET:
            self._read_packet(body, offset, items)
        elif kind in (OBSOLETE_PACKET, SIMPLE_PACKET):
            items.append(CaptureProblem(offset, f"packet block of the unsupported type {kind}", len(body)))

    def _read_interface(self, body: bytes, offset: int, items: list[Packet | CaptureProblem]) -> None:
        if len(body) < 8 or len(self._interfaces) >= INTERFACES_MAX:
            self._stop(offset - self.offset, "interface block cannot be read")
            return
        (link_type,) = struct.unpack_from(self._order + "H", body)
        ticks, offset_s = 10**_TSRESOL_DEFAULT, 0
        at = 8
        while len(body) - at >= 4:
            code, length = struct.unpack_from(self._order + "HH", body, at)
            value = body[at + 4 : at + 4 + length]
            if code == 0 or len(value) < length:
                break
            if code == TSRESOL_OPTION and length >= 1:
                ticks = (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
            elif code == TSOFFSET_OPTION and length >= 8:
                (offset_s,) = struct.unpack_from(self._order + "q", value)
            at += 4 + length + (-length % 4)
        self._interfaces.append(Interface(link_type, ticks, offset_s))

    def _read_packet(self, body: bytes, offset: int, items: list[Packet | CaptureProblem]) -> None:
        form = struct.Struct(self._order + "IIIII")
        if len(body) < form.size:
            items.append(CaptureProblem(offset, "packet block is too short", len(body)))
            return
        index, high, low, captured, length = form.unpack_from(body)
        if index >= len(self._interfaces) or captured > len(body) - form.size:
            reason = f"packet block of interface {index} with {captured} captured bytes contradicts its section"
            items.append(CaptureProblem(offset, reason, len(body)))
            return
        interface = self._interfaces[index]
        ts_ns = ((high << 32) | low) * _SECOND_NS // interface.ticks_per_second + interface.offset_s * _SECOND_NS
        if not 0 <= ts_ns < 1 << 63:
            items.append(CaptureProblem(offset, "packet block with an impossible time", len(body)))
            return
        data = body[form.size : form.size + captured]
        items.append(Packet(ts_ns, interface.link_type, data, max(length, captured), offset))


def not_a_capture(start: bytes) -> str:
    """Describe a file that starts with *start* and is not a capture."""
    if not start:
        return "the file is empty"
    packed = _COMPRESSED.get(start[:2])
    return f"a {packed} file: decompress it first" if packed else f"not a capture file (begins with {start[:4].hex()})"
