"""One sentinel of the core, alive: carries out its effects with sockets, a clock and a file, and tells it what happens.

Everything that is decided is decided by `cluster_core.sentinel.machine.Sentinel`; this is its driver (docs/sentinel.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.routing.command_table import table_of
from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import FAILOVER_IN_PROGRESS
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.settings import SentinelSettings
from slotscope.live.budget import CLIENTS_MAX, Budget
from slotscope.live.client_port import ClientLink
from slotscope.live.kept_file import replace_file
from slotscope.live.member import Place, Tell
from slotscope.live.resp_link import RespLink
from slotscope.runtime.errors import InputError

CONFIG_NAME: Final = "sentinel.conf"


class SentinelMember:
    """A sentinel and its sockets; `start`, then let the loop run, then `stop`.

    *config* is what a new one begins with; a sentinel.conf in the folder of *place* goes before it.  Raises InputError for a
    configuration that a sentinel would refuse.
    """

    def __init__(self, settings: SentinelSettings, place: Place, config: str, tell: Tell) -> None:
        self.settings, self.place, self._tell = settings, place, tell
        text = saved_config(place.folder) or config
        try:
            self.sentinel = Sentinel(settings, SystemRandom(), self.now_ms(), config=text)
        except DecodeError as error:
            raise InputError(f"{CONFIG_NAME}: {error.reason} (at byte {error.offset})") from error
        self.ended = asyncio.Event()
        self._links: dict[int, RespLink] = {}
        self._clients: dict[int, ClientLink] = {}
        self.budget = Budget()
        self._next = 0
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._table = table_of(settings.dialect)

    @staticmethod
    def now_ms() -> int:
        """Milliseconds of the wall clock."""
        return time.time_ns() // 1_000_000

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen and begin to watch; InputError for a port that is taken."""
        try:
            self._server = await asyncio.start_server(self._serve, self.place.bind, self.settings.port)
        except OSError as error:
            raise InputError(f"cannot listen on {self.place.bind}: {error.strerror or error}") from error
        self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Close everything; the file is as the sentinel left it."""
        if self._server is not None:
            self._server.close()
        if self._ticking is not None:
            self._ticking.cancel()
        for link in [*self._links.values()]:
            link.close()
        for client in [*self._clients.values()]:
            client.close()
        for task in [*self._tasks]:
            task.cancel()
        self._links, self._clients = {}, {}
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            self.tell_sentinel(TICK)
            await asyncio.sleep(self.sentinel.tick_ms / 1000)

    def order(self, *words: str) -> Any:
        """Have the sentinel carry out a command of its operator, and return the reply."""
        replies: list[Any] = []
        command = ev.ClientCommand(0, tuple(word.encode() for word in words))
        for effect in self.sentinel.handle(command, self.now_ms()):
            if isinstance(effect, ev.Reply) and effect.client == 0:
                replies.append(effect.value)
            else:
                self._carry_out(effect)
        return replies[0] if replies else None

    def leads(self) -> bool:
        """Whether a failover that we conduct is under way."""
        masters = self.sentinel.state.masters.values()
        return any(master.flags & FAILOVER_IN_PROGRESS and master.promoted is not None for master in masters)

    # -- events --------------------------------------------------------------------------------------------------

    def tell_sentinel(self, event: ev.Event) -> None:
        """Give *event* to the sentinel and carry out what it wants, in order."""
        for effect in self.sentinel.handle(event, self.now_ms()):
            self._carry_out(effect)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= CLIENTS_MAX:
            writer.close()
            return
        self._next += 1
        number = self._next
        client = self._clients[number] = ClientLink(number, reader, writer, self._said, self._table, self.budget)
        await client.serve()
        if self._clients.pop(number, None) is not None:
            self.tell_sentinel(ev.ClientClosed(number))

    def _said(self, number: int, words: tuple[bytes, ...]) -> None:
        self.tell_sentinel(ev.ClientCommand(number, words))
        client = self._clients.get(number)
        if client is not None and words[0].lower() == b"quit":
            client.close()

    def _lose(self, number: int) -> None:
        if self._links.pop(number, None) is not None:
            self.tell_sentinel(ev.LinkClosed(number))

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: ev.Effect) -> None:
        handler = self._HANDLERS.get(type(effect))
        if handler is not None:
            handler(self, effect)

    def _open(self, effect: ev.OpenLink) -> None:
        link = self._links[effect.link] = RespLink(
            effect.link,
            opened=lambda number, local_ip: self.tell_sentinel(ev.LinkOpened(number, local_ip)),
            heard=lambda number, value: self.tell_sentinel(ev.Answered(number, value)),
            lost=self._lose,
        )
        link.task = asyncio.create_task(link.run(effect.ip, effect.port))
        self._tasks.add(link.task)
        link.task.add_done_callback(self._tasks.discard)

    def _close(self, effect: ev.CloseLink) -> None:
        link = self._links.pop(effect.link, None)
        if link is not None:
            link.close()

    def _send(self, effect: ev.SendCommand) -> None:
        link = self._links.get(effect.link)
        if link is not None:
            link.send(effect.words)

    def _reply(self, effect: ev.Reply) -> None:
        client = self._clients.get(effect.client)
        if client is not None:
            client.protocol = self.sentinel.protocol_of(effect.client)
            client.reply(effect.value)

    def _save(self, effect: ev.SaveConfig) -> None:
        """The file is whole at every moment, and on the disk before anything is said that depends on it."""
        if self.place.folder is None:
            return
        text = self.sentinel.config_text()
        replace_file(self.place.folder / CONFIG_NAME, text.encode("utf-8", "surrogateescape"))

    def _log(self, effect: ev.LogLine) -> None:
        self._tell(f"{effect.level} {effect.text}")

    def _exit(self, effect: ev.Exit) -> None:
        self.ended.set()

    _HANDLERS: Final[dict[type, Callable[..., None]]] = {
        ev.OpenLink: _open,
        ev.CloseLink: _close,
        ev.SendCommand: _send,
        ev.Reply: _reply,
        ev.SaveConfig: _save,
        ev.LogLine: _log,
        ev.Exit: _exit,
    }


TICK: Final = ev.Tick()


def saved_config(folder: Path | None) -> str:
    """The text of the sentinel.conf in *folder*, empty if there is none."""
    path = None if folder is None else folder / CONFIG_NAME
    return path.read_text("utf-8", "surrogateescape") if path is not None and path.exists() else ""
