"""What the nodes of a cluster say, made by hand, and plans for a cluster as it is: short ids, addresses ``a:1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cluster_core.rebalance.bounds import count_ranges
from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.plan import Batch, Job, MasterRoom, Move, Plan, order_moves
from cluster_core.rebalance.stored_plan import PlannedNode, StoredPlan, hash_state
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.slots.slot_set import SlotSet


def thirds(names: Sequence[str] = "abc") -> list[str]:
    """Owners of all slots: an equal part for each of *names*, in order."""
    return [names[slot * len(names) // SLOT_COUNT] for slot in range(SLOT_COUNT)]


def slots_by_owner(held: Sequence[str]) -> dict[str, SlotSet]:
    return {name: SlotSet(slot for slot, owner in enumerate(held) if owner == name) for name in dict.fromkeys(held)}


@dataclass
class SeenCluster:
    """Masters that agree on *held*, the owner of each slot; *lost* ones do not answer, *changed* says what one says otherwise."""

    held: list[str] = field(default_factory=thirds)
    names: Sequence[str] = "abc"
    product: str = "redis 7.0"
    lost: set[str] = field(default_factory=set)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def owners(self) -> list[str]:
        return list(self.held)

    def epochs(self) -> dict[str, int]:
        numbers = {name: number for number, name in enumerate(self.names, 1)}
        return numbers | {
            name: epoch["config_epoch"] for name, epoch in self.changed.items() if "config_epoch" in epoch
        }

    def address(self, name: str) -> str:
        return f"{name}:1"

    def look(self, names: Sequence[str]) -> ClusterSight:
        product, _, version = self.product.partition(" ")
        owners = slots_by_owner(self.held)
        epochs, addresses = self.epochs(), {name: self.address(name) for name in self.names}
        seen = {}
        for name in names:
            fields = {"owners": owners, "epochs": epochs, "addresses": addresses, "config_epoch": epochs[name]}
            fields |= {"product": product, "version": tuple(map(int, version.split(".")))} | self.changed.get(name, {})
            seen[name] = NodeSight(name, self.address(name), **fields)
        lost = {name: "connection refused" for name in names if name in self.lost}
        return ClusterSight({name: node for name, node in seen.items() if name not in lost}, lost)


def stored_plan(cluster: Any, moves: Sequence[tuple[int, str, str]], slots_max: int = 0) -> StoredPlan:
    """A plan for *cluster*, seen or simulated, as it is, which moves these slots; with *slots_max* in batches of one job with so many slots at most."""
    owners = cluster.owners()
    loads = {"serialized_bytes": [10] * SLOT_COUNT}
    names = list(cluster.names)
    problem = Problem(loads, owners, [Master(name) for name in names])
    after = list(owners)
    for slot, source, target in moves:
        assert after[slot] == source
        after[slot] = target
    rows = tuple(Move(slot, source, target, (10,)) for slot, source, target in sorted(moves))
    held = {name: (10.0 * owners.count(name),) for name in names}
    rooms = {name: MasterRoom(held[name], {}, owners.count(name), stays=name in after) for name in names}
    plan = Plan(
        "move", "serialized_bytes", 1, rows, 10 * len(rows), 0, (), (), (), None, False,
        count_ranges(owners), count_ranges(after), tuple(after),
    )  # fmt: skip
    batches = order_moves(rows, rooms).batches
    if slots_max:
        batches = _cut([job for batch in batches for job in batch.jobs], slots_max)
    epochs = cluster.epochs()
    return StoredPlan(
        "0123456789ab", "now", problem, plan, tuple(batches),
        tuple(PlannedNode(name, cluster.address(name), "", epochs[name]) for name in names),
        hash_state(owners, epochs), 0,
    )  # fmt: skip


def _cut(jobs: Sequence[Job], slots_max: int) -> list[Batch]:
    pieces = [
        job._replace(slots=slots, loads=(10.0 * len(slots),))
        for job in jobs
        for start in range(0, len(job.slots), slots_max)
        if (slots := job.slots[start : start + slots_max])
    ]
    return [Batch(number, (job,)) for number, job in enumerate(pieces, 1)]
