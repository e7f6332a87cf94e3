"""The dump that a master sends to a replica (PSYNC): framing and bytes."""

from __future__ import annotations

import re
from typing import Final

from cluster_core.errors import ProtocolError

EOF_MARK_BYTES: Final = 40
"""Length of the mark after `$EOF:` that also ends the dump (`CONFIG_RUN_ID_SIZE`)."""
_TRAILER_BYTES: Final = 9  # end opcode and checksum before the mark
_RDB_END: Final = 0xFF


_LENGTH: Final = re.compile(rb"\$([0-9]{1,19})\r\n")
_MARK: Final = re.compile(rb"\$EOF:([0-9a-zA-Z]{40})\r\n")
_LINE_BYTES_MAX: Final = 512


class DumpReceiver:
    """Extracts the dump from the bytes after SYNC, without the terminator of a diskless transfer."""

    def __init__(self) -> None:
        self.is_begun = self.is_ended = False
        """Whether the header line has arrived, and whether the dump is complete."""
        self.announced: int | None = None
        """The dump's length; None if unknown before its end."""
        self._line = bytearray()
        self._mark = b""
        self._received = 0
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return those of the dump; ProtocolError for a reply that is not one to SYNC."""
        if not self.is_begun:
            data = self._begin(data)
        if not self.is_begun or self.is_ended:
            return b""
        if self.announced is None:
            return self._feed_to_mark(data)
        data = data[: self.announced - self._received]
        self._received += len(data)
        self.is_ended = self._received == self.announced
        return data

    def _feed_to_mark(self, data: bytes) -> bytes:
        """Search for the mark right after the end of the dump; the same text inside the dump does not count."""
        known = self._held + data  # may end with the end of the dump and the mark
        at = known.find(self._mark, max(0, len(self._held) - EOF_MARK_BYTES + 1))
        while at >= 0 and not (at < _TRAILER_BYTES or known[at - _TRAILER_BYTES] == _RDB_END):
            at = known.find(self._mark, at + 1)
        self.is_ended = at >= 0
        end = at if self.is_ended else max(0, len(known) - EOF_MARK_BYTES - _TRAILER_BYTES)
        self._held = known[end:]
        return known[:end]

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
        if match := _LENGTH.fullmatch(line + end):
            self.announced = int(match[1])
            self.is_ended = not self.announced
        elif match := _MARK.fullmatch(line + end):
            self._mark = match[1]
        else:
            raise ProtocolError("the server does not answer SYNC with a dump")
        self.is_begun = True
        self._line.clear()
        return rest
