"""The state of a live cluster as its nodes report it, read from CLUSTER NODES, CLUSTER INFO, INFO and lists of migrations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache, reduce
from itertools import chain
from operator import and_, or_
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Node, Topology
from cluster_core.topology.nodes_text import read_nodes

PONG_WORD = 5
LINES_KEPT_MAX = 8192
FINISHED = ("success", "completed")
"""States of a completed server-side job (Valkey 9, Redis 8.4)."""
FAILED = ("failed", "cancelled", "canceled")
"""States of a job that failed; a ``failed`` import of Redis retries until it is cancelled."""


class MigrationPath(Enum):
    """Path of slots: key by key (any version), source jobs (Valkey 9), target imports (Redis 8.4)."""

    LEGACY = "setslot"
    VALKEY_JOBS = "migrateslots"
    REDIS_IMPORT = "migration import"


JOB_LISTS = {
    MigrationPath.VALKEY_JOBS: ("CLUSTER", "GETSLOTMIGRATIONS"),
    MigrationPath.REDIS_IMPORT: ("CLUSTER", "MIGRATION", "STATUS", "ALL"),
}
"""Commands that list the server-side migrations of a path."""


@dataclass(frozen=True, slots=True)
class JobSight:
    """One server-side migration: CLUSTER GETSLOTMIGRATIONS or CLUSTER MIGRATION STATUS."""

    name: str
    outgoing: bool
    source: str
    target: str
    slots: SlotSet
    state: str
    message: str = ""
    retries: int | None = None
    """Retries so far; None for Valkey, which does not retry."""

    @property
    def has_failed(self) -> bool:
        """Return whether it failed for good."""
        return self.state in FAILED and not self.is_active

    @property
    def is_active(self) -> bool:
        """Whether it may still move slots; a failed import of Redis 8.4 retries at its target (asmCron)."""
        if self.state in FINISHED:
            return False
        return self.state not in FAILED or (self.state == "failed" and not self.outgoing and self.retries is not None)


@dataclass(frozen=True, slots=True)
class NodeSight:
    """One node and its view of the cluster.

    *owners*: slots by node; *epochs*: config epochs of present masters (`Node.is_gone`); *migrating*, *importing*: its open
    slots with the other end's id; *open_keys*: the number of its keys in them.
    """

    id: str
    address: str = ""
    is_master: bool = True
    config_epoch: int = 0
    product: str = "valkey"
    version: tuple[int, ...] = ()
    cluster_ok: bool = True
    slots_ok: int = SLOT_COUNT
    owners: Mapping[str, SlotSet] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    unreachable: tuple[str, ...] = ()
    migrating: Mapping[int, str] = field(default_factory=dict)
    importing: Mapping[int, str] = field(default_factory=dict)
    open_keys: Mapping[int, int] = field(default_factory=dict)
    jobs: tuple[JobSight, ...] = ()
    used_memory: int = 0
    memory_max: int = 0
    replicas_online: int = 0
    """Its online replicas."""
    databases: tuple[int, ...] = ()
    node_timeout_ms: int = 0
    """cluster-node-timeout; 0 if not reported."""

    @property
    def own(self) -> SlotSet:
        """The slots that it claims."""
        return self.owners.get(self.id, SlotSet())

    @property
    def path(self) -> MigrationPath:
        """The fastest path that its server knows."""
        return fastest_path(self.product, self.version)

    @property
    def server(self) -> str:
        """Product and version: ``valkey 9.1.0``."""
        return f"{self.product} {'.'.join(map(str, self.version))}"


@dataclass(frozen=True, slots=True)
class ClusterSight:
    """The state of each node that answered, by id; *lost* has the others with the reason."""

    nodes: Mapping[str, NodeSight]
    lost: Mapping[str, str] = field(default_factory=dict)

    def owner_list(self) -> list[str]:
        """Return the owner of every slot: its claimant, else the named owner with the highest config epoch."""
        owners = [""] * SLOT_COUNT
        epochs = self.epochs()
        silent = {owner for node in self.nodes.values() for owner in node.owners} - self.nodes.keys()
        for owner in sorted(silent, key=lambda name: (epochs.get(name, 0), name)):
            for node in self.nodes.values():
                for slot in node.owners.get(owner, ()):
                    owners[slot] = owner
        for node in sorted(self.nodes.values(), key=lambda n: n.config_epoch):
            for slot in node.own:
                owners[slot] = node.id
        return owners

    def disputed(self) -> SlotSet:
        """Return the slots that different views assign to different owners, ignoring views without owners."""
        views = [dict(node.owners) for node in self.nodes.values() if node.owners]
        if all(view == views[0] for view in views):
            return SlotSet()
        claims = [[view.get(name, SlotSet()) for view in views] for name in dict.fromkeys(chain(*views))]
        return reduce(or_, (reduce(or_, slots) - reduce(and_, slots) for slots in claims))

    def misinformed(self, slots: Collection[int]) -> list[tuple[str, int, str]]:
        """Return each node that names a wrong owner of one of *slots*, with the slot and its owner.

        An importing node keeps a replaced owner until the slot is closed, and reports ``cluster_state:fail``
        (`clusterUpdateSlotsConfigWith` skips such slots).
        """
        owners = self.owner_list() if slots else []
        return [
            (node.id, slot, owners[slot])
            for node in self.nodes.values()
            for slot in slots
            if owners[slot] not in ("", node.id) and slot not in node.owners.get(owners[slot], ())
        ]

    def open_slots(self) -> dict[int, tuple[str, str]]:
        """Return the open slots with source and target."""
        ends_by_slot: dict[int, tuple[str, str]] = {}
        for node in self.nodes.values():
            for slot, other in node.importing.items():
                ends_by_slot[slot] = (other, node.id)
            for slot, other in node.migrating.items():
                ends_by_slot[slot] = (node.id, other)
        return ends_by_slot

    def active_jobs(self) -> list[JobSight]:
        """Return the active server-side migrations, each once."""
        jobs = {job.name: job for node in self.nodes.values() for job in node.jobs if job.is_active}
        return list(jobs.values())

    def epochs(self) -> dict[str, int]:
        """Return each master's config epoch: its own, else the highest in the views, if most list that master."""
        listed: dict[str, list[int]] = {}
        for node in self.nodes.values():
            for name, epoch in node.epochs.items():
                if name not in self.nodes:
                    listed.setdefault(name, []).append(epoch)
        listed_epochs = {name: max(epochs) for name, epochs in listed.items() if 2 * len(epochs) > len(self.nodes)}
        return listed_epochs | {node.id: node.config_epoch for node in self.nodes.values() if node.is_master}


