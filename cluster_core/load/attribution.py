"""Whose data is in a dump: a dump does not say, but its keys do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cluster_core.topology.node import Topology

MAJORITY = 0.5
"""A dump belongs to the master that owns the slots of more than this share of its keys."""


class Attribution(NamedTuple):
    """The master of a dump and how that is known: ``name``, ``keys``; None and ``unknown`` otherwise."""

    node_id: str | None
    evidence: str


def attribute(source: str, keys_by_owner: Mapping[str | None, int], topology: Topology | None) -> Attribution:
    """Return the master whose data *source* holds.

    *keys_by_owner* counts its keys by the owner of their slots (None: nobody).  A node id in the file's path wins; then the owner of the
    majority of its keys.
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
