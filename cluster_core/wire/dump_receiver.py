"""What a server answers to SYNC, as a replica reads it: newlines while it forks and saves, ``$LENGTH`` or ``$EOF:MARK``, the dump."""

from __future__ import annotations

import re
from typing import Final

from cluster_core.errors import ProtocolError
from cluster_core.wire.dump_skim import EOF_MARK_BYTES, DumpSkimmer

_LENGTH: Final = re.compile(rb"\$([0-9]{1,19})\r\n")
_MARK: Final = re.compile(rb"\$EOF:([0-9a-zA-Z]{40})\r\n")
_LINE_BYTES_MAX: Final = 512


class DumpReceiver:
    """Feed it what comes after SYNC was sent; it returns the bytes of the dump, without the mark that ends one that was sent as it was made."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._dump: DumpSkimmer | None = None
        self._held = b""

    @property
    def is_begun(self) -> bool:
        """Whether the server has said how the dump will end."""
        return self._dump is not None

    @property
    def is_ended(self) -> bool:
        """Whether all of the dump is there."""
        return self._dump is not None and self._dump.is_ended

    @property
    def announced(self) -> int | None:
        """Its length, None where that is not known before its end."""
        return None if self._dump is None else self._dump.announced

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes and return what they hold of the dump.

        Raises ProtocolError for an error that the server answers, and for what is no answer to SYNC.
        """
        if self._dump is None:
            data = self._begin(data)
        if self._dump is None or self._dump.is_ended:
            return b""
        data = data[: self._dump.feed(data)]
        if self._dump.announced is not None:
            return data
        data = self._held + data  # the last bytes may be the mark
        ends = len(data) - EOF_MARK_BYTES
        self._held = b"" if self.is_ended else data[max(ends, 0) :]
        return data[: max(ends, 0)]

    def _begin(self, data: bytes) -> bytes:
        """Read the line before the dump and return what follows it."""
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
            self._dump = DumpSkimmer(int(found[1]))
        elif found := _MARK.fullmatch(line + end):
            self._dump = DumpSkimmer(None, found[1])
        else:
            raise ProtocolError("the server does not answer SYNC with a dump")
        self._line.clear()
        return rest
