"""A world of masters, replicas and sentinels in the place of cluster nodes; time, network and faults are the same.

A connection that the sentinel numbers n is link 2 n of the world; links that others open are odd, and are clients.

Its data and its place in a stream of replication are those of `replication`; it is neither slow nor short of memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip import events as belief
from cluster_core.node import events as node
from cluster_core.node.state import random_id
from cluster_core.sentinel import events as ev
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import SentinelSettings
from cluster_core.sim.host import Host, Path
from cluster_core.sim.layouts import Place
from cluster_core.sim.sentinels.layout import SentinelLayout, sentinel_config
from cluster_core.sim.servers.store import PING_BYTES
from cluster_core.sim.world import World
from cluster_core.wire.resp import RespError

if TYPE_CHECKING:
    from random import Random


class RespMessage:
    """A command (a list of words) or a reply; the network asks its *header* for the size, as it does with the bus."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def header(self) -> RespMessage:
        """Itself: it has a size and nothing else."""
        return self

    @property
    def totlen(self) -> int:
        """About how many bytes; nothing depends on it here."""
        value = self.value
        return len(value) if isinstance(value, bytes) else 32 * len(value) if isinstance(value, list) else 8

    @property
    def words(self) -> tuple[bytes, ...]:
        """The words of a command; none for anything else."""
        value = self.value
        return tuple(value) if isinstance(value, list) and all(isinstance(word, bytes) for word in value) else ()


TICK: Final = ev.Tick()
TICKED: Final = belief.Tick()


class ActorView:
    """What the world and its parts look up in the view of a node: an id, and that nobody pauses for a failover."""

    __slots__ = ("id", "mf_end_ms", "myself", "nodes")

    def __init__(self, actor_id: str) -> None:
        self.id, self.myself, self.mf_end_ms = actor_id, self, 0
        self.nodes: dict[str, Any] = {}


class Actor:
    """The part of a node's contract that the world uses, in the forms in which it uses it."""

    def handle(self, event: Any, now_ms: int) -> list[Any]:
        """Take an event of the world and return effects for its driver."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> list[Any]:
        """The timer."""
        return self.handle(TICKED, now_ms)

    def receive(self, link: int, message: Any, peer_ip: str, now_ms: int) -> list[Any]:
        """A message came in on a link."""
        return self.handle(belief.MessageReceived(link, message, peer_ip), now_ms)


class SentinelActor(Actor):
    """A `Sentinel` in the place of `Host.node`."""

    def __init__(self, host: Host, sentinel: Sentinel) -> None:
        self.host, self.sentinel = host, sentinel
        self.view = ActorView(sentinel.my_id)

    @property
    def tick_us(self) -> int:
        """When the next timer comes."""
        return self.sentinel.tick_ms * 1000

    def config_text(self) -> str:
        """Its sentinel.conf."""
        return self.sentinel.config_text()

    def handle(self, event: Any, now_ms: int) -> list[Any]:
        """Hand an event of the world to the sentinel, and its effects to the world; nothing follows the end of the process."""
        told = self._told(event)
        if told is None:
            return []
        effects: list[Any] = []
        for effect in self.sentinel.handle(told, now_ms):
            effects.append(_wanted(effect))
            if type(effect) is ev.Exit:
                break
        return effects

    def _told(self, event: Any) -> ev.Event | None:
        kind = type(event)
        if kind is belief.Tick:
            return TICK
        if kind is belief.MessageReceived:
            message: Any = event.message
            if event.link % 2:
                return ev.ClientCommand(event.link, message.words)
            return ev.Answered(event.link // 2, message.value)
        if kind is node.LinkOpened:
            return ev.LinkOpened(event.link // 2, self.host.ip)
        if kind is belief.LinkClosed:
            return ev.ClientClosed(event.link) if event.link % 2 else ev.LinkClosed(event.link // 2)
        if kind is node.ClientCommand:
            return ev.ClientCommand(event.client, event.words)
        return None


def _wanted(effect: ev.Effect) -> Any:
    """The effect of the world's driver that *effect* means; others are for observers."""
    match effect:
        case ev.SendCommand():
            return node.SendMessage(effect.link * 2, RespMessage(list(effect.words)))  # type: ignore[arg-type]
        case ev.OpenLink():
            return node.OpenLink(effect.link * 2, "", effect.ip, effect.port)
        case ev.CloseLink():
            return belief.CloseLink(effect.link * 2)
        case ev.Reply() if effect.client % 2:
            return node.SendMessage(effect.client, RespMessage(effect.value))  # type: ignore[arg-type]
        case ev.Reply():
            return node.Reply(effect.client, effect.value)
        case ev.SaveConfig():
            return node.SaveConfig(fsync=True)
        case ev.LogLine():
            return node.LogLine(effect.level, effect.text)
    return effect


PRIORITY: Final = 100
TICK_US: Final = 100_000
Words = tuple[bytes, ...]


