"""Slots in server-side migrations: CLUSTER MIGRATESLOTS (Valkey 9) and CLUSTER MIGRATION IMPORT (Redis 8.4).

A migration is done when its target claims the slots and its source does not.  Lists of jobs do not prove it: a restart clears them, and
they have a limited length (1000 and 32 by default).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cluster_core.rebalance.execution.cluster_now import FAILED as FAILED_STATES
from cluster_core.rebalance.execution.cluster_now import ClusterSight, JobSight
from cluster_core.rebalance.execution.effects import Answered, Clock, Refused, Send, Steps, Wait
from cluster_core.rebalance.execution.journal import Step, StepKind, intents_of
from cluster_core.rebalance.execution.refusals import is_ours
from cluster_core.rebalance.execution.remaining import Path, commands_of, ends_of, waves
from cluster_core.rebalance.execution.run_state import (
    LOOK_PAUSE_S,
    LOOK_PAUSE_S_MAX,
    Run,
    StuckError,
    cut,
    sizes_of,
)
from cluster_core.rebalance.ordering import Batch, Job
from cluster_core.slots.slot_set import SlotSet

CANCEL = {
    Path.VALKEY_JOBS: ("CLUSTER", "CANCELSLOTMIGRATIONS"),
    Path.REDIS_IMPORT: ("CLUSTER", "MIGRATION", "CANCEL", "ALL"),
}
"""Commands that cancel all migrations of the node that runs them."""
RETRIES_MAX = 3
"""An import of Redis 8.4 retries by itself; after this number of retries it is cancelled and counts as failed."""
LOST = "Connection lost"
"""The message of a node that lost the other end begins so; the other end knows the reason."""
GONE_S = 5.0
"""A job missing from all lists for this long, with unmoved slots, was lost in a restart."""


def run_batch(run: Run, batch: Batch) -> Steps[bool]:
    """Move the slots of *batch*; return False if the user stopped it.  StuckError after `Settings.attempts`."""
    later: Sequence[Job]
    for later in waves(batch.jobs, once=run.start.path is Path.REDIS_IMPORT):
        while later:
            piece, later = cut(later, run.pace.piece_bytes, sizes_of(run.start.stored))
            begun_s = yield Clock()
            if not (yield from _run_piece(run, Batch(batch.number, tuple(piece)))):
                return False
            yield from run.breathe([slot for job in piece for slot in job.slots], begun_s)
    return True


def _run_piece(run: Run, batch: Batch) -> Steps[bool]:
    """Move the slots of *batch* at once; False if the user stopped it, StuckError after `Settings.attempts`."""
    left: Sequence[Job] = batch.jobs
    failure = ""
    for attempt in range(1, run.settings.attempts + 1):
        if run.stop:
            return False
        left, failure = yield from _run_once(run, Batch(batch.number, tuple(left)))
        if not left:
            break
        if run.stop:
            return False
        yield from run.rest(attempt)
        yield from run.look_when_ok()
    if left:
        raise StuckError(failure)
    return True


def _run_once(run: Run, batch: Batch) -> Steps[tuple[list[Job], str]]:
    """Begin all jobs of *batch* and wait for their ends; return those that failed, and the first reason."""
    yield from run.note(*intents_of([(batch.number, job.source, job.target, job.slots) for job in batch.jobs]))
    sight = yield from run.look()
    known = {seen.name for node in sight.nodes.values() for seen in node.jobs}
    begun_s = yield Clock()
    commands = commands_of(batch, run.start.path)
    replies = yield from run.ask(commands)
    refused = {
        command.node: reply.text for command, reply in zip(commands, replies, strict=True) if isinstance(reply, Refused)
    }
    tasks = {
        command.node: str(_text(reply.value))
        for command, reply in zip(commands, replies, strict=True)
        if isinstance(reply, Answered)
    }
    watch = _Watch(
        batch, known, begun_s, {job: refused[_asked(run, job)] for job in batch.jobs if _asked(run, job) in refused}
    )
    yield from _wait(run, watch)
    now_s = yield Clock()
    rows, failed = [], []
    for job in batch.jobs:
        why = watch.failed.get(job)
        outcome = StepKind.DONE if why is None else StepKind.FAILED
        detail = why or (
            f"task {tasks[job.target]}" if run.start.path is Path.REDIS_IMPORT and job.target in tasks else ""
        )
        slots = str(SlotSet(job.slots))
        rows.append(Step(outcome, batch.number, job.source, job.target, slots, detail, None, now_s - begun_s))
        if why is None:
            run.moved += len(job.slots)
        else:
            failed.append(job)
    yield from run.note(*rows)
    yield from run.tell(f"batch {batch.number}: {len(batch.jobs) - len(failed)} of {len(batch.jobs)} jobs done")
    first = next((f"{run.name(job.source)} to {run.name(job.target)}: {watch.failed[job]}" for job in failed), "")
    return failed, first


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _asked(run: Run, job: Job) -> str:
    """Return the node that runs *job*."""
    return job.source if run.start.path is Path.VALKEY_JOBS else job.target


@dataclass(slots=True)
class _Watch:
    """The jobs of a batch: done, failed with the reason, missing from all lists since."""

    batch: Batch
    known: set[str]
    begun_s: float
    failed: dict[Job, str] = field(default_factory=dict)
    done: dict[Job, None] = field(default_factory=dict)
    gone_s: dict[Job, float] = field(default_factory=dict)
    cancelled_s: dict[str, float] = field(default_factory=dict)

    @property
    def open(self) -> list[Job]:
        """Jobs without a known end."""
        return [job for job in self.batch.jobs if job not in self.done and job not in self.failed]


def _wait(run: Run, watch: _Watch) -> Steps[None]:
    """Wait until every job has ended; cancel those that reach the time limit.

    After a command without reply the servers' lists show whether its jobs started.
    """
    pause_s = LOOK_PAUSE_S
    ends = tuple(ends_of([watch.batch]))
    while watch.open:
        sight = yield from run.look(ends)
        now_s = yield Clock()
        late = now_s - watch.begun_s > run.settings.job_timeout_s
        for job in watch.open:
            _judge(run, watch, job, sight, now_s)
        for job in watch.open:
            seen = _find_job(run, job, sight, watch.known)
            hopeless = seen is not None and seen.state == "failed" and (seen.retries or 0) >= RETRIES_MAX
            if (late or hopeless) and _asked(run, job) not in watch.cancelled_s:
                watch.cancelled_s[_asked(run, job)] = now_s
                yield from run.ask([Send(_asked(run, job), CANCEL[run.start.path])])
        for job in watch.open:
            if now_s - watch.cancelled_s.get(_asked(run, job), now_s) > run.settings.patience_s:
                raise StuckError(f"{run.name(_asked(run, job))} continues a migration after a cancel")
        if watch.open:
            seen_jobs = [_find_job(run, job, sight, watch.known) for job in watch.open]
            states = ", ".join(dict.fromkeys(job.state for job in seen_jobs if job is not None)) or "begun"
            count = f"{len(watch.open)} of {len(watch.batch.jobs)} jobs"
            yield from run.tell(f"batch {watch.batch.number}: {count} run for {now_s - watch.begun_s:.0f} s ({states})")
            yield Wait(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_PAUSE_S_MAX)


def _judge(run: Run, watch: _Watch, job: Job, sight: ClusterSight, now_s: float) -> None:
    """Record *job* as done or failed if it has ended."""
    if has_moved(job, sight):
        watch.done[job] = None
        return
    seen = _find_job(run, job, sight, watch.known)
    if seen is not None and not seen.is_active and seen.state in FAILED_STATES:
        words = [one.message for one in _find_jobs(run, job, sight, watch.known) if one.message]
        watch.failed[job] = next((text for text in words if not text.startswith(LOST)), seen.message or seen.state)
    elif seen is None:
        since_s = watch.gone_s.setdefault(job, now_s)
        if now_s - since_s > GONE_S:
            watch.failed[job] = f"no server lists the migration (a restart?), slots are still at {run.name(job.source)}"
    else:
        watch.gone_s.pop(job, None)


def has_moved(job: Job, sight: ClusterSight) -> bool:
    """Return whether the target claims all slots of *job* and the source none."""
    slots = SlotSet(job.slots)
    return slots.issubset(sight.nodes[job.target].own) and slots.isdisjoint(sight.nodes[job.source].own)


def _find_job(run: Run, job: Job, sight: ClusterSight, known: set[str]) -> JobSight | None:
    return next(_find_jobs(run, job, sight, known), None)


def _find_jobs(run: Run, job: Job, sight: ClusterSight, known: set[str]) -> Iterator[JobSight]:
    """Yield the newest entry for *job* of each end that was not there before; the node that runs the job comes first."""
    slots = SlotSet(job.slots)
    for node in sorted((job.source, job.target), key=lambda end: end != _asked(run, job)):
        for seen in sight.nodes[node].jobs:
            ends = (seen.source, seen.target)
            if seen.name not in known and ends == (job.source, job.target) and seen.slots == slots:
                yield seen
                break


def _our_jobs(run: Run, sight: ClusterSight) -> list[JobSight]:
    return [job for job in sight.active_jobs() if is_ours(job.slots, job.source, job.target, run.journal)]


def wait_for_earlier(run: Run, sight: ClusterSight) -> Steps[bool]:
    """Wait for the migrations of an earlier run; return whether there were any.  StuckError after the time limit of a job."""
    if not _our_jobs(run, sight):
        return False
    begun_s = yield Clock()
    while active := _our_jobs(run, sight):
        now_s = yield Clock()
        if now_s - begun_s > run.settings.job_timeout_s:
            raise StuckError(f"{run.name(active[0].source)} is still moving slots {active[0].slots}")
        yield Wait(LOOK_PAUSE_S_MAX / 4)
        sight = yield from run.look()
    return True
