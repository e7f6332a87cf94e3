"""State of the machine: node table (R21), links, and the node's own state (R22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple

from cluster_core.gossip.flags import FAIL, FAILURES, HANDSHAKE, MASTER, MIGRATE_TO, MYSELF, PRINTED, REPLICA, ROLES
from cluster_core.gossip.profile import Profile
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.wire.bus import GossipEntry

NODES_MAX: Final = 20_000
"""Maximum nodes; ten times the largest known cluster."""
EVERY_SLOT: Final = (1 << SLOT_COUNT) - 1
BITMAPS_CACHED: Final = 8192
ADDRESS: Final = GossipEntry._fields.index("ip")
"""Entry fields from here on are a node's address and flags."""


@lru_cache(maxsize=BITMAPS_CACHED)
def slot_bits(bitmap: bytes) -> int:
    """Return a bitmap of slots as an integer, slot s at bit s (R4); cached, as a cluster has few distinct bitmaps."""
    return int.from_bytes(bitmap, "little")


@dataclass(slots=True, eq=False)
class Peer:
    """Entry of the node table (R21); ids and addresses are text, times in ms, 0 for never."""

    id: str
    flags: int
    ctime_ms: int
    reports: dict[str, int] = field(default_factory=dict)
    """Time of each reporter's failure report (R51)."""
    pong_received_ms: int = 0
    ping_sent_ms: int = 0
    data_received_ms: int = 0
    inbound: int | None = None
    outbound: int | None = None
    place: int = 0
    """Index in the list for gossip draws and in `View.entries`."""
    due_ms: int = 0
    """Time of the next cron check."""
    repl_offset: int = 0
    ip: str = ""
    port: int = 0
    cport: int = 0
    pport: int = 0
    hostname: str = ""
    nodename: str = ""
    shard_id: str = ""
    config_epoch: int = 0
    slots: int = 0
    replicaof: str = ""
    fail_time_ms: int = 0
    voted_time_ms: int = 0
    meet_sent_ms: int = 0
    tried_ms: int = 0
    inbound_lost_ms: int = 0
    orphaned_ms: int = 0

    def __post_init__(self) -> None:
        self.id = intern(self.id)

    @property
    def is_master(self) -> bool:
        """Return whether the node is a master in this view."""
        return bool(self.flags & MASTER)

    @property
    def votes(self) -> bool:
        """Return whether the node is a voting master: a master with slots."""
        return bool(self.flags & MASTER and self.slots)


@dataclass(slots=True, eq=False)
class Link:
    """A TCP connection of the bus; *node* is the bound id, None if unknown (R26).

    *made_ms*: when it was opened or accepted. *local_ip*: local address of an accepted link (R35, R49).
    """

    node: str | None
    _: KW_ONLY
    inbound: bool
    made_ms: int = 0
    local_ip: str = ""


class Coverage(NamedTuple):
    """Inputs of the cluster state: uncovered slots, voting masters, reachable voting masters."""

    uncovered: bool
    size: int
    reachable: int


def coverage_of(view: View) -> Coverage:
    """Summarize the table for R107 and R108."""
    healthy, size, reachable = 0, 0, 0
    for peer in view.nodes.values():
        if not peer.flags & FAIL:
            healthy |= peer.slots
        if peer.votes:
            size += 1
            reachable += not peer.flags & FAILURES
    return Coverage(healthy != EVERY_SLOT, size, reachable)


