"""Attribute a dump to a master by the slots of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cluster_core.topology.node import Topology

MAJORITY = 0.5
"""The master must own the slots of more than this share of the keys."""


class Attribution(NamedTuple):
    """The master of a dump and the evidence: ``name`` or ``keys``; otherwise None and ``unknown``."""

    node_id: str | None
    evidence: str


def attribute(source: str, keys_by_owner: Mapping[str | None, int], topology: Topology | None) -> Attribution:
    """Return the master that wrote *source*.

    A node id in the path decides; else the owner of the majority of *keys_by_owner* (None: unassigned slots).
    """
    if topology is None:
        return Attribution(None, "unknown")
    for node in topology.nodes:
        if node.id in source:
            return Attribution(node.id if node.is_master else node.master_id, "name")
    total = sum(keys_by_owner.values())
    if total:
        owner, keys = max(keys_by_owner.items(), key=lambda item: (item[1], item[0] or ""))
        if owner is not None and keys > MAJORITY * total:
            return Attribution(owner, "keys")
    return Attribution(None, "unknown")
