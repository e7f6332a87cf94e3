"""A live node of the core: carries out its effects with sockets, a clock and a file, and reports events to it.

All decisions are those of `cluster_core.node.machine.Node`; this is its driver (docs/design/node.md).  `Step` keeps it in step with its
cluster; `SmallData` holds the keys of its slots.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import SystemRandom
from typing import Any, ClassVar, Final, NamedTuple

from cluster_core.gossip import events as belief
from cluster_core.gossip.profile import Profile
from cluster_core.gossip.profile_signs import profile_of_version
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.routing.key_positions import table_of
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.bus import Message
from cluster_core.wire.resp import RespError, read_info
from slotscope.live.connections import BUS_IDLE_S, BUS_IDLE_TIMEOUTS, CLIENT_IDLE_S, SENT, BusLink, ClientLink
from slotscope.live.driver import Driver, Place, Serve, Tell
from slotscope.runtime.failure import printable
from slotscope.servers.node_link import Access, Address, LinkError, NodeLink

BYTES_MAX: Final = 256 << 20
"""Room for keys and values; a write beyond it is refused."""


class SmallData:
    """Keys and values; answers what the node asks of its data (`cluster_core.node.state`) and a few commands."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._slots: dict[int, dict[bytes, None]] = {}
        self._bytes = 0

    def count(self, slot: int) -> int:
        """How many keys are in *slot*."""
        return len(self._slots.get(slot, ()))

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """At most *limit* keys of *slot*."""
        return list(self._slots.get(slot, ()))[: max(0, limit)]

    def holds(self, key: bytes) -> bool:
        """Whether *key* is there."""
        return key in self._values

    def is_empty(self) -> bool:
        """Whether there is no key at all."""
        return not self._values

    def drop(self, slots: int) -> None:
        """Delete the keys of the slots whose bits are set."""
        for slot in [slot for slot in self._slots if slots >> slot & 1]:
            for key in list(self._slots[slot]):
                self._delete(key)

    def clear(self) -> None:
        """Delete all keys."""
        self._values, self._slots, self._bytes = {}, {}, 0

    def execute(self, words: Sequence[bytes]) -> Any:
        """Carry out a command on keys; None for one that this data does not know."""
        command = _COMMANDS.get(words[0].lower())
        return None if command is None else command(self, words[1:])

    def _set(self, words: Sequence[bytes]) -> Any:
        if len(words) != 2:
            return RespError("ERR syntax error")
        key, value = words
        if self._bytes + len(key) + len(value) > BYTES_MAX:
            return RespError("OOM command not allowed when used memory > 'maxmemory'.")
        self._delete(key)
        self._values[key] = value
        self._slots.setdefault(key_slot(key), {})[key] = None
        self._bytes += len(key) + len(value)
        return "OK"

    def _delete(self, key: bytes) -> int:
        value = self._values.pop(key, None)
        if value is None:
            return 0
        slot = key_slot(key)
        del self._slots[slot][key]
        if not self._slots[slot]:
            del self._slots[slot]
        self._bytes -= len(key) + len(value)
        return 1

    def _incr(self, words: Sequence[bytes]) -> Any:
        try:
            value = int(self._values.get(words[0], b"0")) + 1
        except ValueError:
            return RespError("ERR value is not an integer or out of range")
        stored = self._set((words[0], b"%d" % value))
        return value if stored == "OK" else stored


_COMMANDS: Final[dict[bytes, Callable[[SmallData, Sequence[bytes]], Any]]] = {
    b"get": lambda data, words: data._values.get(words[0]),
    b"set": SmallData._set,
    b"del": lambda data, words: sum(data._delete(key) for key in words),
    b"unlink": lambda data, words: sum(data._delete(key) for key in words),
    b"exists": lambda data, words: sum(data.holds(key) for key in words),
    b"incr": SmallData._incr,
    b"dbsize": lambda data, words: len(data._values),
}


LOOK_S: Final = 10.0
"""How often nodes are asked until one has answered."""
ASK_AGAIN_S: Final = 60.0
"""How often a node that answered is asked again: somebody may have changed its configuration."""
TIMEOUT_MS_MAX: Final = 86_400_000
COMPLAINTS_MAX: Final = 100


