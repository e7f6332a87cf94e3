"""What a node knows when a client asks it something: owners, marks, addresses, state, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from cluster_core.slots.node_flags import NodeFlags
from cluster_core.topology.node import Topology


class Endpoint(NamedTuple):
    """What a redirection may name of a node: see `cluster-preferred-endpoint-type`."""

    ip: str
    port: int
    hostname: str = ""


class EndpointType(Enum):
    """Values of ``cluster-preferred-endpoint-type``."""

    IP = "ip"
    HOSTNAME = "hostname"
    UNKNOWN = "unknown-endpoint"


class Dialect(NamedTuple):
    """Where servers route differently (R115, R116, R119).

    *cross_slot_first*: CROSSSLOT is found before anything else is asked.  *marks_of_masters*: open slots count only on
    a master or for a READONLY client, and a replica has its master's marks.  *pubsub_inside_exec*: a shard channel
    inside a transaction counts as one.  *keys_at_exec*: whether keys of an open slot are here is asked at EXEC only, not
    when a command is queued.
    """

    name: str
    cross_slot_first: bool
    marks_of_masters: bool
    pubsub_inside_exec: bool
    keys_at_exec: bool


REDIS_7_0: Final = Dialect(
    "redis-7.0", cross_slot_first=False, marks_of_masters=False, pubsub_inside_exec=False, keys_at_exec=False
)
VALKEY_9_1: Final = Dialect(
    "valkey-9.1", cross_slot_first=True, marks_of_masters=True, pubsub_inside_exec=True, keys_at_exec=True
)
DIALECTS: Final = {dialect.name: dialect for dialect in (REDIS_7_0, VALKEY_9_1)}


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the node that change its answers; the values are the servers' defaults."""

    allow_reads_when_down: bool = False
    allow_pubsubshard_when_down: bool = True
    endpoint_type: EndpointType = EndpointType.IP


@dataclass(frozen=True, slots=True)
class RoutingView:
    """One node's view: it is *myself*, a replica of *master_id* or, when that is empty, a master.

    *owners* maps slots to node ids and lacks those that nobody owns; *migrating* and *importing* map open slots to the
    other node.
    """

    myself: str
    owners: Mapping[int, str]
    nodes: Mapping[str, Endpoint]
    master_id: str = ""
    cluster_ok: bool = True
    migrating: Mapping[int, str] = field(default_factory=dict)
    importing: Mapping[int, str] = field(default_factory=dict)
    dialect: Dialect = VALKEY_9_1
    settings: Settings = Settings()

    @property
    def serving(self) -> str:
        """The node whose slots are served here: myself, or my master."""
        return self.master_id or self.myself

    def address(self, node_id: str) -> str:
        """How a redirection names a node (`getPreferredEndpoint`): ``ip:port``, ``host:port``, ``?:port`` or ``:port``."""
        node = self.nodes.get(node_id, Endpoint("", 0))
        if self.settings.endpoint_type is EndpointType.IP:
            return f"{node.ip}:{node.port}"
        if self.settings.endpoint_type is EndpointType.HOSTNAME:
            return f"{node.hostname or '?'}:{node.port}"
        return f":{node.port}"


def view_of(
    topology: Topology,
    *,
    cluster_ok: bool = True,
    dialect: Dialect = VALKEY_9_1,
    settings: Settings = Settings(),
) -> RoutingView:
    """The view of the node that answered CLUSTER NODES with *topology* (R128); raises ValueError if none is ``myself``.

    CLUSTER NODES does not say whether the cluster is ok, CLUSTER INFO does.
    """
    me = topology.by_id.get(topology.my_id or "")
    if me is None:
        raise ValueError("no node is marked myself")
    owners: dict[int, str] = {}
    for node in topology.nodes:
        for slot in node.slots:
            owners.setdefault(slot, node.id)
    return RoutingView(
        me.id,
        owners,
        {node.id: Endpoint(node.ip, node.port, node.hostname) for node in topology.nodes},
        "" if NodeFlags.MASTER in me.flags else me.master_id or "",
        cluster_ok,
        me.migrating,
        me.importing,
        dialect,
        settings,
    )


def is_cluster_ok(topology: Topology, *, require_full_coverage: bool = True) -> bool:
    """Whether the node of *topology* serves requests, as far as CLUSTER NODES shows it (R107, R108).

    A master also waits a while before it serves again (R106, R109), which only CLUSTER INFO shows.
    """
    voting = [node for node in topology.nodes if node.is_master and node.slots]
    reachable = sum(not node.flags & (NodeFlags.PFAIL | NodeFlags.FAIL) for node in voting)
    if reachable < len(voting) // 2 + 1:
        return False
    lost = any(NodeFlags.FAIL in node.flags for node in voting)
    return not (require_full_coverage and (lost or bool(topology.uncovered())))
