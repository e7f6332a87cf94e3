"""The state of the machine: the node table (R21), the links, and what a node knows of itself (R22)."""

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
"""Bound of the node table; ten times the largest cluster that is known to work."""
EVERY_SLOT: Final = (1 << SLOT_COUNT) - 1
BITMAPS_CACHED: Final = 8192
ADDRESS: Final = GossipEntry._fields.index("ip")
"""From here on an entry says where a node is and what."""
NO_CLIENT_IPS: Final = ("", "")
"""`Peer.client_ips` of a node that has no other addresses for clients, IPv4 and IPv6 (R15)."""


@lru_cache(maxsize=BITMAPS_CACHED)
def slot_bits(bitmap: bytes) -> int:
    """The slots of a wire bitmap as a number, slot s at bit s (R4); cached, as a cluster has few distinct bitmaps."""
    return int.from_bytes(bitmap, "little")


@dataclass(slots=True, eq=False)
class Peer:
    """One entry of the node table (R21); ids and addresses are text, times milliseconds, 0 for never."""

    id: str
    flags: int
    ctime_ms: int
    reports: dict[str, int] = field(default_factory=dict)
    """Who said when that it fails (R51)."""
    pong_received_ms: int = 0
    ping_sent_ms: int = 0
    data_received_ms: int = 0
    inbound: int | None = None
    outbound: int | None = None
    place: int = 0
    """Where it stands in the list from which gossip is drawn, and in `View.said`."""
    due_ms: int = 0
    """When the cron looks at it next."""
    repl_offset: int = 0
    ip: str = ""
    port: int = 0
    cport: int = 0
    pport: int = 0
    hostname: str = ""
    nodename: str = ""
    client_ips: tuple[str, str] = NO_CLIENT_IPS
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
        """Whether the node is a master as far as we know."""
        return bool(self.flags & MASTER)

    @property
    def votes(self) -> bool:
        """Whether the node is a voting master: a master with slots."""
        return bool(self.flags & MASTER and self.slots)


@dataclass(slots=True, eq=False)
class Link:
    """One TCP connection of the bus; *node* is the id it is bound to, None while unknown (R26).

    *made_ms* is when it was begun or accepted and *local_ip* our own end of an accepted one (R35, R49), where they matter.
    """

    node: str | None
    _: KW_ONLY
    inbound: bool
    made_ms: int = 0
    local_ip: str = ""


class Coverage(NamedTuple):
    """What the state depends on: uncovered slots, voting masters, those of them that can be reached."""

    uncovered: bool
    size: int
    reachable: int


def coverage_of(view: View) -> Coverage:
    """Sum up the table for R107 and R108."""
    healthy, size, reachable = 0, 0, 0
    for peer in view.nodes.values():
        if not peer.flags & FAIL:
            healthy |= peer.slots
        if peer.votes:
            size += 1
            reachable += not peer.flags & FAILURES
    return Coverage(healthy != EVERY_SLOT, size, reachable)


class View:
    """Everything one node believes; the functions beside it read and change it, `ClusterNode` is its only door."""

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
        self.size_shown = profile.first_size
        self.mf_end_ms = 0
        self.mf_replica = ""
        self.mf_master_offset = -1
        self.verdicts_observed = False
        self.handshakes = 0
        self.name_handshake: Callable[[], str] | None = None
        self.version = 0
        self.said: list[GossipEntry | None] = [None]
        """What our gossip last said of each node, by `Peer.place`, None once that has changed; all of it holds for *said_version*."""
        self.said_version = -1
        self.members = 0
        self.sized = 0
        self.sized_version = self.coverage_version = -1
        self.coverage = Coverage(True, 0, 0)

    def note_ping(self, peer: Peer, sent_ms: int) -> None:
        """A PING to *peer* is pending since then (R33)."""
        peer.ping_sent_ms = sent_ms
        self.said[peer.place] = None

    def note_pong(self, peer: Peer, now_ms: int) -> None:
        """*peer* has answered our PING (R50)."""
        peer.pong_received_ms = now_ms
        peer.ping_sent_ms = 0
        self.said[peer.place] = None

    def forget_said(self, peer: Peer) -> None:
        """The flags of *peer* changed."""
        self.said[peer.place] = None

    def note_rumour(self, peer: Peer, pong_ms: int, entry: GossipEntry) -> None:
        """Another has had a younger PONG of *peer* (R44); what it says of the node is what we say from now on, if no more
        differs: so many nodes of a simulation hold one and the same entry.
        """
        peer.pong_received_ms = pong_ms
        ours = self.said[peer.place]
        keeps = ours is not None and not entry.ping_sent_s and ours[ADDRESS:] == entry[ADDRESS:]
        self.said[peer.place] = entry if keeps else None

    def peers(self) -> Iterator[Peer]:
        """Every entry but myself and handshakes."""
        for peer in self.nodes.values():
            if not peer.flags & (MYSELF | HANDSHAKE):
                yield peer

    def master_of(self, peer: Peer) -> Peer | None:
        """The master that *peer* replicates, None for a master or when it is not known."""
        return self.nodes.get(peer.replicaof) if peer.replicaof else None

    def replicas_of(self, node_id: str) -> list[Peer]:
        """The replicas of a node in table order."""
        return [peer for peer in self.nodes.values() if peer.replicaof == node_id]

    def epoch_shown(self, peer: Peer) -> int:
        """The config epoch that CLUSTER NODES prints: of a replica, its master's (R128)."""
        if peer.replicaof and peer.flags & REPLICA:
            master = self.nodes.get(peer.replicaof)
            if master is not None:
                return master.config_epoch
        return peer.config_epoch

    def owner_of(self, slot: int) -> Peer | None:
        """The node that we think owns *slot* (R68)."""
        return next((peer for peer in self.nodes.values() if peer.slots >> slot & 1), None)

    def assigned(self) -> int:
        """The slots that have an owner."""
        bits = 0
        for peer in self.nodes.values():
            bits |= peer.slots
        return bits

    def max_epoch(self) -> int:
        """The greatest epoch seen (R25, clusterGetMaxEpoch)."""
        return max(self.current_epoch, *(peer.config_epoch for peer in self.nodes.values()))

    def size(self) -> int:
        """The number of voting masters; within one message it does not change, as in the servers (R110)."""
        if self.sized_version != self.version:
            self.sized = sum(peer.votes for peer in self.nodes.values())
            self.sized_version = self.version
        return self.sized

    def covered(self) -> Coverage:
        """What the state of the cluster depends on, summed up once for each version of the table (R107, R108)."""
        if self.coverage_version != self.version:
            self.coverage, self.coverage_version = coverage_of(self), self.version
        return self.coverage

    def at_address(self, ip: str, cport: int) -> list[Peer]:
        """The nodes at a bus address; an entry whose ip is not known matches by port."""
        return [
            p for p in self.nodes.values() if p.cport == cport and (p.ip == ip or not p.ip) and p is not self.myself
        ]

    def set_role(self, peer: Peer, role: int) -> None:
        """Make *peer* a master or a replica; a replica is no migration target (R23)."""
        peer.flags = peer.flags & ~(ROLES | (MIGRATE_TO if role == REPLICA else 0)) | role
        self.state_stale = True


def row_of(view: View, peer: Peer) -> tuple[int, str, int, int, str, int, int, str]:
    """What CLUSTER NODES prints about *peer*: flags, master, epoch, slots, ip, port, bus port, host name (R128)."""
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


def health_of(peer: Peer) -> int:
    """The PFAIL and FAIL bits of *peer*."""
    return peer.flags & FAILURES