class Ways(NamedTuple):
    """What a node says of itself; None for what it does not tell, *refused* says why."""

    profile: Profile | None
    node_timeout_ms: int | None
    refused: str = ""


def ask_ways(node: Address, access: Access) -> Ways:
    """Ask *node* with INFO and CONFIG GET, and nothing else; it never raises, a node that does not answer tells nothing."""
    try:
        link = access.connect(node)
    except LinkError as error:
        return Ways(None, None, f"{node}: {error}")
    try:
        info, no_info = _asked(link, "INFO", "server")
        pairs, no_config = _asked(link, "CONFIG", "GET", "cluster-node-timeout")
    finally:
        link.close()
    value = pairs[1] if isinstance(pairs, list) and len(pairs) == 2 else b""
    timeout_ms = int(value) if isinstance(value, bytes) and value.isdigit() and len(value) < 10 else 0
    refused = "; ".join(f"{node}: {why}" for why in (no_info, no_config) if why)
    return Ways(profile_told(info), timeout_ms if 0 < timeout_ms <= TIMEOUT_MS_MAX else None, refused)


def _asked(link: NodeLink, *words: str) -> tuple[object, str]:
    try:
        (reply,) = link.ask([words])
    except LinkError as error:
        return None, f"{words[0]}: {error}"
    return (None, f"{words[0]}: {reply.text}") if isinstance(reply, RespError) else (reply, "")


def profile_told(info: object) -> Profile | None:
    """The profile of a server by its INFO; None for one that is not known."""
    fields = read_info(info) if isinstance(info, bytes) else {}
    products = ("valkey", "redis")  # Valkey tells a Redis version, too
    told = next((name for name in products if f"{name}_version" in fields), "")
    return profile_of_version(told, fields[f"{told}_version"]) if told else None


@dataclass(slots=True)
class Step:
    """Keeps *member* in step: what was given by hand (not None) stays and a difference is told, all else is taken over."""

    member: Member
    access: Access
    tell: Tell
    profile: Profile | None = None
    node_timeout_ms: int | None = None
    turn: int = 0
    is_told: bool = False
    """Whether a node has told the node timeout."""
    complaints: set[str] = field(default_factory=set)

    def take(self, ways: Ways, source: str) -> None:
        """Take over what *source* tells, or say how it differs from what was given."""
        settings = self.member.settings
        profile, timeout_ms = settings.profile, settings.node_timeout_ms
        if ways.profile is not None and ways.profile is not profile:
            if self.profile is None:
                profile = ways.profile
                self.tell(f"* {source}: rules of {profile.name} from now on, not {settings.profile.name}")
            else:
                self._complain(
                    f"# {source}: the cluster follows the rules of {ways.profile.name}, this node those of {profile.name}"
                    " (--profile): verdicts, votes and slots may differ"
                )
        if ways.node_timeout_ms is not None and ways.node_timeout_ms != timeout_ms:
            if self.node_timeout_ms is None:
                timeout_ms = ways.node_timeout_ms
                self.tell(f"* {source}: node timeout {timeout_ms} ms from now on, not {settings.node_timeout_ms} ms")
            else:
                self._complain(
                    f"# {source}: cluster-node-timeout is {ways.node_timeout_ms} ms there and {timeout_ms} ms here"
                    " (--node-timeout): with slots, this node holds failovers up or starts them too early"
                )
        if (profile, timeout_ms) != (settings.profile, settings.node_timeout_ms):
            self.member.follow(profile, timeout_ms)

    def _complain(self, text: str) -> None:
        if text not in self.complaints and len(self.complaints) < COMPLAINTS_MAX:
            self.complaints.add(text)
            self.tell(text)

    async def ask(self, node: Address) -> None:
        """Ask *node* and take over what it says."""
        ways = await asyncio.to_thread(ask_ways, node, self.access)
        self.take(ways, str(node))
        self.is_told = self.is_told or ways.node_timeout_ms is not None
        if ways.refused:
            self._complain(
                f"# the cluster does not report its configuration: {printable(ways.refused)}; give --node-timeout and --profile"
            )

    async def run(self) -> None:
        """Ask one node after the other now and then, until cancelled."""
        while True:
            await asyncio.sleep(ASK_AGAIN_S if self.is_told else LOOK_S)
            if known := self.member.known_addresses():
                self.turn += 1
                await self.ask(known[self.turn % len(known)])


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
