"""The remaining part of a plan in either direction: batches, server commands and durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from cluster_core.rebalance.execution.effects import Send
from cluster_core.rebalance.execution.journal import Journal
from cluster_core.rebalance.ordering import Batch, Job
from cluster_core.rebalance.stored_plan import StoredPlan

JOB_S, JOB_BYTES_PER_S = 0.11, 90e6
"""Start and speed of a server-side job, measured on loopback."""
SLOT_S, SLOT_BYTES_PER_S = 0.003, 40e6
"""Time of a slot key by key and its speed, measured on loopback with 3 to 6 masters."""
START_S = 0.1
"""Journal rows and state reads per batch."""


class Path(Enum):
    """Path of slots: key by key (any version), source jobs (Valkey 9), target imports (Redis 8.4)."""

    LEGACY = "setslot"
    VALKEY_JOBS = "migrateslots"
    REDIS_IMPORT = "migration import"


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


def moves_by_slot(stored: StoredPlan) -> Mapping[int, tuple[str, str]]:
    """Return source and target of every moved slot."""
    return {move.slot: (move.source, move.target) for move in stored.plan.moves}


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
