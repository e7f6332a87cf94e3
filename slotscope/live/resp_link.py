"""A connection that we open to a server or a sentinel: commands out, values in, ended by bytes that are no RESP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.wire.resp import RespParser, encode_value
from slotscope.live.connection import Connection

ANSWER_BYTES_MAX: Final = 16 << 20
"""What may come without a whole value in it: INFO of a server takes some kilobytes."""
WAITING_BYTES_MAX: Final = 1 << 20
"""What may wait to be sent; the peer reads nothing any more then."""
_READ_BYTES: Final = 1 << 16


class RespLink(Connection):
    """One connection, from before it is up until it is gone; *opened* is told our end of it."""

    def __init__(
        self,
        number: int,
        *,
        opened: Callable[[int, str], None],
        heard: Callable[[int, Any], None],
        lost: Callable[[int], None],
    ) -> None:
        super().__init__(number, lost)
        self._opened, self._heard = opened, heard
        self._waiting = bytearray()

    async def run(self, host: str, port: int) -> None:
        """Connect, say so, and read until the end; whatever goes wrong is a lost link."""
        streams = await self._open(host, port)
        if streams is None:
            return
        reader, self.writer = streams
        writer = self.writer
        writer.write(bytes(self._waiting))
        self._waiting.clear()
        self._opened(self.number, str(writer.get_extra_info("sockname")[0]))
        with contextlib.suppress(OSError, DecodeError):
            await self._read(reader)
        self._end()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        parser, waiting = RespParser(source=f"link {self.number}"), 0
        while not self._closed and (data := await reader.read(_READ_BYTES)):
            waiting += len(data)
            for value in parser.feed(data):
                waiting = 0
                if not self._closed:
                    self._heard(self.number, value)
            if waiting > ANSWER_BYTES_MAX:
                break

    def send(self, words: Sequence[bytes]) -> None:
        """Put a command behind what waits; a peer that takes nothing loses the link."""
        if self._closed:
            return
        raw = encode_value(list(words), protocol=2)
        if self.writer is None:
            self._waiting += raw
            waiting = len(self._waiting)
        else:
            self.writer.write(raw)
            waiting = self.writer.transport.get_write_buffer_size()
        if waiting > WAITING_BYTES_MAX:
            self._end()
