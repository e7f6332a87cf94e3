"""Nodes and cluster topology, as described by one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cluster_core.slots.node_flags import GONE, NodeFlags
from cluster_core.slots.slot_set import SlotMap, SlotSet


@dataclass(frozen=True, slots=True)
class Node:
    """One node; fields missing from the source keep their defaults.

    *aux* holds ``shard-id``, ``nodename``, ``tls-port`` and other auxiliary fields, in order. Times are ms since the epoch, 0
    if none. *migrating* and *importing* map slots to the other node's id. *endpoint* None is "unknown" in SHARDS and SLOTS.
    """

    id: str
    ip: str = ""
    port: int = 0
    cport: int | None = None
    hostname: str = ""
    aux: Mapping[str, str] = field(default_factory=dict)
    flags: NodeFlags = NodeFlags(0)  # noqa: RUF009 - a flag is immutable
    extra_flags: tuple[str, ...] = ()
    master_id: str | None = None
    ping_sent: int = 0
    pong_received: int = 0
    config_epoch: int = 0
    link_connected: bool = True
    slots: SlotSet = SlotSet()  # noqa: RUF009 - a SlotSet is immutable
    migrating: Mapping[int, str] = field(default_factory=dict)
    importing: Mapping[int, str] = field(default_factory=dict)
    endpoint: str | None = None

    @property
    def is_master(self) -> bool:
        """Return whether the node is a master."""
        return NodeFlags.MASTER in self.flags

    @property
    def is_gone(self) -> bool:
        """Return whether the node is failed or has no address, and owns no slots. Plans ignore such nodes."""
        return not self.slots and bool(self.flags & GONE)

    @property
    def address(self) -> str:
        """Return ``ip:port`` as in CLUSTER NODES; ``:0`` if unknown."""
        return f"{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Slots claimed by two nodes; the first one keeps them, as in a server that loads such a file."""

    slots: SlotSet
    keeper_id: str
    other_id: str


@dataclass(frozen=True)
class Topology:
    """The nodes of one description, in its order, and the epochs of nodes.conf.

    *form* is ``nodes``, ``nodes.conf``, ``shards`` or ``slots``; *conflicts* is empty unless read with ``strict=False``.
    """

    nodes: tuple[Node, ...]
    form: str = "nodes"
    current_epoch: int | None = None
    last_vote_epoch: int | None = None
    conflicts: tuple[Conflict, ...] = ()

    @cached_property
    def by_id(self) -> dict[str, Node]:
        """The nodes by their ids."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def my_id(self) -> str | None:
        """Return the id of the describing node, None if unknown."""
        return next((node.id for node in self.nodes if NodeFlags.MYSELF in node.flags), None)

    @cached_property
    def _owners(self) -> SlotMap:
        owners = SlotMap()
        for node in self.nodes:
            for slot in node.slots:
                if owners[slot] is None:
                    owners.assign(slot, node.id)
        return owners

    def masters(self) -> tuple[Node, ...]:
        """Return the masters, with slots or without."""
        return tuple(node for node in self.nodes if node.is_master)

    def slot_map(self) -> SlotMap:
        """Return a new map of slot owners; the first of two claims counts."""
        copy = SlotMap()
        for slot, owner in enumerate(self._owners.owners()):
            if owner is not None:
                copy.assign(slot, owner)
        return copy

    def owner_of(self, slot: int) -> Node | None:
        """Return the node that owns *slot*, or None; IndexError when *slot* is out of range."""
        owner = self._owners[slot]
        return None if owner is None else self.by_id[owner]

    def uncovered(self) -> SlotSet:
        """Return the unassigned slots."""
        return ~self._owners.covered()


def find_conflicts(nodes: tuple[Node, ...]) -> tuple[Conflict, ...]:
    """Return every overlap of slots, each counted against the first node that claims the slot."""
    conflicts: list[Conflict] = []
    claimed = SlotSet()
    for index, node in enumerate(nodes):
        shared = node.slots & claimed
        if shared:
            for keeper in nodes[:index]:
                kept = shared & keeper.slots
                if kept:
                    conflicts.append(Conflict(kept, keeper.id, node.id))
                    shared -= kept
        claimed |= node.slots
    return tuple(conflicts)
