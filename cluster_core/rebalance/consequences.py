"""What a plan means for those who live with it: clients, targets while slots arrive, other tools, and whoever wonders how many masters it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cluster_core.rebalance.goal.problem import Master, Problem, exact, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.ordering import Batch
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.topology.node import Node, Topology
from cluster_core.topology.reader import write_reply

REDIS_CLI_THRESHOLD = Fraction(2, 100)
"""Default of ``redis-cli --cluster rebalance --cluster-threshold``."""


def slots_reply(stored: StoredPlan, owners: Sequence[str]) -> bytes:
    """Return the CLUSTER SLOTS reply (RESP2) when *owners* (node id by slot) hold, replicas left out: clients ask for it when they connect
    and after a MOVED.
    """
    held: dict[str, list[int]] = {}
    for slot, owner in enumerate(owners):
        held.setdefault(owner, []).append(slot)
    nodes = []
    for node in stored.nodes:
        host, _, port = node.address.rpartition(":")
        slots = SlotSet(held.get(node.id, ()))
        number = int(port) if port.isdigit() else 0
        nodes.append(Node(id=node.id, ip=host, port=number, flags=NodeFlags.MASTER, slots=slots))
    return write_reply(Topology(tuple(nodes), "nodes"), "slots", "resp2")


LOPSIDED_SHARE = 0.25
"""Of a fair share: a slot from here on decides what else its master can hold."""


class SlotCountMoves(NamedTuple):
    """What a tool that balances by number of slots makes of owners: how many *slots* it would move; what masters own: *fewest*, *most*."""

    slots: int
    fewest: int
    most: int


def moves_by_slot_count(owners: Sequence[str], masters: Sequence[str]) -> SlotCountMoves:
    """Return what ``redis-cli --cluster rebalance`` would move with equal weights (``clusterManagerCommandRebalance``).

    It leaves out masters without slots, and does nothing while all others are within `REDIS_CLI_THRESHOLD`.
    """
    counts = dict.fromkeys(masters, 0)
    for owner in owners:
        counts[owner] += 1
    held = [count for count in counts.values() if count]
    expected = len(owners) // len(held)
    worst = max(abs(1 - Fraction(expected, count)) for count in held)
    moved = sum(max(count - expected, 0) for count in held) if worst > REDIS_CLI_THRESHOLD else 0
    return SlotCountMoves(moved, min(held), max(held))


class Peak(NamedTuple):
    """What *target* holds of *resource* while *batch* runs and nothing has left it yet; *capacity* None where none was given."""

    batch: int
    target: str
    resource: str
    held: float
    arrives: float
    capacity: float | None

    @property
    def peak(self) -> float:
        """All that it has to hold at once."""
        return self.held + self.arrives


def batch_peaks(stored: StoredPlan) -> list[Peak]:
    """Return what every target holds while a batch runs, batch by batch, by resource."""
    problem = stored.problem
    held = {
        name: _sums(problem.owners, loads, [master.id for master in problem.masters])
        for name, loads in problem.loads.items()
    }
    limits = {master.id: master.capacity for master in problem.masters}
    peaks: list[Peak] = []
    for batch in stored.batches:
        for r, (name, sums) in enumerate(held.items()):
            for target, arrives in _arriving(batch, r).items():
                given = limits[target].get(name)
                capacity = None if given is None else float(exact(given, name))
                peaks.append(Peak(batch.number, target, name, sums[target], arrives, capacity))
            for job in batch.jobs:
                sums[job.source] -= job.loads[r]
                sums[job.target] += job.loads[r]
    return peaks


def _sums(owners: Sequence[str], loads: Sequence[int | float | Fraction], masters: Sequence[str]) -> dict[str, float]:
    sums = dict.fromkeys(masters, 0.0)
    for owner, load in zip(owners, loads, strict=True):
        sums[owner] += float(load)
    return sums


def _arriving(batch: Batch, r: int) -> dict[str, float]:
    arrives: dict[str, float] = {}
    for job in batch.jobs:
        arrives[job.target] = arrives.get(job.target, 0.0) + job.loads[r]
    return arrives


class Lopsided(NamedTuple):
    """A slot that takes *share* of a fair share of *resource*, and only *beside* of one of *other*: what stands beside it on its master must be
    the other way round, slot by slot."""

    slot: int
    resource: str
    share: float
    other: str
    beside: float


def lopsided_slots(stored: StoredPlan) -> list[Lopsided]:
    """Return the slots with at least `LOPSIDED_SHARE` of a fair share in one resource and less than half of that in another, worst first."""
    scaled = validate(stored.problem)
    fair = find_targets(scaled).fair
    stay = [n for n, master in enumerate(scaled.masters) if not master.drained and not master.excluded]
    means = [sum(fair[n][r] for n in stay) / len(stay) for r in range(len(scaled.resources))]
    found = []
    for slot in range(len(scaled.owner)):
        shares = [float(load[slot] / mean) if mean else 0.0 for load, mean in zip(scaled.loads, means, strict=True)]
        most, least = max(shares), min(shares)
        if most >= LOPSIDED_SHARE and least < most / 2:
            names = scaled.resources
            found.append(Lopsided(slot, names[shares.index(most)], most, names[shares.index(least)], least))
    return sorted(found, key=lambda one: (one.beside - one.share, one.slot))


class OtherCount(NamedTuple):
    """The cluster after the plan with one master more or fewer.

    *fair* is what a master would then hold in the mean, by resource; *least* the least of the cost that would have to move, None where
    that is not known; *leaves* the master that holds least and would go, None for one more; *short* are resources of which those left could not
    hold everything.
    """

    masters: int
    fair: Mapping[str, float]
    least: float | None
    leaves: str | None = None
    short: tuple[str, ...] = ()


def other_counts(stored: StoredPlan) -> list[OtherCount]:
    """Return what one master more, of mean weight, and one fewer would change; nobody leaves a cluster of two."""
    problem = replace(stored.problem, owners=stored.plan.owners_after)
    stay = [master for master in problem.masters if not master.drained and not master.excluded]
    weight = sum((exact(master.weight, master.id) for master in stay), Fraction(0))
    names = {master.id for master in problem.masters}
    joins = Master(next(name for name in map(str, range(len(names) + 1)) if name not in names), weight / len(stay))
    found = [_with_masters(replace(problem, masters=(*problem.masters, joins)), len(stay) + 1)]
    if len(stay) > 2:
        scaled = validate(problem)
        held = {m.id: row[scaled.cost] for m, row in zip(scaled.masters, scaled.totals(scaled.owner), strict=True)}
        least = min(stay, key=lambda master: (held[master.id], master.id))
        left = tuple(replace(m, drained=m.drained or m is least) for m in problem.masters)
        found.append(_with_masters(replace(problem, masters=left, pinned=()), len(stay) - 1, least.id))
    return found


def _with_masters(problem: Problem, count: int, leaves: str | None = None) -> OtherCount:
    short = tuple(name for name in problem.loads if _is_short(problem, name))
    free = {m.id for m in problem.masters if not m.excluded}
    fair = {
        name: sum(float(load) for owner, load in zip(problem.owners, loads, strict=True) if owner in free) / count
        for name, loads in problem.loads.items()
    }
    if short:
        return OtherCount(count, fair, None, leaves, short)
    scaled = validate(problem)
    targets, cost = find_targets(scaled), scaled.cost
    least = sum(
        max(row[cost] - (0 if master.drained else targets.caps[n][cost]), 0)
        for n, (master, row) in enumerate(zip(scaled.masters, scaled.totals(scaled.owner), strict=True))
        if not master.excluded
    )
    return OtherCount(count, fair, None if targets.heavy else float(Fraction(least) / scaled.units[cost]), leaves)


def _is_short(problem: Problem, name: str) -> bool:
    """Whether every master that takes slots has a capacity of a resource, and all together too little."""
    takers = [master for master in problem.masters if not master.drained and not master.excluded]
    excluded = {master.id for master in problem.masters if master.excluded}
    room = [exact(m.capacity[name], name) for m in takers if name in m.capacity]
    data = (
        exact(load, name)
        for owner, load in zip(problem.owners, problem.loads[name], strict=True)
        if owner not in excluded
    )
    return len(room) == len(takers) and sum(room, Fraction(0)) < sum(data, Fraction(0))
