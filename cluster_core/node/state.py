"""State of a node besides its view: pending links, counters, election, deferred work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from cluster_core.gossip.prefilter import Prefilter
from cluster_core.gossip.profile import VALKEY_9_1, Profile
from cluster_core.gossip.view import Peer, View
from cluster_core.node.events import Effect, LogLine, SendMessage
from cluster_core.wire.bus import SLOT_BITMAP_BYTES, TYPE_NAMES, Extension, Header, Message

if TYPE_CHECKING:
    from random import Random


BUS_PORT_STEP: Final = 10_000
"""Offset of the bus port from the client port (R1)."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of one node; times in ms, 0 for the default rule."""

    profile: Profile = VALKEY_9_1
    node_timeout_ms: int = 15_000
    """`cluster-node-timeout`."""
    port: int = 6379
    cport: int = 0
    """`cluster-port`; 0 is the client port plus 10000 (R1)."""
    hostname: str = ""
    nodename: str = ""
    ping_interval_ms: int = 0
    """`cluster-ping-interval`; 0 is half the node timeout (R32)."""
    validity_factor: int = 10
    """`cluster-replica-validity-factor`; 0 disables the check (R85)."""
    migration_barrier: int = 1
    """`cluster-migration-barrier` (R104)."""
    allow_replica_migration: bool = True
    require_full_coverage: bool = True
    no_failover: bool = False
    """`cluster-replica-no-failover` (R84)."""
    manual_failover_ms: int = 5000
    """`cluster-manual-failover-timeout` (R97, R133)."""
    blacklist_ms: int = 60_000
    """`cluster-blacklist-ttl` (R61)."""
    repl_ping_period_s: int = 10
    """`repl-ping-replica-period` (R85)."""

    @property
    def bus_port(self) -> int:
        """Return the bus port (R1)."""
        return self.cport or self.port + BUS_PORT_STEP

    @property
    def ping_due_ms(self) -> int:
        """Return the age of the last pong that triggers a ping (R32)."""
        return self.ping_interval_ms or self.node_timeout_ms // 2


class Keyspace(Protocol):
    """Queries about the keys of database 0, answered by a driver that holds data."""

    def count(self, slot: int) -> int:
        """Return the number of keys in *slot*."""

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """Return up to *limit* keys of *slot*."""

    def holds(self, key: bytes) -> bool:
        """Return whether *key* exists."""

    def is_empty(self) -> bool:
        """Return whether there are no keys."""


class NoKeys:
    """A node without data."""

    def count(self, slot: int) -> int:
        """Return 0."""
        return 0

    def keys(self, slot: int, limit: int) -> list[bytes]:
        """Return no keys."""
        return []

    def holds(self, key: bytes) -> bool:
        """Return False."""
        return False

    def is_empty(self) -> bool:
        """Return True."""
        return True


TODO_FAILOVER: Final = 1
TODO_MANUAL: Final = 2
TODO_STATE: Final = 4
TODO_SAVE: Final = 8
TODO_FSYNC: Final = 16
TODO_PONG: Final = 32
"""Deferred work after an event (`clusterDoBeforeSleep`)."""
ID_BITS: Final = 160
NEVER: Final = 1 << 62


@dataclass(slots=True)
class Election:
    """Our election (R22, R83 to R94): start time, votes, whether requests were sent."""

    time_ms: int = 0
    count: int = 0
    is_sent: bool = False
    rank: int = 0
    failed_rank: int = 0
    epoch: int = 0
    hurried: bool = False
    cause: str = ""
    cause_ms: int = 0


@dataclass(slots=True, eq=False)
class NodeState:
    """Mutable state of a node; functions of this package take it first and append to `out`."""

    beliefs: Prefilter
    settings: NodeSettings
    rng: Random
    keyspace: Keyspace
    now_ms: int
    view: View = field(init=False)
    out: list[Effect] = field(default_factory=list)
    todo: int = TODO_STATE
    iteration: int = 0
    agenda: dict[int, list[Peer]] = field(default_factory=dict)
    agenda_spans: list[int] = field(default_factory=list)
    agenda_nodes: int = 0
    calm_version: int = -1
    pfail_count: int = 0
    next_link: int = 2
    table: list[Peer] = field(default_factory=list)
    table_members: int = -1
    fit_version: int = -1
    headers: dict[tuple[int, ...], Header] = field(default_factory=dict)
    header_facts: tuple[object, ...] = ()
    slots_seen: int = 0
    slots_raw: bytes = bytes(SLOT_BITMAP_BYTES)
    sent: list[int] = field(default_factory=lambda: [0] * len(TYPE_NAMES))
    received: list[int] = field(default_factory=lambda: [0] * len(TYPE_NAMES))
    election: Election = field(default_factory=Election)
    mf_can_start: bool = False
    paused: bool = False
    offset: int = 0
    repl_up: bool = False
    replicating: str = ""
    repl_heard_ms: int = 0
    repl_down_ms: int = 0
    orphans: tuple[int, int, int] = (0, 0, 0)
    orphans_version: int = -1
    extensions: tuple[tuple[Extension, ...], int] = ((), 0)
    extensions_of: str = ""

    def __post_init__(self) -> None:
        self.view = self.beliefs.view

    def peers(self) -> list[Peer]:
        """Return the table as a list, for random draws and iteration."""
        view = self.view
        if self.table_members != view.members or len(self.table) != len(view.nodes):
            self.table = list(view.nodes.values())
            self.table_members = view.members
            for place, peer in enumerate(self.table):
                peer.place = place
            view.entries = [None] * len(self.table)
            self.fit_version = -1
        return self.table

    def send(self, link: int, message: Message) -> None:
        """Count a message and send it on a link."""
        self.sent[message.header.type] += 1
        self.out.append(SendMessage(link, message))

    def log(self, level: str, text: str) -> None:
        """Write a line to the server's log."""
        self.out.append(LogLine(level, text))

    def changed(self) -> None:
        """Invalidate the cache of quiet messages after our own change of the view."""
        self.view.version += 1


def random_id(rng: Random) -> str:
    """Return a random node or shard id: 40 hexadecimal digits (R174)."""
    return f"{rng.getrandbits(ID_BITS):040x}"


def named(state: NodeState, node_id: str) -> str:
    """Return a node's name in the log: since Redis 7.2 and in Valkey with the human name (R160)."""
    profile = state.view.profile
    if not profile.names_logged:
        return node_id
    peer = state.view.nodes.get(node_id)
    name = peer.nodename if peer is not None else ""
    if not name and peer is not None and profile.addresses_logged:
        name = f"{peer.ip}:{peer.port}"
    return f"{node_id} ({name})"
