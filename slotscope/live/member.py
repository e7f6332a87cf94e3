"""One node of the core, alive: carries out its effects with sockets, a clock and a file, and tells it what happens.

Everything that is decided is decided by `cluster_core.node.machine.Node`; this is its driver (docs/design/node.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from random import SystemRandom
from typing import ClassVar, Final

from cluster_core.gossip import events as belief
from cluster_core.gossip.profile import Profile
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.replay.company import Company
from cluster_core.routing.key_positions import table_of
from cluster_core.wire.bus import Message
from cluster_core.wire.resp import RespError
from slotscope.live.budget import BUS_IDLE_S, BUS_IDLE_TIMEOUTS, CLIENT_IDLE_S
from slotscope.live.bus_port import BusLink
from slotscope.live.client_port import SENT, ClientLink
from slotscope.live.driver import Driver, Place, Serve, Tell
from slotscope.live.small_data import SmallData
from slotscope.servers.node_link import Address

TICK_S: Final = 0.1
SWEEP_S: Final = 1.0
WAITING_BYTES_MAX: Final = 64 << 20
"""What may wait on a link of the bus before the node closes it."""
LINKS_MAX: Final = 20_000


class Member(Driver[BusLink]):
    """A node and its sockets; `start`, then let the loop run, then `stop`."""

    config_name = "nodes.conf"
    encoding = "latin-1"

    def __init__(self, settings: NodeSettings, place: Place, tell: Tell) -> None:
        super().__init__(place, tell, settings.profile.routing_table)
        self.settings = settings
        self.data = SmallData()
        self.company = Company()
        config = self.saved_config(place.folder)
        self.node = Node(settings, SystemRandom(), self.now_ms(), config=config, keyspace=self.data)
        self._accepted: dict[int, BusLink] = {}
        self._swept_s = 0.0
        self._paused_until_ms = 0
        self._held: list[ev.Execute] = []

    # -- life ----------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Node:
        """The node."""
        return self.node

    def _doors(self) -> list[tuple[int, Serve]]:
        return [(self.settings.port, self.serve_client), (self.settings.bus_port, self._serve_bus)]

    def _on_tick(self) -> float:
        self.tell(belief.Tick())
        if self._held and self.now_ms() >= self._paused_until_ms:
            self._resume()
        if time.monotonic() - self._swept_s >= SWEEP_S:
            self.sweep(time.monotonic())
        return TICK_S

    def _command(self, client: int, words: tuple[bytes, ...], ip: str = "") -> ev.ClientCommand:
        return ev.ClientCommand(client, words, ip)

    def _client_closed(self, client: int) -> ev.ClientClosed:
        return ev.ClientClosed(client)

    def _link_closed(self, link: int) -> belief.LinkClosed:
        return belief.LinkClosed(link)

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

    def owned_slots(self) -> int:
        """How many slots are ours."""
        return self.node.view.myself.slots.bit_count()

    def known_addresses(self) -> list[Address]:
        """Where the clients of the other nodes connect."""
        view = self.node.view
        others = [peer for peer in view.nodes.values() if peer is not view.myself and peer.ip and peer.port]
        return [Address(peer.ip, peer.port) for peer in others]

    # -- events --------------------------------------------------------------------------------------------------

    async def _serve_bus(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._links) >= LINKS_MAX:
            writer.close()
            return
        link = self._new_link(self._odd())
        self._accepted[link.number] = link
        link.attach(writer)
        self.tell(belief.LinkAccepted(link.number, writer.get_extra_info("sockname")[0]))
        await link.read(reader, writer)

    def _new_link(self, number: int) -> BusLink:
        link = BusLink(
            number,
            heard=self._hear,
            lost=self._lose,
            overflowed=lambda n: self.tell(ev.LinkOverflowed(n)),
            waiting_bytes_max=WAITING_BYTES_MAX,
            budget=self.budget,
        )
        self._links[number] = link
        return link

    def _hear(self, number: int, message: Message, ip: str) -> None:
        self.company.note(message, self.now_ms())
        self.tell(belief.MessageReceived(number, message, ip))

    def follow(self, profile: Profile, node_timeout_ms: int) -> None:
        """Go on with the rules and the node timeout that the others have."""
        self.node.follow(profile, node_timeout_ms)
        self.settings = self.node.state.settings
        self._table = table_of(profile.routing_table)

    # -- effects -------------------------------------------------------------------------------------------------

    def _open(self, effect: ev.OpenLink) -> None:
        link = self._new_link(effect.link)
        opening = link.connect(effect.ip, effect.cport, lambda n: self.tell(ev.LinkOpened(n)))
        self._run(link, opening)

    def _forget(self, number: int) -> BusLink | None:
        self._accepted.pop(number, None)
        return super()._forget(number)

    def _send(self, effect: ev.SendMessage) -> None:
        link = self._links.get(effect.link)
        if link is not None:
            link.send(effect.message)

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
                self.tell(ev.ClientCommand(waiting.client, waiting.words))

    def _deliver(self, effect: ev.Deliver) -> None:
        for client in list(self._clients.values()):
            if (effect.sharded, effect.channel) in client.channels:
                client.reply([b"smessage" if effect.sharded else b"message", effect.channel, effect.message])

    def _save(self, effect: ev.SaveConfig) -> None:
        self._keep(self.node.config_text(), fsync=effect.fsync)

    def _replicate(self, effect: ev.StartReplication) -> None:
        self._tell(f"# would replicate {effect.node} at {effect.ip}:{effect.port}: this node keeps no copy of data")

    handlers: ClassVar[Mapping[type, Callable[..., None]]] = {
        ev.OpenLink: _open,
        belief.CloseLink: Driver._close,
        ev.SendMessage: _send,
        ev.Reply: Driver._reply,
        ev.Execute: _execute,
        ev.PauseClients: _pause,
        ev.ResumeClients: _resume,
        ev.DropKeys: lambda self, effect: self.data.drop(effect.slots),
        ev.FlushKeys: lambda self, effect: self.data.clear(),
        ev.Deliver: _deliver,
        ev.SaveConfig: _save,
        ev.LogLine: Driver._log,
        ev.StartReplication: _replicate,
    }