class ServerClient:
    """One connection: to what it listens, and the transaction that it queues."""

    __slots__ = ("channels", "queued")

    def __init__(self) -> None:
        self.channels: dict[bytes, None] = {}
        self.queued: list[Words] | None = None


class ServerActor(Actor):
    """A server in the place of `Host.node`; *config* is what CONFIG REWRITE has left, *run_id* new with each start."""

    def __init__(self, world: World, host: Host, run_id: str, config: str) -> None:
        self.world, self.host = world, host
        self.view = ActorView(run_id)
        self.master: tuple[str, int] | None = None
        self.priority = PRIORITY
        self.is_up = False
        self.down_since_ms = -1
        self.clients: dict[int, ServerClient] = {}
        self.out: list[Any] = []
        self.now_ms = 0
        for line in config.splitlines():
            words = line.split()
            if words[:1] == ["replicaof"]:
                self.master = (words[1], int(words[2]))
            elif words[:1] == ["replica-priority"]:
                self.priority = int(words[1])

    @property
    def tick_us(self) -> int:
        """When the next timer comes."""
        return TICK_US

    def config_text(self) -> str:
        """What CONFIG REWRITE writes."""
        lines = [f"replicaof {self.master[0]} {self.master[1]}"] if self.master is not None else []
        return "\n".join((*lines, f"replica-priority {self.priority}", ""))

    def handle(self, event: Any, now_ms: int) -> list[Any]:
        """Take an event of the world and return the effects for its driver."""
        self.out, self.now_ms = [], now_ms
        kind = type(event)
        if kind is belief.MessageReceived:
            client = self.clients.setdefault(event.link, ServerClient())
            message: Any = event.message
            self._answer(event.link, self._queue_or_run(event.link, client, message.words))
        elif kind is belief.LinkClosed:
            self.clients.pop(event.link, None)
        elif kind is node.ClientCommand:
            self.out.append(node.Reply(event.client, self._run(event.client, event.words)))
        elif kind is node.ReplicationUp:
            self.is_up = True
        elif kind is node.ReplicationDown:
            self.is_up, self.down_since_ms = False, now_ms
        return self.out

    def start_effects(self) -> list[Any]:
        """What a new process does first: a replica looks for its master."""
        return [] if self.master is None else [self._follow(self.master)]

    def _follow(self, master: tuple[str, int]) -> node.StartReplication:
        return node.StartReplication(f"{master[0]}:{master[1]}", *master, full_sync=False)

    def _answer(self, link: int, value: Any) -> None:
        if link in self.clients and value is not SENT:
            self.out.append(node.SendMessage(link, RespMessage(value)))  # type: ignore[arg-type]

    def _queue_or_run(self, link: int, client: ServerClient, words: Words) -> Any:
        name = words[0].lower() if words else b""
        if name == b"exec" and client.queued is not None:
            queued, client.queued = client.queued, None
            return [self._run(link, each) for each in queued]
        if name == b"multi":
            client.queued = []
            return "OK"
        if client.queued is not None:
            client.queued.append(words)
            return "QUEUED"
        return self._run(link, words)

    def _run(self, link: int, words: Words) -> Any:
        name = words[0].lower() if words else b""
        command = _COMMANDS.get(name)
        if command is None or len(words) < command[0]:
            return RespError(f"ERR unknown command '{name.decode('latin-1')}'")
        return command[1](self, link, words)

    # -- commands ------------------------------------------------------------------------------------------------

    def _replicaof(self, link: int, words: Words) -> Any:
        if words[1].lower() == b"no":
            if self.master is not None:
                self.master = None
                self.out.append(node.PromoteMyself())
            return "OK"
        master = (words[1].decode(), int(words[2]))
        if master != self.master:
            self.master, self.is_up, self.down_since_ms = master, False, self.now_ms
            self.out.append(self._follow(master))
        return "OK"

    def _config(self, link: int, words: Words) -> Any:
        action = words[1].lower()
        if action == b"set" and len(words) == 4 and words[2].lower() in (b"replica-priority", b"slave-priority"):
            self.priority = int(words[3])
        if action == b"rewrite":
            self.out.append(node.SaveConfig(fsync=True))
        return "OK"

    def _client(self, link: int, words: Words) -> Any:
        """CLIENT KILL TYPE hangs up on all clients of a kind but the one that says it."""
        if words[1].lower() == b"kill" and len(words) == 4:
            wants_pubsub = words[3].lower() == b"pubsub"
            killed = [n for n, c in self.clients.items() if n != link and bool(c.channels) == wants_pubsub]
            for number in killed:
                del self.clients[number]
                self.out.append(belief.CloseLink(number))
            return len(killed)
        return "OK"

    def _subscribe(self, link: int, words: Words) -> Any:
        client = self.clients.setdefault(link, ServerClient())
        for channel in words[1:]:
            client.channels[channel] = None
            self._answer(link, [b"subscribe", channel, len(client.channels)])
        return SENT

    def _publish(self, link: int, words: Words) -> Any:
        """A message for those who listen here; it also goes into the stream of replication, and makes that longer."""
        heard = [number for number, client in self.clients.items() if words[1] in client.channels]
        for number in heard:
            self._answer(number, [b"message", words[1], words[2]])
        if self.master is None:
            self.world.replication.write(self.host, b"", None, PING_BYTES + len(words[2]))
        return len(heard)

    def _write(self, link: int, words: Words) -> Any:
        if self.master is not None:
            return RespError("READONLY You can't write against a read only replica.")
        return self.world.commands.execute(self.host, words)

    def _info(self, link: int, words: Words) -> Any:
        lines = ["# Server", f"run_id:{self.view.id}", "", "# Replication"]
        lines += self._master_lines() if self.master is None else self._replica_lines(self.master)
        return "\r\n".join((*lines, f"master_repl_offset:{self.host.store.offset}", "")).encode()

    def _master_lines(self) -> list[str]:
        lines = ["role:master"]
        for number, feed in enumerate(self.world.replication.followers(self.host)):
            replica = feed.replica
            place = f"ip={replica.ip},port={replica.settings.port}"
            lines.append(f"slave{number}:{place},state=online,offset={replica.store.offset},lag=0")
        return lines

    def _replica_lines(self, master: tuple[str, int]) -> list[str]:
        lines = ["role:slave", f"master_host:{master[0]}", f"master_port:{master[1]}"]
        lines.append(f"master_link_status:{'up' if self.is_up else 'down'}")
        if not self.is_up:
            down_s = -1 if self.down_since_ms < 0 else (self.now_ms - self.down_since_ms) // 1000
            lines.append(f"master_link_down_since_seconds:{down_s}")
        lines += [f"slave_repl_offset:{self.host.store.offset}", f"slave_priority:{self.priority}"]
        return [*lines, "replica_announced:1"]


