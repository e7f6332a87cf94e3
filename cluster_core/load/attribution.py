"""Whose data is in a dump: a dump does not say, but its keys do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cluster_core.topology.node import Topology

MAJORITY = 0.5
"""A dump belongs to the master that owns the slots of more than this share of its keys."""


class Attribution(NamedTuple):
    """The master of a dump and how that is known: ``given``, ``name``, ``keys``; None and ``unknown`` otherwise."""

    node_id: str | None
    evidence: str


def resolve_node(words: str, topology: Topology) -> str | None:
    """Return the master that *words* (a node id, the start of one, ``host:port`` or a port) names; of a replica, its master."""
    matches = [
        node
        for node in topology.nodes
        if words in (node.id, node.address, str(node.port)) or (len(words) >= 8 and node.id.startswith(words))
    ]
    if len(matches) != 1:
        return None
    node = matches[0]
    return node.id if node.is_master else node.master_id


def attribute(
    source: str, keys_by_owner: Mapping[str | None, int], topology: Topology | None, given: str | None = None
) -> Attribution:
    """Return the master whose data *source* holds.

    *keys_by_owner* counts its keys by the owner of their slots (None: nobody).  *given*, a node that the user named, wins; then a
    node id in the file's path; then the owner of the majority of its keys.
    """
    if topology is None:
        return Attribution(None, "unknown")
    if given is not None:
        node_id = resolve_node(given, topology)
        return Attribution(node_id, "given" if node_id else "unknown")
    for node in topology.nodes:
        if node.id in source:
            return Attribution(node.id if node.is_master else node.master_id, "name")
    total = sum(keys_by_owner.values())
    if total:
        owner, keys = max(keys_by_owner.items(), key=lambda item: (item[1], item[0] or ""))
        if owner is not None and keys > MAJORITY * total:
            return Attribution(owner, "keys")
    return Attribution(None, "unknown")
