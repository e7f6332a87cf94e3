"""Whether the cluster is still the one that a plan was made for: owners of slots and masters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from cluster_core.rebalance.plan import slot_ranges
from cluster_core.rebalance.stored_plan import StoredPlan

DIFFERENCES_MAX = 20
"""Differences that are reported."""


def hash_state(owners: Sequence[str], config_epochs: Mapping[str, int]) -> str:
    """Return the SHA-256 (hexadecimal) of who owns which slots (node id by slot) at which config epoch."""
    digest = hashlib.sha256()
    slots: dict[str, list[int]] = {}
    for slot, owner in enumerate(owners):
        slots.setdefault(owner, []).append(slot)
    for node in sorted(slots.keys() | config_epochs.keys()):
        ranges = " ".join(f"{a}-{b}" for a, b in slot_ranges(slots.get(node, [])))
        digest.update(f"{node}\t{config_epochs.get(node, '')}\t{ranges}\n".encode())
    return digest.hexdigest()


def differences(stored: StoredPlan, owners: Sequence[str], config_epochs: Mapping[str, int]) -> list[str]:
    """Return what differs from the state that *stored* was made for, a sentence each, `DIFFERENCES_MAX` at most.

    A config epoch may rise: a failover and a moved slot raise it, and owners tell whether slots moved.  A lower one means a server that
    was reset or restored.
    """
    found = []
    planned = {node.id: node.config_epoch for node in stored.nodes}
    changed: dict[tuple[str, str], list[int]] = {}
    for slot, (before, now) in enumerate(zip(stored.problem.owners, owners, strict=True)):
        if before != now:
            changed.setdefault((before, now), []).append(slot)
    for (before, now), slots in changed.items():
        ranges = " ".join(str(a) if a == b else f"{a}-{b}" for a, b in slot_ranges(slots)[:5])
        found.append(f"slots {ranges}: owner is {now or 'nobody'}, in the plan {before}")
    for node in planned.keys() - config_epochs.keys():
        found.append(f"{node} is in the plan and is no master of the cluster")
    for node in config_epochs.keys() - planned.keys():
        found.append(f"{node} is a master of the cluster that the plan does not know")
    for node in planned.keys() & config_epochs.keys():
        if planned[node] > config_epochs[node]:
            found.append(f"config epoch of {node} fell to {config_epochs[node]}, from {planned[node]} in the plan")
    return sorted(found)[:DIFFERENCES_MAX]
