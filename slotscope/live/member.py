"""One node of the core, alive: carries out its effects with sockets, a clock and a file, and tells it what happens.

Everything that is decided is decided by `cluster_core.node.machine.Node`; this is its driver (docs/node.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, Final

from cluster_core.gossip import events as belief
from cluster_core.gossip.profile import Profile
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.settings import NodeSettings
from cluster_core.replay.company import Company
from cluster_core.routing.command_table import table_of
from cluster_core.wire.bus import Message
from cluster_core.wire.resp import RespError
from slotscope.live.budget import BUS_IDLE_S, BUS_IDLE_TIMEOUTS, CLIENT_IDLE_S, CLIENTS_MAX, Budget
from slotscope.live.bus_port import BusLink
from slotscope.live.client_port import SENT, ClientLink
from slotscope.live.kept_file import replace_file
from slotscope.live.small_data import SmallData
from slotscope.runtime.errors import InputError
from slotscope.servers.node_link import Address

TICK_S: Final = 0.1
SWEEP_S: Final = 1.0
WAITING_BYTES_MAX: Final = 64 << 20
"""What may wait on a link of the bus before the node closes it."""
LINKS_MAX: Final = 20_000
CONFIG_NAME: Final = "nodes.conf"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node lives: the address it listens on, and the folder of its nodes.conf (None: it keeps none)."""

    bind: str = "127.0.0.1"
    folder: Path | None = None


