"""What of a plan is still to be done, forwards or backwards, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.rebalance.execution.commands import Path
from cluster_core.rebalance.execution.journal import Journal
from cluster_core.rebalance.ordering import Batch, Job, TimeModel
from cluster_core.rebalance.stored_plan import StoredPlan

BY_HAND_TIMES = TimeModel(job_s=0.0, slot_s=0.003, bytes_per_s=40e6)
"""Key by key; measured on loopback with 3 to 6 masters, replaced by what the first batches take."""
WAVE_S = 0.1
"""Journal, and looking at all masters until they agree, for jobs that run at the same time."""


def remaining(stored: StoredPlan, owners: Sequence[str], *, back: Journal | None = None) -> list[Batch]:
    """Return the batches that are left when *owners* (node id by slot) hold, in the order in which they are to run.

    With the journal to go *back* by, batches run in the opposite order with source and target exchanged, over what the plan has moved and
    the targets still own.
    """
    batches: list[Batch] = []
    for batch in stored.batches if back is None else reversed(stored.batches):
        jobs = []
        for job in batch.jobs:
            source, target = (job.source, job.target) if back is None else (job.target, job.source)
            slots = tuple(s for s in job.slots if owners[s] == source and (back is None or back.holds(s, source)))
            if slots:
                jobs.append(Job(source, target, slots, loads_of(stored, slots)))
        if jobs:
            batches.append(Batch(batch.number, tuple(jobs)))
    return batches


def loads_of(stored: StoredPlan, slots: Sequence[int]) -> tuple[float, ...]:
    """Return the sums of the plan's loads over *slots*, by resource in the plan's order."""
    return tuple(float(sum(load[slot] for slot in slots)) for load in stored.problem.loads.values())


def cost_at(stored: StoredPlan) -> int:
    """Return the place of the resource whose movement takes time among the loads."""
    return list(stored.problem.loads).index(stored.problem.cost)


def seconds_of(
    stored: StoredPlan, batches: Sequence[Batch], path: Path, bytes_per_s_max: float | None = None
) -> list[float]:
    """Return the estimated seconds of each batch: those of its `waves`, one after another, not faster than allowed."""
    model = BY_HAND_TIMES if path is Path.LEGACY else stored.time_model
    at, once = cost_at(stored), path is Path.REDIS_IMPORT
    found = [
        sum(WAVE_S + model.batch_seconds(Batch(batch.number, tuple(jobs)), at) for jobs in waves(batch.jobs, once=once))
        for batch in batches
    ]
    if bytes_per_s_max is None:
        return found
    return [
        max(seconds, sum(job.loads[at] for job in batch.jobs) / bytes_per_s_max)
        for seconds, batch in zip(found, batches, strict=True)
    ]


def waves(jobs: Sequence[Job], *, once: bool = False) -> list[list[Job]]:
    """Return *jobs* in groups that may run at the same time: no master both gives and takes, or with *once* takes part twice.

    A master that takes a slot raises its config epoch.  Were it the source of another slot whose target has just taken it, and not told
    yet, its old claim would win over the target's, which would delete the keys.  A Redis 8.4 server has one migration at a time (*once*).
    """
    groups: list[tuple[list[Job], set[str], set[str]]] = []
    for job in jobs:
        for entry in groups:
            clash = job.source in entry[2] or job.target in entry[1]
            if not clash and not (once and (job.source in entry[1] or job.target in entry[2])):
                break
        else:
            entry = ([], set(), set())
            groups.append(entry)
        group, givers, takers = entry
        group.append(job)
        givers.add(job.source)
        takers.add(job.target)
    return [group for group, _, _ in groups]


def ends_of(batches: Sequence[Batch]) -> dict[str, None]:
    """Return the masters that take part, in order of appearance."""
    return dict.fromkeys(node for batch in batches for job in batch.jobs for node in (job.source, job.target))


def moves_by_slot(stored: StoredPlan) -> Mapping[int, tuple[str, str]]:
    """Return source and target of every slot that the plan moves."""
    return {move.slot: (move.source, move.target) for move in stored.plan.moves}
