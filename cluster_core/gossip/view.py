"""The state of the machine: the node table (R21), the links, and what a node knows of itself (R22)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from sys import intern
from typing import Final

from cluster_core.gossip.flags import FAILURES, HANDSHAKE, MASTER, MIGRATE_TO, MYSELF, PRINTED, REPLICA, ROLES
from cluster_core.gossip.profile import Profile
from cluster_core.wire.bus import GossipEntry

NODES_MAX: Final = 20_000
"""Bound of the node table; ten times the largest cluster that is known to work."""
EVERY_SLOT: Final = (1 << 16384) - 1
BITMAPS_CACHED: Final = 8192
TABLES_CACHED: Final = 16
NO_CLIENT_IPS: Final = ("", "")
"""`Peer.client_ips` of a node that has no other addresses for clients, IPv4 and IPv6 (R15)."""


@lru_cache(maxsize=BITMAPS_CACHED)
def slot_bits(bitmap: bytes) -> int:
    """The slots of a wire bitmap as a number, slot s at bit s (R4); cached, as a cluster has few distinct bitmaps."""
    return int.from_bytes(bitmap, "little")


@lru_cache(maxsize=TABLES_CACHED)
def places_of(ids: tuple[str, ...]) -> Mapping[str, int]:
    """Where each id stands; nodes that know the same ones in the same order share the answer."""
    return {node_id: place for place, node_id in enumerate(ids)}


class _Rumour:
    """What is asked of a peer whenever somebody gossips about it.

    Python lays out the slots of a base class first: these stand side by side.  A simulated cluster holds more peers than
    fit into a processor's cache, and each line of memory that need not be fetched is time won.
    """

    __slots__ = ("due_ms", "flags", "inbound", "outbound", "ping_sent_ms", "place", "pong_received_ms", "reports")


class _Talk(_Rumour):
    """What is asked of a peer with each message of its own."""

    __slots__ = (
        "data_received_ms",
        "id",
        "quiet_before",
        "quiet_extensions",
        "quiet_header",
        "quiet_ip",
        "quiet_said",
        "quiet_version",
        "repl_offset",
    )


class Peer(_Talk):
    """One entry of the node table (R21); ids and addresses are text, times milliseconds, 0 for never."""

    __slots__ = (
        "client_ips",
        "config_epoch",
        "cport",
        "ctime_ms",
        "fail_time_ms",
        "hostname",
        "inbound_lost_ms",
        "ip",
        "meet_sent_ms",
        "nodename",
        "orphaned_ms",
        "port",
        "pport",
        "replicaof",
        "shard_id",
        "slots",
        "tried_ms",
        "voted_time_ms",
    )

    def __init__(self, node_id: str, flags: int, now_ms: int) -> None:
        self.id = intern(node_id)
        self.flags = flags
        self.ctime_ms = now_ms
        self.ip = ""
        self.port = self.cport = self.pport = 0
        self.hostname = ""
        self.client_ips = NO_CLIENT_IPS
        self.shard_id = ""
        self.config_epoch = 0
        self.slots = 0
        self.replicaof = ""
        self.inbound: int | None = None
        self.outbound: int | None = None
        self.ping_sent_ms = self.pong_received_ms = self.data_received_ms = 0
        self.fail_time_ms = self.voted_time_ms = 0
        self.repl_offset = 0
        self.reports: dict[str, int] = {}
        self.quiet_said: object = None
        self.quiet_header: object = None
        self.quiet_before: object = None
        self.quiet_extensions: object = ()
        self.quiet_ip = ""
        self.quiet_version = -1
        self.nodename = ""
        self.due_ms = 0
        self.orphaned_ms = self.inbound_lost_ms = self.meet_sent_ms = 0
        self.place = self.tried_ms = 0

    @property
    def is_master(self) -> bool:
        """Whether the node is a master as far as we know."""
        return bool(self.flags & MASTER)

    @property
    def votes(self) -> bool:
        """Whether the node is a voting master: a master with slots."""
        return bool(self.flags & MASTER and self.slots)

    @property
    def in_handshake(self) -> bool:
        """Whether its id is not known yet (R56)."""
        return bool(self.flags & HANDSHAKE)


class Link:
    """One TCP connection of the bus; *node* is the id it is bound to, None while unknown (R26).

    *made_ms* is when it was begun or accepted and *local_ip* our own end of an accepted one (R35, R49), where they matter.
    """

    __slots__ = ("inbound", "local_ip", "made_ms", "node")

    def __init__(self, node: str | None, *, inbound: bool, made_ms: int = 0, local_ip: str = "") -> None:
        self.node = node
        self.inbound = inbound
        self.made_ms = made_ms
        self.local_ip = local_ip


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
        self.reported = True
        self.name_handshake: Callable[[], str] | None = None
        self.version = 0
        self.members = 0
        self.sized = 0
        self.sized_version = self.coverage_version = -1
        self.coverage = (True, 0, 0)
        self.told: list[GossipEntry | None] = [None]
        self.places: Mapping[str, int] = {}
        self.placed = -1

    def note_places(self) -> None:
        """The table has other members: what is gossiped about each is kept from now on at its place in the table."""
        self.places, self.placed = places_of(tuple(self.nodes)), self.members
        self.told = [None] * len(self.nodes)

    def forget_told(self, peer: Peer) -> None:
        """What is gossiped about *peer* changed: `told`, kept by `Peer.place`, does not hold any more (R9)."""
        self.told[peer.place] = None

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
