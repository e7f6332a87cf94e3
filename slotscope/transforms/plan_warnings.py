"""Warnings about a plan: zones with too many copies, and resources that are not balanced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cluster_core.kinds import Severity
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.rebalance.outcome import Watched
from cluster_core.rebalance.plan import Plan, WorstLoad
from cluster_core.slots.node_flags import GONE
from cluster_core.topology.node import Topology
from schemas.caveats import Caveat, Code
from slotscope.reports.rebalance.words import factor, resource_words, share_text
from slotscope.runtime.text import plural

NAMED_MAX = 4
_STAND_IN = ("serialized_bytes", "memory_bytes")
"""The first stands for the second; where the second is balanced, the first is only a note."""


def replica_zones(topology: Topology) -> dict[str, list[str]]:
    """Return the zones (availability-zone) of the replicas of each master, by its id; empty where one is not known."""
    zones: dict[str, list[str]] = {node.id: [] for node in topology.masters()}
    for node in topology.nodes:
        if node.master_id in zones and not node.flags & GONE:
            zones[node.master_id].append(node.aux.get("availability-zone", ""))
    return zones


def find_zones(
    problem: Problem,
    plan: Plan,
    addresses: Mapping[str, str],
    replicas: Mapping[str, Sequence[str]],
) -> list[Caveat]:
    """Name zones with too much in them: all copies of some slots, or a majority of the masters.

    *addresses* and zones of *replicas* go by the id of the master.  There is no warning where the zone of a master with slots is unknown,
    or all are in one.
    """
    zones = {master.id: master.zone for master in problem.masters}
    found: list[Caveat] = []
    owners = list(dict.fromkeys(plan.owners_after))
    if len({zones[node] for node in owners}) < 2 or not all(zones[node] for node in owners):
        return found
    for zone in dict.fromkeys(zones[node] for node in owners):
        inside = [node for node in owners if zones[node] == zone]
        found += _last_copies(
            problem, plan, zone, [node for node in inside if set(replicas.get(node, ())) <= {zone}], addresses
        )
        found += _majority(problem, plan, zone, inside, len(owners))
    return found


def _last_copies(
    problem: Problem, plan: Plan, zone: str, alone: Sequence[str], addresses: Mapping[str, str]
) -> Iterator[Caveat]:
    """Masters without a replica in another zone; a warning where slots move to one."""
    if not alone:
        return
    get = {move.target for move in plan.moves}
    gets = [node for node in alone if node in get]
    without = set(alone)
    slots = sum(owner in without for owner in plan.owners_after)
    words = (
        f"without zone {zone} {plural(slots, 'slot')} have no copy, {_part(problem, plan, alone)}: {_named(alone, addresses)} "
        f"{'has' if len(alone) == 1 else 'have'} no replica in another zone"
    )
    if gets:
        words += f"; slots move to {_named(gets, addresses)}: give {'it' if len(gets) == 1 else 'them'} one first, or exclude = true in --placement"
        yield Caveat.warning(Code.ZONE_COPIES, words, zone)
    else:
        yield Caveat.note(Code.ZONE_COPIES, words, zone)


def _majority(problem: Problem, plan: Plan, zone: str, inside: Sequence[str], masters: int) -> Iterator[Caveat]:
    """Without a majority nobody elects a replica (server: clusterHandleReplicaFailover)."""
    if masters - len(inside) >= masters // 2 + 1:
        return
    words = (
        f"zone {zone} has {len(inside)} of the {masters} masters that hold slots afterwards, and {_part(problem, plan, inside)}: "
        "without it the other masters are no majority, and no replica is elected in place of those that are lost"
    )
    yield Caveat.note(Code.ZONE_MAJORITY, words, zone)


def _part(problem: Problem, plan: Plan, nodes: Sequence[str]) -> str:
    """What they hold afterwards of all."""
    loads, chosen = problem.loads[plan.cost], set(nodes)
    held = sum(float(load) for load, node in zip(loads, plan.owners_after, strict=True) if node in chosen)
    return f"{share_text(held / (float(sum(loads)) or 1.0))} of {resource_words(plan.cost)}"


def _named(nodes: Sequence[str], addresses: Mapping[str, str]) -> str:
    names = [addresses.get(node) or node for node in nodes]
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def find_not_balanced(watched: Watched | None, balanced: Sequence[str]) -> list[Caveat]:
    """Return a caveat for each unbalanced resource that gets worse or exceeds its tolerance, worst first."""
    if watched is None:
        return []
    bad = [reach for reach in watched.reach if reach.after > reach.before or reach.after > reach.limit]
    return [_warning(reach, balanced) for reach in sorted(bad, key=lambda reach: -reach.after / reach.limit)]


def _warning(reach: WorstLoad, balanced: Sequence[str]) -> Caveat:
    stand_in, master = _STAND_IN
    is_told = reach.resource == stand_in and master in balanced and reach.after <= reach.before
    change = "worse than before" if reach.after > reach.before else "above its tolerance"
    words = (
        f"{resource_words(reach.resource)} was not balanced and ends {change}: {factor(float(reach.before))} → {factor(float(reach.after))} "
        f"a fair share (limit {factor(float(reach.limit))}); add it with --resources {','.join([*balanced, reach.resource])}"
    )
    return Caveat(Severity.NOTE if is_told else Severity.WARNING, Code.NOT_BALANCED, words, reach.resource)