def read_node(node_id: str, nodes: bytes, cluster_info: bytes, info: bytes) -> NodeSight:
    """Return a node from its CLUSTER NODES (R128), CLUSTER INFO (R130) and INFO; DecodeError for other text."""
    topology = _topology(nodes, node_id)
    if topology.my_id != node_id:
        raise DecodeError(f"the answer is from node {topology.my_id}, not {node_id}", offset=0, source=node_id)
    state, facts = _facts(cluster_info), _facts(info)
    product, version = read_server(facts)
    keyspace = {name[2:]: text for name, text in facts.items() if name[:2] == "db" and name[2:].isdigit()}
    keys = {int(name): _number(text.partition("keys=")[2].partition(",")[0]) for name, text in keyspace.items()}
    return replace(
        sight_of(topology),
        product=product,
        version=version,
        cluster_ok=state.get("cluster_state") == "ok",
        slots_ok=_number(state.get("cluster_slots_ok", "0")),
        used_memory=_number(facts.get("used_memory", "0")),
        memory_max=_number(facts.get("maxmemory", "0")),
        replicas_online=sum(
            name[:5] == "slave" and name[5:].isdigit() and "state=online" in value.split(",")
            for name, value in facts.items()
        ),
        databases=tuple(sorted(number for number, held in keys.items() if held)),
    )


