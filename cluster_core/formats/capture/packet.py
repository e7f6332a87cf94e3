"""Packets and read errors of a capture file, in any container."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class ContainerReader(ABC):
    """Reads a file fed in pieces: returns packets, and one problem where it stops."""

    def __init__(self) -> None:
        self.offset = 0
        self._buffer = bytearray()
        self._stopped: CaptureProblem | None = None
        self._skipped = 0

    def feed(self, data: bytes) -> list[Packet | CaptureProblem]:
        """Add the next bytes of the file and return the packets that they complete."""
        if self._stopped is not None:
            self._skipped += len(data)
            return []
        self._buffer += data
        found: list[Packet | CaptureProblem] = []
        at = self._read(found)
        self.offset += at
        del self._buffer[:at]
        if self._stopped is not None:
            self._skipped = len(self._buffer)
            self._buffer.clear()
        return found

    def finish(self) -> list[CaptureProblem]:
        """End the file and return problems at its end."""
        if self._stopped is not None:
            return [CaptureProblem(self._stopped.offset, self._stopped.reason, self._skipped)]
        if not self._buffer and self.offset:
            return []
        return [CaptureProblem(self.offset, f"file ends inside a {self._unit()}", len(self._buffer))]

    @abstractmethod
    def _read(self, found: list[Packet | CaptureProblem]) -> int:
        """Append complete records of the buffer to *found*; return the bytes consumed."""

    @abstractmethod
    def _unit(self) -> str:
        """Name the incomplete unit in the buffer."""

    def _stop(self, at: int, reason: str) -> None:
        """Stop reading at byte *at* of the buffer."""
        self._stopped = CaptureProblem(self.offset + at, reason)
