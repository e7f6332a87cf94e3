"""Connections of a live machine: the bus, clients, and servers or sentinels that it opens connections to.

Nothing is decided here but the end of a connection, where a server would end it too: on bytes that are no protocol, on a length that no
message has, on too much that waits.  A `Budget` limits the memory of all connections together.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.routing.key_positions import CommandInfo, CommandTable
from cluster_core.wire.bus import SIGNATURE, decode_message, drop_reason, encode_message
from cluster_core.wire.bus_message import LIGHT_HEADER_BYTES, Message
from cluster_core.wire.resp import RespError, RespMap, RespParser, encode_value

CONNECTIONS_BYTES_MAX: Final = 128 << 20
"""Bytes that wait on all connections: of commands and messages that are not whole, and of replies that are not taken."""
CLIENTS_MAX: Final = 10_000
"""The servers' default of maxclients."""
CLIENT_IDLE_S: Final = 300.0
"""A client that says nothing for so long, and listens to no channel, is hung up on."""
BUS_IDLE_S: Final = 60.0
"""A link of the bus that brings no whole message for so long, or for some node timeouts, is no peer's: peers ping twice in one."""
BUS_IDLE_TIMEOUTS: Final = 4


class OverBudgetError(OSError):
    """All connections together hold more than they may."""


