"""The remaining part of a plan, for the cluster as it is: node ids after failovers, batches, commands and durations.

A promoted replica has its master's slots and another node id. `see` returns plan and journal with current ids. Journal
rows keep the plan's ids (`Run.note`), so a later run needs no record of failovers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight, Path
from cluster_core.rebalance.execution.effects import Journal, Look, Send, Steps
from cluster_core.rebalance.ordering import Batch, Job
from cluster_core.rebalance.stored_plan import StoredPlan

JOB_S, JOB_BYTES_PER_S = 0.11, 90e6
"""Start and speed of a server-side job, measured on loopback."""
SLOT_S, SLOT_BYTES_PER_S = 0.003, 40e6
"""Time of a slot key by key and its speed, measured on loopback with 3 to 6 masters."""
START_S = 0.1
"""Journal rows and state reads per batch."""


def remaining(stored: StoredPlan, owners: Sequence[str], *, back: Journal | None = None) -> list[Batch]:
    """Return the remaining batches for *owners* (node id by slot), in order.

    *back* is the journal of a rollback: batches and moves are reversed, for slots that the targets still own.
    """
    batches: list[Batch] = []
    for batch in stored.batches if back is None else reversed(stored.batches):
        jobs = []
        for job in batch.jobs:
            source, target = (job.source, job.target) if back is None else (job.target, job.source)
            slots = tuple(s for s in job.slots if owners[s] == source and (back is None or back.holds(s, source)))
            if slots:
                loads = (float(sum(load[slot] for slot in slots)) for load in stored.problem.loads.values())
                jobs.append(Job(source, target, slots, tuple(loads)))
        if jobs:
            batches.append(Batch(batch.number, tuple(jobs)))
    return batches


def waves(jobs: Sequence[Job]) -> list[list[Job]]:
    """Split *jobs* into groups that may run together: no master both gives and takes.

    A taker's new config epoch would revive its claim on a slot that it just gave away, and the new owner would delete the
    keys.
    """
    groups: list[list[Job]] = []
    for job in jobs:
        for group in groups:
            if not any(job.source == other.target or job.target == other.source for other in group):
                group.append(job)
                break
        else:
            groups.append([job])
    return groups


def ends_of(batches: Sequence[Batch]) -> dict[str, None]:
    """Return the masters that take part, in order of appearance."""
    return dict.fromkeys(node for batch in batches for job in batch.jobs for node in (job.source, job.target))


def seconds_of(
    stored: StoredPlan, batches: Sequence[Batch], path: Path, bytes_per_s_max: float | None = None
) -> list[float]:
    """Return the estimated seconds of each batch, not faster than allowed."""
    start_s, slot_s, bytes_per_s = (
        (0.0, SLOT_S, SLOT_BYTES_PER_S) if path is Path.LEGACY else (JOB_S, 0.0, JOB_BYTES_PER_S)
    )
    at = list(stored.problem.loads).index(stored.problem.cost)
    durations = []
    for batch in batches:
        least = sum(job.loads[at] for job in batch.jobs) / bytes_per_s_max if bytes_per_s_max else 0.0
        longest = max(start_s + len(job.slots) * slot_s + job.loads[at] / bytes_per_s for job in batch.jobs)
        durations.append(max(START_S + longest, least))
    return durations


def commands_of(batch: Batch, path: Path) -> list[Send]:
    """Return the commands of *batch* in order; key by key, all masters get the last command of each slot.

    The target learns first that it owns the slot, so that the slot is never without owner (redis 7116).
    """
    if path is Path.REDIS_IMPORT:
        return [Send(job.target, ("CLUSTER", "MIGRATION", "IMPORT", *_bounds(job))) for job in batch.jobs]
    if path is Path.VALKEY_JOBS:  # one command per source, with one job per target
        arguments: dict[str, list[str]] = {}
        for job in batch.jobs:
            arguments.setdefault(job.source, ["CLUSTER", "MIGRATESLOTS"]).extend(
                ("SLOTSRANGE", *_bounds(job), "NODE", job.target)
            )
        return [Send(source, tuple(command)) for source, command in arguments.items()]
    commands = []
    for source, target, slots, _ in batch.jobs:
        for number in map(str, slots):
            commands += [
                Send(target, ("CLUSTER", "SETSLOT", number, "IMPORTING", source)),
                Send(source, ("CLUSTER", "SETSLOT", number, "MIGRATING", target)),
                Send(source, ("CLUSTER", "GETKEYSINSLOT", number, "100")),
                Send(source, ("MIGRATE", target, "KEYS")),
                Send(target, ("CLUSTER", "SETSLOT", number, "NODE", target)),
                Send(source, ("CLUSTER", "SETSLOT", number, "NODE", target)),
            ]
    return commands


def _bounds(job: Job) -> list[str]:
    return [str(bound) for pair in job.ranges for bound in pair]


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
        is_pending = slot in journal.pending
        for end in journal.intents[slot] if is_pending else (journal.left.get(slot, stored.problem.owners[slot]),):
            if end in away:
                (moving if is_pending else settled)[end][owner] += 1
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


def with_current_marks(sight: ClusterSight, journal: Journal, replaced: Iterable[str]) -> ClusterSight:
    """Return *sight* with current ids in the journal's open slots that name a *replaced* master."""

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
