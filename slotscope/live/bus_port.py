"""The bus with real sockets: frames in, frames out, nothing decided but when bytes are no bus at all.

A connection ends where a server would end it: on bytes without the signature, on a length that no message has, on more waiting
to be sent than is allowed.  Memory is bounded by one message in each direction.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.wire.bus import SIGNATURE, decode_message, drop_reason, encode_message
from cluster_core.wire.bus_message import LIGHT_HEADER_BYTES, Message
from slotscope.live.budget import Budget, OverBudgetError
from slotscope.live.connection import Connection

MESSAGE_BYTES_MAX: Final = 64 << 20
"""A longer message is a publication that nobody sends here, or an attack."""
_READ_BYTES: Final = 1 << 16
_START = struct.Struct("!4sI")

Report = Callable[[int], None]
Heard = Callable[[int, Message, str], None]


class BusLink(Connection):
    """One connection of the bus, from before it is up until it is gone."""

    def __init__(
        self, number: int, *, heard: Heard, lost: Report, overflowed: Report, waiting_bytes_max: int, budget: Budget
    ) -> None:
        super().__init__(number, lost)
        self._heard, self._overflowed = heard, overflowed
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max
        self._budget = budget
        self._incomplete = 0
        self.heard_s = time.monotonic()

    async def connect(self, host: str, port: int, opened: Report) -> None:
        """Connect, say so, and read until the end; whatever goes wrong is a lost link."""
        streams = await self._open(host, port)
        if streams is not None:
            self.attach(streams[1])
            opened(self.number)
            await self.read(*streams)

    def attach(self, writer: asyncio.StreamWriter) -> None:
        """Use an open connection, and send what waits for it."""
        self.writer = writer
        for raw in self._waiting:
            writer.write(raw)
        self._waiting, self._waiting_bytes = [], 0

    async def read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand over message after message until the connection ends."""
        peer = writer.get_extra_info("peername")
        peer_ip = peer[0] if peer else ""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while not self._closed:
                start = await reader.readexactly(_START.size)
                signature, length = _START.unpack(start)
                if signature != SIGNATURE or not LIGHT_HEADER_BYTES <= length <= MESSAGE_BYTES_MAX:
                    break
                message = _decoded(start + await self._body(reader, length - _START.size))
                self.heard_s = time.monotonic()
                if message is not None and not self._closed:
                    self._heard(self.number, message, peer_ip)
        self._budget.hold(self, 0)
        self._end()

    async def _body(self, reader: asyncio.StreamReader, size: int) -> bytes:
        """Read the rest of a message; OverBudgetError where all connections together hold too much."""
        pieces: list[bytes] = []
        while self._incomplete < size:
            piece = await reader.read(min(_READ_BYTES, size - self._incomplete))
            if not piece:
                raise asyncio.IncompleteReadError(b"", size)
            pieces.append(piece)
            self._incomplete += len(piece)
            if self._incomplete < size and not self._budget.hold(self, self.held_bytes()):
                raise OverBudgetError
        self._incomplete = 0
        self._budget.hold(self, self.held_bytes())
        return b"".join(pieces)

    def held_bytes(self) -> int:
        """What waits here: of a message that is not whole, and of what is to be sent."""
        unsent = self._waiting_bytes if self.writer is None else self.writer.transport.get_write_buffer_size()
        return self._incomplete + unsent

    def abort(self) -> None:
        """End the connection and say so."""
        self._end()

    def send(self, message: Message) -> None:
        """Put *message* behind what waits; say so when too much does."""
        if self._closed:
            return
        raw = encode_message(message)
        if self.writer is None:
            self._waiting.append(raw)
            self._waiting_bytes += len(raw)
            waiting = self._waiting_bytes
        else:
            self.writer.write(raw)
            waiting = self.writer.transport.get_write_buffer_size()
        if waiting > self._waiting_bytes_max:
            self._overflowed(self.number)


def _decoded(raw: bytes) -> Message | None:
    """The message, or None for one that a server drops unseen (R18)."""
    try:
        message = decode_message(raw)
    except DecodeError:
        return None
    return None if drop_reason(message) else message