class Budget:
    """Bytes that connections hold; each tells how many it does, and is told whether all together may."""

    def __init__(self, bytes_max: int = CONNECTIONS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._held: dict[object, int] = {}

    def hold(self, connection: object, size: int) -> bool:
        """Note that *connection* holds *size* bytes now; return whether that may be."""
        self.used += size - self._held.pop(connection, 0)
        if size:
            self._held[connection] = size
        return self.used <= self.bytes_max

    def largest(self) -> object:
        """Return the connection that holds most; there must be one."""
        return max(self._held, key=self._held.__getitem__)


CONNECT_S_MAX: Final = 30.0


class Connection:
    """A numbered connection, from before it is up until it is gone; *lost* hears of an end that we did not ask for."""

    def __init__(self, number: int, lost: Callable[[int], None]) -> None:
        self.number = number
        self.task: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self._lost = lost
        self._closed = False

    async def _open(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect; None where that failed, which is a lost connection, or where it was closed meanwhile."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                reader, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError, ValueError):
            self._end()
            return None
        if self._closed:
            writer.close()
            return None
        return reader, writer

    def close(self) -> None:
        """End the connection without saying so."""
        self._closed = True
        if self.writer is not None:
            self.writer.transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def _end(self) -> None:
        if not self._closed:
            self.close()
            self._lost(self.number)


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


QUERY_BYTES_MAX: Final = 64 << 20
"""What one client may have waiting without a whole command in it."""
REPLY_BYTES_MAX: Final = 64 << 20

Words = tuple[bytes, ...]


class ClientLink:
    """One client: reads commands, writes replies in its protocol."""

    def __init__(
        self,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        said: Callable[[int, Words], None],
        table: CommandTable,
        budget: Budget,
    ) -> None:
        self.number = number
        self.protocol = 2
        self.channels: dict[tuple[bool, bytes], None] = {}
        self._reader, self._writer, self._said, self._table = reader, writer, said, table
        self._free = asyncio.Event()
        self._free.set()
        self._budget = budget
        self._incomplete = 0
        self._heard_s = time.monotonic()

    async def serve(self) -> None:
        """Read commands until the client goes, or says what is no command."""
        parser, waiting = RespParser(source="client"), 0
        try:
            await self._take_all(parser, waiting)
        finally:
            self._budget.hold(self, 0)
            self.close()

    def held_bytes(self) -> int:
        """What waits here: of a command that is not whole, and of replies."""
        return self._incomplete + self._writer.transport.get_write_buffer_size()

    def is_idle(self, now_s: float, limit_s: float) -> bool:
        """Whether the client has said nothing for *limit_s*, though nothing keeps it waiting and it waits for nothing."""
        return now_s - self._heard_s > limit_s and self._free.is_set() and not self.channels

    def abort(self) -> None:
        """Hang up and drop what waits."""
        self._writer.transport.abort()

    async def _take_all(self, parser: RespParser, waiting: int) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while data := await self._reader.read(_READ_BYTES):
                waiting += len(data)
                self._heard_s = time.monotonic()
                try:
                    if not waiting - len(data) and data[:1] not in (b"*", b"\r"):
                        waiting = 0
                        await self._inline(data)
                        continue
                    for value in parser.feed(data):
                        waiting = 0
                        await self._free.wait()
                        self._take(value)
                except DecodeError as error:
                    self.reply(RespError(f"ERR Protocol error: {error.reason}"))
                    break
                self._incomplete = waiting
                if waiting > QUERY_BYTES_MAX or self._writer.transport.get_write_buffer_size() > REPLY_BYTES_MAX:
                    break
                if not self._budget.hold(self, self.held_bytes()):
                    break

    def hold(self) -> None:
        """Take nothing more from this client until `release`: what it has asked for waits, and replies keep their order."""
        self._free.clear()

    def release(self) -> None:
        """Go on with a client that was held."""
        self._free.set()

    async def _inline(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if words := tuple(line.split()):
                await self._free.wait()
                self._said(self.number, words)

    def _take(self, value: Any) -> None:
        if not isinstance(value, list) or not all(isinstance(word, bytes) for word in value):
            raise DecodeError("expected an array of bulk strings", offset=0, source="client")
        if value:
            self._said(self.number, tuple(value))

    def reply(self, value: Any) -> None:
        """Send *value* as the client's protocol has it; a client that takes nothing of what it has asked for is cut off."""
        if not self._writer.is_closing():
            self._writer.write(encode_value(value, protocol=self.protocol))
            if (
                not self._budget.hold(self, self.held_bytes())
                or self._writer.transport.get_write_buffer_size() > REPLY_BYTES_MAX
            ):
                self.abort()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

    def execute(self, words: Words) -> tuple[bool, Any]:
        """Carry out what concerns the connection: (whether it did, the reply)."""
        command = _COMMANDS.get(words[0].lower())
        return (False, None) if command is None else (True, command(self, words[1:]))

    def _hello(self, words: Sequence[bytes]) -> Any:
        if words and words[0] not in (b"2", b"3"):
            return RespError("NOPROTO unsupported protocol version")
        self.protocol = int(words[0]) if words else self.protocol
        facts = {b"server": b"slotscope", b"version": b"0.1.0", b"proto": self.protocol, b"id": self.number}
        facts |= {b"mode": b"cluster", b"role": b"master", b"modules": []}
        return RespMap(tuple(facts.items()))

    def _subscribe(self, words: Sequence[bytes], *, sharded: bool) -> Any:
        for channel in words:
            self.channels[(sharded, channel)] = None
            self.reply([b"ssubscribe" if sharded else b"subscribe", channel, len(self.channels)])
        return SENT

    def _command(self, words: Sequence[bytes]) -> Any:
        if not words:
            return [_described(info) for info in self._table.commands.values() if "|" not in info.name]
        return len(self._table.commands) if words[0].lower() == b"count" else []

    def _client(self, words: Sequence[bytes]) -> Any:
        return self.number if words and words[0].lower() == b"id" else "OK"

    def _quit(self, words: Sequence[bytes]) -> Any:
        self.reply("OK")
        self.close()
        return SENT


SENT: Final = object()
"""The reply is already on its way."""


def _described(info: CommandInfo) -> list[Any]:
    """One command as COMMAND tells it: name, arity, flags, first and last key, step."""
    first = last = step = 0
    if info.key_specs and info.key_specs[0].begin[0] == "index" and info.key_specs[0].find[0] == "range":
        spec = info.key_specs[0]
        first, step = int(spec.begin[1]), int(spec.find[2])
        last = int(spec.find[1]) if int(spec.find[1]) < 0 else first + int(spec.find[1])
    flags = sorted(info.flags | ({"movablekeys"} if info.key_specs and not first else set()))
    return [info.name.encode(), info.arity, flags, first, last, step, [], [], [], []]


_COMMANDS: Final[dict[bytes, Callable[[ClientLink, Sequence[bytes]], Any]]] = {
    b"ping": lambda link, words: words[0] if words else "PONG",
    b"echo": lambda link, words: words[0],
    b"hello": ClientLink._hello,
    b"command": ClientLink._command,
    b"client": ClientLink._client,
    b"select": lambda link, words: "OK" if words == (b"0",) else RespError("ERR SELECT is not allowed in cluster mode"),
    b"quit": ClientLink._quit,
    b"subscribe": lambda link, words: link._subscribe(words, sharded=False),
    b"ssubscribe": lambda link, words: link._subscribe(words, sharded=True),
    b"config": lambda link, words: [],
}


ANSWER_BYTES_MAX: Final = 16 << 20
"""What may come without a whole value in it: INFO of a server takes some kilobytes."""
COMMANDS_BYTES_MAX: Final = 1 << 20
"""Unsent bytes beyond which a peer is taken to read nothing any more."""


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
        if waiting > COMMANDS_BYTES_MAX:
            self._end()
