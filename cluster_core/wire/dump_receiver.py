"""The dump that a master sends to a replica (PSYNC): framing and bytes."""

from __future__ import annotations

import re
from typing import Final

from cluster_core.errors import ProtocolError

EOF_MARK_BYTES: Final = 40
"""Length of the mark after `$EOF:` that also ends the dump (`CONFIG_RUN_ID_SIZE`)."""
_TRAILER_BYTES: Final = 9  # end opcode and checksum before the mark
_RDB_END: Final = 0xFF


class _Frame:
    """Counts the bytes of a dump: *announced* bytes, or all bytes before *terminator*."""

    __slots__ = ("_tail", "announced", "is_ended", "received", "terminator")

    def __init__(self, announced: int | None, terminator: bytes = b"") -> None:
        self.announced = announced
        self.terminator = terminator
        self.received = 0
        self.is_ended = announced == 0
        self._tail = b""

    def feed(self, data: bytes) -> int:
        """Return how many leading bytes of *data* belong to the dump and its terminator."""
        if self.announced is None:
            return self._feed_to_mark(data)
        count = min(len(data), self.announced - self.received)
        self.received += count
        self.is_ended = self.received == self.announced
        return count

    def _feed_to_mark(self, data: bytes) -> int:
        """Search for the mark right after the end of the dump; the same text inside the dump does not count."""
        known = self._tail + data
        at = known.find(self.terminator, max(0, len(self._tail) - EOF_MARK_BYTES + 1))
        while at >= 0 and not (at < _TRAILER_BYTES or known[at - _TRAILER_BYTES] == _RDB_END):
            at = known.find(self.terminator, at + 1)
        if at < 0:
            self._tail = known[-(EOF_MARK_BYTES + _TRAILER_BYTES) :]
            return len(data)
        self.is_ended = True
        return at + EOF_MARK_BYTES - len(self._tail)


_LENGTH: Final = re.compile(rb"\$([0-9]{1,19})\r\n")
_MARK: Final = re.compile(rb"\$EOF:([0-9a-zA-Z]{40})\r\n")
_LINE_BYTES_MAX: Final = 512


class DumpReceiver:
    """Extracts the dump from the bytes after SYNC, without the terminator of a diskless transfer."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._dump: _Frame | None = None
        self._held = b""

    @property
    def is_begun(self) -> bool:
        """Return whether the header line has arrived."""
        return self._dump is not None

    @property
    def is_ended(self) -> bool:
        """Return whether the dump is complete."""
        return self._dump is not None and self._dump.is_ended

    @property
    def announced(self) -> int | None:
        """Return the dump's length; None if unknown before its end."""
        return None if self._dump is None else self._dump.announced

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return the part that belongs to the dump.

        Raises ProtocolError for an error reply and for anything that is not a reply to SYNC.
        """
        if self._dump is None:
            data = self._begin(data)
        if self._dump is None or self._dump.is_ended:
            return b""
        data = data[: self._dump.feed(data)]
        if self._dump.announced is not None:
            return data
        data = self._held + data  # the last bytes may be the terminator
        ends = len(data) - EOF_MARK_BYTES
        self._held = b"" if self.is_ended else data[max(ends, 0) :]
        return data[: max(ends, 0)]

    def _begin(self, data: bytes) -> bytes:
        """Read the header line and return the bytes after it."""
        self._line += data
        del self._line[: len(self._line) - len(self._line.lstrip(b"\n"))]
        line, end, rest = bytes(self._line).partition(b"\r\n")
        if not end:
            if len(line) > _LINE_BYTES_MAX:
                raise ProtocolError("the server does not answer SYNC with a dump")
            return b""
        if line.startswith(b"-"):
            raise ProtocolError(line[1:].decode("utf-8", "backslashreplace"))
        if found := _LENGTH.fullmatch(line + end):
            self._dump = _Frame(int(found[1]))
        elif found := _MARK.fullmatch(line + end):
            self._dump = _Frame(None, found[1])
        else:
            raise ProtocolError("the server does not answer SYNC with a dump")
        self._line.clear()
        return rest
