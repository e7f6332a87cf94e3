"""What a capture file holds, whatever its container: packets, and places that could not be read."""

from __future__ import annotations

from dataclasses import dataclass

PACKET_BYTES_MAX = 1 << 22
"""A packet that claims more captured bytes is damage: capture programs stop at 262,144 (libpcap's
MAXIMUM_SNAPLEN).
"""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet: *length* bytes were on the wire, *data* holds the captured ones; *offset* is that of its
    record.
    """

    ts_ns: int
    link_type: int
    data: bytes
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class CaptureProblem:
    """A place where the file cannot be read: *skipped_bytes* were not read because of it (None: not known)."""

    offset: int
    reason: str
    skipped_bytes: int | None = None