def sight_of(topology: Topology) -> NodeSight:
    """Return a node from its CLUSTER NODES; KeyError if it does not name itself."""
    me = topology.by_id[topology.my_id or ""]
    failing = NodeFlags.FAIL | NodeFlags.PFAIL
    return NodeSight(
        id=me.id,
        address=me.address,
        is_master=me.is_master,
        config_epoch=me.config_epoch,
        owners={node.id: node.slots for node in topology.nodes if node.slots},
        epochs={node.id: node.config_epoch for node in topology.masters() if not node.is_gone},
        addresses={node.id: node.address for node in topology.nodes if node.port},
        unreachable=tuple(node.id for node in topology.nodes if node.flags & failing),
        migrating=me.migrating,
        importing=me.importing,
    )


def read_server(facts: Mapping[str, str]) -> tuple[str, tuple[int, ...]]:
    """Return product and version of a server from its INFO."""
    is_valkey = facts.get("server_name") == "valkey" or "valkey_version" in facts
    version = facts.get("valkey_version") if is_valkey else facts.get("redis_version")
    return "valkey" if is_valkey else "redis", tuple(_number(part) for part in (version or "0").split(".")[:3])


def fastest_path(product: str, version: tuple[int, ...]) -> MigrationPath:
    """Return the fastest path that a server knows."""
    if product == "valkey":
        return MigrationPath.VALKEY_JOBS if version >= (9,) else MigrationPath.LEGACY
    return MigrationPath.REDIS_IMPORT if version >= (8, 4) else MigrationPath.LEGACY


def _topology(text: bytes, source: str) -> Topology:
    """Parse CLUSTER NODES text; lines that differ in ping times only are parsed once for all nodes."""
    nodes = []
    for line in text.splitlines():
        fields = line.split(b" ")
        if len(fields) > PONG_WORD:
            fields[PONG_WORD - 1] = fields[PONG_WORD] = b"0"
            nodes.append(_read_line(b" ".join(fields)))
        elif line.strip():
            raise DecodeError("not a line of CLUSTER NODES", offset=0, source=source)
    return Topology(tuple(nodes))


@lru_cache(maxsize=LINES_KEPT_MAX)
def _read_line(line: bytes) -> Node:
    nodes = read_nodes(line).nodes
    if len(nodes) != 1:
        raise DecodeError("not a line of CLUSTER NODES", offset=0)
    return nodes[0]


def _facts(text: bytes) -> dict[str, str]:
    lines = text.decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def read_jobs(reply: Any) -> tuple[JobSight, ...]:
    """Return the migrations in a reply to `JOB_LISTS` (RESP2); DecodeError for another shape."""
    if not isinstance(reply, list):
        raise DecodeError("not a list of migrations", offset=0)
    return tuple(_read_job(entry) for entry in reply)


def _read_job(entry: Any) -> JobSight:
    if not isinstance(entry, list) or len(entry) % 2:
        raise DecodeError("a migration is not a list of names and values", offset=0)
    texts = [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in entry]
    facts = dict(zip(texts[::2], texts[1::2], strict=True))
    return JobSight(
        name=facts.get("name") or facts.get("id", ""),
        outgoing=facts.get("operation", "").lower() in ("export", "migrate"),
        source=facts.get("source_node") or facts.get("source", ""),
        target=facts.get("target_node") or facts.get("dest", ""),
        slots=SlotSet.parse(facts.get("slot_ranges") or facts.get("slots", ""), source="migration"),
        state=facts.get("state", ""),
        message=facts.get("message") or facts.get("last_error", ""),
        retries=_number(facts["retries"]) if "retries" in facts else None,
    )
