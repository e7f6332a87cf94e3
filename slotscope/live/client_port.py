"""The client port with real sockets: commands in, replies out, and the commands that concern the connection alone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.routing.key_positions import CommandInfo, CommandTable
from cluster_core.wire.resp import RespError, RespMap, RespParser, encode_value
from slotscope.live.budget import Budget

QUERY_BYTES_MAX: Final = 64 << 20
"""What one client may have waiting without a whole command in it."""
REPLY_BYTES_MAX: Final = 64 << 20
_READ_BYTES: Final = 1 << 16

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
        return _SENT

    def _command(self, words: Sequence[bytes]) -> Any:
        if not words:
            return [_described(info) for info in self._table.commands.values() if "|" not in info.name]
        return len(self._table.commands) if words[0].lower() == b"count" else []

    def _client(self, words: Sequence[bytes]) -> Any:
        return self.number if words and words[0].lower() == b"id" else "OK"

    def _quit(self, words: Sequence[bytes]) -> Any:
        self.reply("OK")
        self.close()
        return _SENT


_SENT: Final = object()
"""The reply is on its way already."""
SENT: Final = _SENT


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