SENT: Final = object()
"""The reply is among the effects already."""
_COMMANDS: Final[dict[bytes, tuple[int, Callable[[ServerActor, int, Words], Any]]]] = {
    b"ping": (1, lambda server, link, words: "PONG"),
    b"info": (1, ServerActor._info),
    b"subscribe": (2, ServerActor._subscribe),
    b"publish": (3, ServerActor._publish),
    b"slaveof": (3, ServerActor._replicaof),
    b"replicaof": (3, ServerActor._replicaof),
    b"config": (2, ServerActor._config),
    b"client": (2, ServerActor._client),
    b"set": (3, ServerActor._write),
    b"del": (2, ServerActor._write),
}
"""Words at least, and what carries the command out."""


class SentinelWorld(World):
    """Hosts are told apart by their names: S… are sentinels, all others servers."""

    def __init__(
        self,
        make_rng: Callable[[str], Random],
        seed: int | str,
        *,
        path: Path | None,
        layout: SentinelLayout,
        masters: list[Place],
    ) -> None:
        super().__init__(make_rng, seed, path=path)
        self.layout, self.masters = layout, masters

    def start(self, host: Host, config: Any = "", *, my_id: str = "", shard_id: str = "") -> None:
        """Start the process of *host* from the configuration on its disk; without one as it was at the beginning."""
        host.alive, host.is_off, host.is_stopped = True, False, False
        host.inbox = deque() if host.work_us else None
        host.life += 1
        host.paused_until_us, host.paused_work = 0, []
        actor = self._sentinel(host, config) if is_sentinel(host) else self._server(host, config)
        host.node = actor  # type: ignore[assignment]  # it keeps the part of the contract that the world uses
        host.config_saved = host.config_synced = config
        self.names[host.id] = self.names[f"{host.ip}:{host.settings.port}"] = host.name
        for effect in actor.start_effects() if isinstance(actor, ServerActor) else ():
            self._replicate(host, effect)
        self.call_at(self.now_us + int(host.rng.random() * self.tick_us), self._tick, host, host.life)
        if not is_sentinel(host):
            self.replication.start(host)

    def _sentinel(self, host: Host, config: str) -> SentinelActor:
        text = config or sentinel_config(self.layout, "", self.masters)
        settings = SentinelSettings(port=host.settings.port)
        return SentinelActor(host, Sentinel(settings, host.rng, self.wall_ms(host), config=text))

    def _server(self, host: Host, config: str) -> ServerActor:
        return ServerActor(self, host, random_id(host.rng), config)

    def plan_tick(self, host: Host) -> None:
        """The next timer comes when the process wants it."""
        actor: Any = host.node
        wait_us = actor.tick_us + int(host.rng.random() * self.tick_jitter_us)
        self.call_at(self.now_us + wait_us, self._tick, host, host.life)


def is_sentinel(host: Host) -> bool:
    """Whether *host* runs a sentinel."""
    return host.name.startswith("S")


def sentinel_of(host: Host) -> Sentinel:
    """The sentinel that *host* runs."""
    actor: Any = host.node
    return actor.sentinel  # type: ignore[no-any-return]


def server_of(host: Host) -> ServerActor:
    """The server that *host* runs."""
    actor: Any = host.node
    return actor  # type: ignore[no-any-return]