class View:
    """State of one node; functions of the package read and change it, `ClusterNode` is the entry."""

    def __init__(self, my_id: str, profile: Profile, node_timeout_ms: int, now_ms: int = 0) -> None:
        self.profile = profile
        self.node_timeout_ms = node_timeout_ms
        self.myself = Peer(my_id, MYSELF | MASTER, now_ms)
        self.nodes: dict[str, Peer] = {my_id: self.myself}
        self.links: dict[int, Link] = {}
        self.current_epoch = 0
        self.last_vote_epoch = 0
        self.blacklist: dict[str, int] = {}
        self.unclaimed = 0
        self.migrating: dict[int, str] = {}
        self.importing: dict[int, str] = {}
        self.replica_migration_allowed = True
        self.full_coverage_required = True
        self.ok = False
        self.state_stale = True
        self.first_state_ms: int | None = None
        self.minority_ms = 0
        self.mf_end_ms = 0
        self.mf_replica = ""
        self.mf_master_offset = -1
        self.verdicts_observed = False
        self.handshakes = 0
        self.name_handshake: Callable[[], str] | None = None
        self.version = 0
        self.entries: list[GossipEntry | None] = [None]
        """Last gossip entry sent about each node, by `Peer.place`, None once it changed; valid for *entries_version*."""
        self.entries_version = -1
        self.members = 0
        self.sized = 0
        self.sized_version = self.coverage_version = -1
        self.coverage = Coverage(True, 0, 0)

    def note_ping(self, peer: Peer, sent_ms: int) -> None:
        """Record a pending PING to *peer* since *sent_ms* (R33)."""
        peer.ping_sent_ms = sent_ms
        self.entries[peer.place] = None

    def note_pong(self, peer: Peer, now_ms: int) -> None:
        """Record a PONG of *peer* to our PING (R50)."""
        peer.pong_received_ms = now_ms
        peer.ping_sent_ms = 0
        self.entries[peer.place] = None

    def forget_entry(self, peer: Peer) -> None:
        """Drop the stored gossip entry of *peer* after a flag change."""
        self.entries[peer.place] = None

    def note_rumour(self, peer: Peer, pong_ms: int, entry: GossipEntry) -> None:
        """Record a newer gossiped pong time of *peer* (R44); simulated nodes share the entry if nothing else differs."""
        peer.pong_received_ms = pong_ms
        ours = self.entries[peer.place]
        keeps = ours is not None and not entry.ping_sent_s and ours[ADDRESS:] == entry[ADDRESS:]
        self.entries[peer.place] = entry if keeps else None

    def peers(self) -> Iterator[Peer]:
        """Yield all entries except myself and handshakes."""
        for peer in self.nodes.values():
            if not peer.flags & (MYSELF | HANDSHAKE):
                yield peer

    def master_of(self, peer: Peer) -> Peer | None:
        """Return the master of *peer*; None for a master or if unknown."""
        return self.nodes.get(peer.replicaof) if peer.replicaof else None

    def replicas_of(self, node_id: str) -> list[Peer]:
        """Return the replicas of a node in table order."""
        return [peer for peer in self.nodes.values() if peer.replicaof == node_id]

    def epoch_shown(self, peer: Peer) -> int:
        """Return the config epoch in CLUSTER NODES: a replica's is its master's (R128)."""
        if peer.replicaof and peer.flags & REPLICA:
            master = self.nodes.get(peer.replicaof)
            if master is not None:
                return master.config_epoch
        return peer.config_epoch

    def owner_of(self, slot: int) -> Peer | None:
        """Return the owner of *slot* in this view (R68)."""
        return next((peer for peer in self.nodes.values() if peer.slots >> slot & 1), None)

    def assigned(self) -> int:
        """Return the slots with an owner."""
        bits = 0
        for peer in self.nodes.values():
            bits |= peer.slots
        return bits

    def max_epoch(self) -> int:
        """Return the greatest epoch seen (R25, clusterGetMaxEpoch)."""
        return max(self.current_epoch, *(peer.config_epoch for peer in self.nodes.values()))

    def size(self) -> int:
        """Return the number of voting masters; constant within one message, like the server's (R110)."""
        if self.sized_version != self.version:
            self.sized = sum(peer.votes for peer in self.nodes.values())
            self.sized_version = self.version
        return self.sized

    def covered(self) -> Coverage:
        """Return the inputs of the cluster state, cached per table version (R107, R108)."""
        if self.coverage_version != self.version:
            self.coverage, self.coverage_version = coverage_of(self), self.version
        return self.coverage

    def at_address(self, ip: str, cport: int) -> list[Peer]:
        """Return the nodes at a bus address; entries without ip match by port."""
        return [
            p for p in self.nodes.values() if p.cport == cport and (p.ip == ip or not p.ip) and p is not self.myself
        ]

    def set_role(self, peer: Peer, role: int) -> None:
        """Set the role of *peer*; a replica is no migration target (R23)."""
        peer.flags = peer.flags & ~(ROLES | (MIGRATE_TO if role == REPLICA else 0)) | role
        self.state_stale = True


def row_of(view: View, peer: Peer) -> tuple[int, str, int, int, str, int, int, str]:
    """Return the CLUSTER NODES fields of *peer*: flags, master, epoch, slots, ip, port, bus port, host name (R128)."""
    return (
        peer.flags & PRINTED,
        peer.replicaof if peer.flags & REPLICA else "",
        view.epoch_shown(peer),
        peer.slots,
        peer.ip,
        peer.port,
        peer.cport,
        peer.hostname,
    )
