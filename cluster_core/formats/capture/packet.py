"""What a capture file holds, whatever its container: packets, and places that could not be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class ContainerReader(ABC):
    """Feed it the file in pieces of any size; it returns packets, and one problem where it cannot go on."""

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
        """The file ends: return what is wrong with its end, if anything is."""
        if self._stopped is not None:
            return [CaptureProblem(self._stopped.offset, self._stopped.reason, self._skipped)]
        if not self._buffer and self.offset:
            return []
        return [CaptureProblem(self.offset, f"file ends inside a {self._unit()}", len(self._buffer))]

    @abstractmethod
    def _read(self, found: list[Packet | CaptureProblem]) -> int:
        """Add what the buffer holds whole to *found*; return how many bytes of it are read."""

    @abstractmethod
    def _unit(self) -> str:
        """What the buffer holds a part of."""

    def _stop(self, at: int, reason: str) -> None:
        """Read nothing behind byte *at* of the buffer."""
        self._stopped = CaptureProblem(self.offset + at, reason)
