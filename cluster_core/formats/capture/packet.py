"""Packets and read errors of a capture file, in any container."""

from __future__ import annotations

from dataclasses import dataclass

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