class Member:
    """A node and its sockets; `start`, then let the loop run, then `stop`."""

    def __init__(self, settings: NodeSettings, place: Place, tell: Tell) -> None:
        self.settings, self.place, self._tell = settings, place, tell
        self.data = SmallData()
        self.company = Company()
        self.node = Node(settings, SystemRandom(), self.now_ms(), config=self._saved_config(), keyspace=self.data)
        self._links: dict[int, BusLink] = {}
        self._accepted: dict[int, BusLink] = {}
        self._clients: dict[int, ClientLink] = {}
        self.budget = Budget()
        self._swept_s = 0.0
        self._next = 1
        self._paused_until_ms = 0
        self._held: list[ev.Execute] = []
        self._servers: list[asyncio.Server] = []
        self._ticking: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._table = table_of(settings.profile.routing_table)

    @staticmethod
    def now_ms() -> int:
        """Milliseconds of the wall clock."""
        return time.time_ns() // 1_000_000

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on both ports and begin to tick; InputError for a port that is taken."""
        try:
            for port, serve in ((self.settings.port, self._serve_client), (self.settings.bus_port, self._serve_bus)):
                self._servers.append(await asyncio.start_server(serve, self.place.bind, port))
        except OSError as error:
            await self.stop()
            raise InputError(f"cannot listen on {self.place.bind}: {error.strerror or error}") from error
        self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        """Close everything; nodes.conf is as the node left it."""
        for server in self._servers:
            server.close()
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
            await asyncio.sleep(TICK_S)
            self.tell_node(belief.Tick())
            if self._held and self.now_ms() >= self._paused_until_ms:
                self._resume()
            if time.monotonic() - self._swept_s >= SWEEP_S:
                self.sweep(time.monotonic())

    def sweep(self, now_s: float) -> None:
        """Hang up on those who connected and say nothing, and on those who hold most where all together hold too much."""
        self._swept_s = now_s
        bus_idle_s = max(BUS_IDLE_S, BUS_IDLE_TIMEOUTS * self.settings.node_timeout_ms / 1000)
        for link in [link for link in self._accepted.values() if now_s - link.heard_s > bus_idle_s]:
            link.abort()
        for client in [client for client in self._clients.values() if client.is_idle(now_s, CLIENT_IDLE_S)]:
            client.abort()
        connections: list[ClientLink | BusLink] = [*self._clients.values(), *self._links.values()]
        for each in connections:
            self.budget.hold(each, each.held_bytes())
        while self.budget.used > self.budget.bytes_max and isinstance(
            worst := self.budget.largest(), ClientLink | BusLink
        ):
            worst.abort()
            self.budget.hold(worst, 0)

    def order(self, *words: str) -> Any:
        """Have the node carry out a command of its operator, and return the reply."""
        replies: list[Any] = []
        for effect in self.node.handle(ev.ClientCommand(0, tuple(word.encode() for word in words)), self.now_ms()):
            if isinstance(effect, ev.Reply) and effect.client == 0:
                replies.append(effect.value)
            else:
                self._carry_out(effect)
        return replies[0] if replies else None

    def owned_slots(self) -> int:
        """How many slots are ours."""
        return self.node.view.myself.slots.bit_count()

    def known_addresses(self) -> list[Address]:
        """Where the clients of the other nodes connect."""
        view = self.node.view
        others = [peer for peer in view.nodes.values() if peer is not view.myself and peer.ip and peer.port]
        return [Address(peer.ip, peer.port) for peer in others]

    # -- events --------------------------------------------------------------------------------------------------

    def tell_node(self, event: ev.Event) -> None:
        """Give *event* to the node and carry out what it wants, in order."""
        for effect in self.node.handle(event, self.now_ms()):
            self._carry_out(effect)

    async def _serve_bus(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._links) >= LINKS_MAX:
            writer.close()
            return
        link = self._new_link(self._odd())
        self._accepted[link.number] = link
        link.attach(writer)
        self.tell_node(belief.LinkAccepted(link.number, writer.get_extra_info("sockname")[0]))
        await link.read(reader, writer)

    def _new_link(self, number: int) -> BusLink:
        link = BusLink(
            number,
            heard=self._hear,
            lost=self._lose,
            overflowed=lambda n: self.tell_node(ev.LinkOverflowed(n)),
            waiting_bytes_max=WAITING_BYTES_MAX,
            budget=self.budget,
        )
        self._links[number] = link
        return link

    def _hear(self, number: int, message: Message, ip: str) -> None:
        self.company.note(message, self.now_ms())
        self.tell_node(belief.MessageReceived(number, message, ip))

    def follow(self, profile: Profile, node_timeout_ms: int) -> None:
        """Go on with the rules and the node timeout that the others have."""
        self.node.follow(profile, node_timeout_ms)
        self.settings = self.node.state.settings
        self._table = table_of(profile.routing_table)

    def _lose(self, number: int) -> None:
        self._accepted.pop(number, None)
        if (link := self._links.pop(number, None)) is not None:
            self.budget.hold(link, 0)
            self.tell_node(belief.LinkClosed(number))

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= CLIENTS_MAX:
            writer.close()
            return
        number, ip = self._odd(), str(writer.get_extra_info("peername")[0])
        client = ClientLink(
            number,
            reader,
            writer,
            lambda n, words: self.tell_node(ev.ClientCommand(n, words, ip)),
            self._table,
            self.budget,
        )
        self._clients[number] = client
        await client.serve()
        if self._clients.pop(number, None) is not None:
            self.tell_node(ev.ClientClosed(number))

    def _odd(self) -> int:
        self._next += 2
        return self._next

    # -- effects -------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Any) -> None:
        handler = self._HANDLERS.get(type(effect))
        if handler is not None:
            handler(self, effect)

    def _open(self, effect: ev.OpenLink) -> None:
        link = self._new_link(effect.link)
        opening = link.connect(effect.ip, effect.cport, lambda n: self.tell_node(ev.LinkOpened(n)))
        link.task = asyncio.create_task(opening)
        self._tasks.add(link.task)
        link.task.add_done_callback(self._tasks.discard)

    def _close(self, effect: belief.CloseLink) -> None:
        self._accepted.pop(effect.link, None)
        link = self._links.pop(effect.link, None)
        if link is not None:
            self.budget.hold(link, 0)
            link.close()

    def _send(self, effect: ev.SendMessage) -> None:
        link = self._links.get(effect.link)
        if link is not None:
            link.send(effect.message)

    def _reply(self, effect: ev.Reply) -> None:
        client = self._clients.get(effect.client)
        if client is not None and effect.value is not SENT:
            client.reply(effect.value)

    def _execute(self, effect: ev.Execute) -> None:
        client = self._clients.get(effect.client)
        if client is None:
            return
        if self.now_ms() < self._paused_until_ms and self._writes(effect.words):
            self._held.append(effect)
            client.hold()
            return
        done, value = client.execute(effect.words)
        if not done:
            value = self.data.execute(effect.words)
            if value is None and effect.words[0].lower() != b"get":
                value = RespError(f"ERR {effect.words[0][:40].decode('latin-1')!r} is not served by this node")
        if value is not SENT:
            client.reply(value)

    def _writes(self, words: tuple[bytes, ...]) -> bool:
        info = self._table.find(words)
        return info is not None and "write" in info.flags

    def _pause(self, effect: ev.PauseClients) -> None:
        self._paused_until_ms = effect.until_ms

    def _resume(self, effect: ev.ResumeClients | None = None) -> None:
        self._paused_until_ms = 0
        held, self._held = self._held, []
        for waiting in held:
            if (client := self._clients.get(waiting.client)) is not None:
                client.release()
                self.tell_node(ev.ClientCommand(waiting.client, waiting.words))

    def _deliver(self, effect: ev.Deliver) -> None:
        for client in list(self._clients.values()):
            if (effect.sharded, effect.channel) in client.channels:
                client.reply([b"smessage" if effect.sharded else b"message", effect.channel, effect.message])

    def _save(self, effect: ev.SaveConfig) -> None:
        if self.place.folder is None:
            return
        replace_file(self.place.folder / CONFIG_NAME, self.node.config_text().encode("latin-1"), fsync=effect.fsync)

    def _saved_config(self) -> str:
        path = None if self.place.folder is None else self.place.folder / CONFIG_NAME
        return path.read_text("latin-1") if path is not None and path.exists() else ""

    def _log(self, effect: ev.LogLine) -> None:
        self._tell(f"{effect.level} {effect.text}")

    def _replicate(self, effect: ev.StartReplication) -> None:
        self._tell(f"# would replicate {effect.node} at {effect.ip}:{effect.port}: this node keeps no copy of data")

    _HANDLERS: Final[dict[type, Callable[..., None]]] = {
        ev.OpenLink: _open,
        belief.CloseLink: _close,
        ev.SendMessage: _send,
        ev.Reply: _reply,
        ev.Execute: _execute,
        ev.PauseClients: _pause,
        ev.ResumeClients: _resume,
        ev.DropKeys: lambda self, effect: self.data.drop(effect.slots),
        ev.FlushKeys: lambda self, effect: self.data.clear(),
        ev.Deliver: _deliver,
        ev.SaveConfig: _save,
        ev.LogLine: _log,
        ev.StartReplication: _replicate,
    }
