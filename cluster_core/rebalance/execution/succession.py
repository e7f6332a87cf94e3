"""Replace failed-over masters: a promoted replica has the same slots and another node id.

`see` returns plan and journal with current ids. Journal rows keep the plan's ids (`Run.note`), so a later run needs no
record of failovers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight
from cluster_core.rebalance.execution.effects import Look, Steps
from cluster_core.rebalance.execution.journal import Journal
from cluster_core.rebalance.stored_plan import StoredPlan


class Present(NamedTuple):
    """Plan, journal and cluster with current ids; *replaced*: each promoted replica by plan id."""

    stored: StoredPlan
    journal: Journal
    sight: ClusterSight
    replaced: Mapping[str, str]


def see(stored: StoredPlan, journal: Journal) -> Steps[Present]:
    """Read the state of the plan's masters and of their promoted replicas."""
    sight: ClusterSight = yield Look(tuple(node.id for node in stored.nodes))
    replaced = successors(stored, sight, journal)
    if replaced:
        promoted: ClusterSight = yield Look(tuple(replaced.values()))
        nodes = {name: node for name, node in sight.nodes.items() if name not in replaced} | dict(promoted.nodes)
        lost = {name: reason for name, reason in sight.lost.items() if name not in replaced} | dict(promoted.lost)
        sight = ClusterSight(nodes, lost)
        stored, journal = renamed_plan(stored, replaced, sight), journal.renamed(replaced)
    return Present(stored, journal, with_current_marks(sight, journal, replaced), replaced)


def at_present(stored: StoredPlan, sight: ClusterSight, journal: Journal) -> StoredPlan:
    """Return *stored* with promoted replicas, for a *sight* of all nodes."""
    away = {node.id: "no answer" for node in stored.nodes if node.id not in sight.nodes}
    return renamed_plan(stored, successors(stored, ClusterSight(sight.nodes, away), journal), sight)


def successors(stored: StoredPlan, sight: ClusterSight, journal: Journal) -> dict[str, str]:
    """Return each promoted replica by the plan id of its master.

    A master without slots that is unreachable or a replica was replaced by the node outside the plan that owns most of its
    slots; CLUSTER NODES does not name the replaced master.
    """
    planned = {node.id for node in stored.nodes}
    away = {name for name in planned if name in sight.lost or (name in sight.nodes and not sight.nodes[name].is_master)}
    owners = sight.owner_list() if away and sight.nodes else []
    away -= set(owners)
    settled: dict[str, Counter[str]] = {name: Counter() for name in sorted(away)}
    moving: dict[str, Counter[str]] = {name: Counter() for name in sorted(away)}
    for slot, owner in enumerate(owners if away else ()):
        pending = journal.pending.get(slot)
        for end in pending or (journal.left.get(slot, stored.problem.owners[slot]),):
            if end in away:
                (moving if pending else settled)[end][owner] += 1
    successor_of: dict[str, str] = {}
    for name, holders in sorted(settled.items(), key=lambda item: not item[1]):
        for owner, count in (holders or moving[name]).most_common():
            has_most = not holders or 2 * count > holders.total()
            if owner and owner not in planned and owner not in successor_of.values() and has_most:
                successor_of[name] = owner
                break
    return successor_of


def renamed_plan(stored: StoredPlan, replaced: Mapping[str, str], sight: ClusterSight) -> StoredPlan:
    """Return *stored* with ids and addresses of promoted replicas."""
    addresses = {name: address for node in sight.nodes.values() for name, address in node.addresses.items()}

    def now(name: str) -> str:
        return replaced.get(name, name)

    nodes = tuple(
        replace(node, id=replaced[node.id], address=addresses.get(replaced[node.id], ""))
        if node.id in replaced
        else node
        for node in stored.nodes
    )
    problem = replace(
        stored.problem,
        owners=[now(owner) for owner in stored.problem.owners],
        masters=[replace(master, id=now(master.id)) for master in stored.problem.masters],
    )
    plan = replace(
        stored.plan,
        moves=tuple(move._replace(source=now(move.source), target=now(move.target)) for move in stored.plan.moves),
        owners_after=tuple(now(owner) for owner in stored.plan.owners_after),
    )
    batches = tuple(
        batch._replace(jobs=tuple(job._replace(source=now(job.source), target=now(job.target)) for job in batch.jobs))
        for batch in stored.batches
    )
    return replace(stored, nodes=nodes, problem=problem, plan=plan, batches=batches)


def with_current_marks(sight: ClusterSight, journal: Journal, replaced: Mapping[str, str]) -> ClusterSight:
    """Return *sight* with current ids in the journal's open slots that name a replaced master."""

    def is_outdated(node: NodeSight, other: str) -> bool:
        return other in replaced or not any(
            other in view.epochs for name, view in sight.nodes.items() if name != node.id
        )

    def current(node: NodeSight, marks: Mapping[int, str], end: int) -> dict[int, str]:
        owners = dict(marks)
        for slot, other in marks.items():
            intent = journal.intents.get(slot, ("", ""))
            if intent[1 - end] == node.id and intent[end] != other and is_outdated(node, other):
                owners[slot] = intent[end]
        return owners

    nodes = {
        name: replace(node, migrating=current(node, node.migrating, 1), importing=current(node, node.importing, 0))
        if node.migrating or node.importing
        else node
        for name, node in sight.nodes.items()
    }
    return ClusterSight(nodes, sight.lost)


def failover_notes(before: StoredPlan, now: Present) -> list[str]:
    """Return one sentence for each replaced master of the plan *before*."""
    old = {node.id: f"{node.address} ({node.id[:8]})" for node in before.nodes}
    new = {node.id: f"{node.address} ({node.id[:8]})" for node in now.stored.nodes}
    return [f"{new[other]} was promoted in place of {old[name]}" for name, other in sorted(now.replaced.items())]
