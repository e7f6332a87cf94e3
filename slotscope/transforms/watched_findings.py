"""What a plan does to loads that are known and that it did not balance, and what it leaves in one zone, as warnings."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.kinds import Severity
from cluster_core.rebalance.goal.problem import Problem
from cluster_core.rebalance.goal.watched import Watched
from cluster_core.rebalance.plan import Plan, WorstLoad
from schemas.caveats import Caveat, Code
from slotscope.reports.rebalance.words import factor, resource_words, share_text

_STAND_IN = ("serialized_bytes", "memory_bytes")
"""The first stands for the second where that is not known; where that is balanced, it is only told."""


def find_not_balanced(watched: Watched | None, balanced: Sequence[str]) -> list[Caveat]:
    """Name each load that was not balanced and ends worse than it was, or above what a balanced one may hold; the worst first."""
    if watched is None:
        return []
    bad = [reach for reach in watched.reach if reach.after > reach.before or reach.after > reach.limit]
    return [_warning(reach, balanced) for reach in sorted(bad, key=lambda reach: -reach.after / reach.limit)]


def _warning(reach: WorstLoad, balanced: Sequence[str]) -> Caveat:
    stand_in, master = _STAND_IN
    is_told = reach.resource == stand_in and master in balanced and reach.after <= reach.before
    change = "worse than before" if reach.after > reach.before else "above its tolerance"
    words = (
        f"{resource_words(reach.resource)} is known and was not balanced; it ends {change}: the heaviest master holds "
        f"{factor(float(reach.after))} its fair share ({factor(float(reach.before))} before, {factor(float(reach.limit))} would be "
        f"allowed); --resources {','.join([*balanced, reach.resource])} balances it, too"
    )
    return Caveat(Severity.NOTE if is_told else Severity.WARNING, Code.NOT_BALANCED, words, reach.resource)


def find_zone_majority(problem: Problem, plan: Plan) -> list[Caveat]:
    """Name the zone without which the masters that hold slots after the plan are no majority: then nobody elects a replica (server: clusterHandleReplicaFailover)."""
    zones = {master.id: master.zone for master in problem.masters}
    voters = [zones[node] for node in dict.fromkeys(plan.owners_after)]
    if len(set(voters)) < 2 or not all(voters):
        return []
    found = []
    for zone in dict.fromkeys(voters):
        inside = voters.count(zone)
        if len(voters) - inside >= len(voters) // 2 + 1:
            continue
        loads = problem.loads[plan.cost]
        held = sum(load for load, node in zip(loads, plan.owners_after, strict=True) if zones[node] == zone)
        part = share_text(float(held) / (float(sum(loads)) or 1.0))
        words = (
            f"zone {zone} has {inside} of the {len(voters)} masters that hold slots afterwards, and {part} of {resource_words(plan.cost)}: "
            "without it the other masters are no majority, and no replica is elected in place of those that are lost"
        )
        found.append(Caveat(Severity.NOTE, Code.ZONE_MAJORITY, words, zone))
    return found
