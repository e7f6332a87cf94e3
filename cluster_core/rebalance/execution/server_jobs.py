"""Move slots by server-side migrations: CLUSTER MIGRATESLOTS (Valkey 9) and CLUSTER MIGRATION IMPORT (Redis 8.4).

A migration is done when its target claims the slots and its source does not; job lists are short and lost in restarts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cluster_core.rebalance.execution.cluster_now import ClusterSight, JobSight, MigrationPath
from cluster_core.rebalance.execution.effects import (
    Answered,
    Clock,
    Refused,
    Send,
    Step,
    StepKind,
    Steps,
    Wait,
    intents_of,
)
from cluster_core.rebalance.execution.run_state import LOOK_PAUSE_S, LOOK_PAUSE_S_MAX, Run, StuckError, cut
from cluster_core.rebalance.execution.situation import commands_of, ends_of, is_ours
from cluster_core.rebalance.plan import Batch, Job
from cluster_core.slots.slot_set import SlotSet

CANCEL = {
    MigrationPath.VALKEY_JOBS: ("CLUSTER", "CANCELSLOTMIGRATIONS"),
    MigrationPath.REDIS_IMPORT: ("CLUSTER", "MIGRATION", "CANCEL", "ALL"),
}
"""Commands that cancel all migrations of the node that runs them."""
RETRIES_MAX = 3
"""Maximum retries of a Redis 8.4 import before it is cancelled."""
LOST = "Connection lost"
"""Start of the message of a node that lost the other end, which knows the reason."""
GONE_S = 5.0
"""Time after which a job missing from all lists, with unmoved slots, counts as lost in a restart."""


def run_batch(run: Run, batch: Batch) -> Steps[bool]:
    """Move the slots of *batch*; return False if the user stopped it; StuckError after `Settings.attempts`."""
    later: Sequence[Job] = batch.jobs
    while later:
        piece, later = cut(later, run.pace.piece_bytes, run.sizes)
        begun_s = yield Clock()
        if not (yield from _run_piece(run, Batch(batch.number, tuple(piece)))):
            return False
        yield from run.breathe([slot for job in piece for slot in job.slots], begun_s)
    return True


def _run_piece(run: Run, batch: Batch) -> Steps[bool]:
    failure = ""
    for attempt in range(1, run.settings.attempts + 1):
        if run.stop:
            return False
        left, failure = yield from _run_once(run, batch)
        if not left or run.stop:
            return not left
        batch = Batch(batch.number, tuple(left))
        yield from run.rest(attempt)
        yield from run.look_when_ok()
    raise StuckError(failure)


def _run_once(run: Run, batch: Batch) -> Steps[tuple[list[Job], str]]:
    """Start all jobs of *batch* and wait; return the failed ones and the first reason."""
    yield from run.note(*intents_of(*batch))
    sight = yield from run.look()
    known = {seen.name for node in sight.nodes.values() for seen in node.jobs}
    begun_s = yield Clock()
    commands = commands_of(batch, run.start.path)
    replies = yield from run.ask(commands)
    answers = {command.node: reply for command, reply in zip(commands, replies, strict=True)}
    refused = {job: reply.text for job in batch.jobs if isinstance(reply := answers[_asked(run, job)], Refused)}
    ends = yield from _wait(run, batch, known, refused)
    seconds = (yield Clock()) - begun_s
    rows, failed = [], []
    for job in batch.jobs:
        reason, reply = ends[job], answers[_asked(run, job)]
        is_task = run.start.path is MigrationPath.REDIS_IMPORT
        detail = reason or (f"task {_text(reply.value)}" if is_task and isinstance(reply, Answered) else "")
        outcome, slots = StepKind.FAILED if reason else StepKind.DONE, str(SlotSet(job.slots))
        rows.append(Step(outcome, batch.number, job.source, job.target, slots, detail, None, seconds))
        if reason:
            failed.append(job)
        else:
            run.moved += len(job.slots)
    yield from run.note(*rows)
    yield from run.tell(f"batch {batch.number}: {len(batch.jobs) - len(failed)} of {len(batch.jobs)} jobs done")
    first = next((f"{run.name(job.source)} to {run.name(job.target)}: {ends[job]}" for job in failed), "")
    return failed, first


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _asked(run: Run, job: Job) -> str:
    return job.source if run.start.path is MigrationPath.VALKEY_JOBS else job.target


def _wait(run: Run, batch: Batch, known: set[str], ends: dict[Job, str]) -> Steps[dict[Job, str]]:
    """Wait until every job has ended; return *ends* with each failure's reason, empty for success.

    Job lists without the *known* entries show whether a command without reply started its job. Overdue jobs are cancelled.
    """
    begun_s = yield Clock()
    pause_s = LOOK_PAUSE_S
    gone_s: dict[Job, float] = {}
    cancelled_s: dict[str, float] = {}
    nodes = tuple(ends_of([batch]))
    while len(ends) < len(batch.jobs):
        sight = yield from run.look(nodes)
        now_s = yield Clock()
        states: dict[str, None] = {}
        for job in batch.jobs:
            if job in ends:
                continue
            entries = list(_find_jobs(run, job, sight, known))
            seen = entries[0] if entries else None
            if seen is not None:
                gone_s.pop(job, None)
            if has_moved(job, sight):
                ends[job] = ""
            elif seen is None and now_s - gone_s.setdefault(job, now_s) > GONE_S:
                ends[job] = f"no server lists the migration (a restart?), slots are still at {run.name(job.source)}"
            elif seen is not None and seen.has_failed:
                messages = [entry.message for entry in entries if entry.message and not entry.message.startswith(LOST)]
                ends[job] = messages[0] if messages else seen.message or seen.state
            else:
                states[seen.state if seen is not None else "begun"] = None
                hopeless = seen is not None and seen.state == "failed" and (seen.retries or 0) >= RETRIES_MAX
                yield from _cancel(
                    run, job, cancelled_s, now_s, hopeless or now_s - begun_s > run.settings.job_timeout_s
                )
        if states:
            count = f"{len(batch.jobs) - len(ends)} of {len(batch.jobs)} jobs"
            progress = f"{count} run for {now_s - begun_s:.0f} s ({', '.join(states)})"
            yield from run.tell(f"batch {batch.number}: {progress}")
            yield Wait(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_PAUSE_S_MAX)
    return ends


def _cancel(run: Run, job: Job, cancelled_s: dict[str, float], now_s: float, is_due: bool) -> Steps[None]:
    """Cancel the migrations of the job's node once; StuckError if they continue."""
    node = _asked(run, job)
    if is_due and node not in cancelled_s:
        cancelled_s[node] = now_s
        yield from run.ask([Send(node, CANCEL[run.start.path])])
    if now_s - cancelled_s.get(node, now_s) > run.settings.patience_s:
        raise StuckError(f"{run.name(node)} continues a migration after a cancel")


def has_moved(job: Job, sight: ClusterSight) -> bool:
    """Return whether the target claims all slots of *job* and the source none."""
    slots = SlotSet(job.slots)
    return slots.issubset(sight.nodes[job.target].own) and slots.isdisjoint(sight.nodes[job.source].own)


def _find_jobs(run: Run, job: Job, sight: ClusterSight, known: set[str]) -> Iterator[JobSight]:
    """Yield the newest entry for *job* of each end that is not *known*, the running node first."""
    slots = SlotSet(job.slots)
    for node in sorted((job.source, job.target), key=lambda end: end != _asked(run, job)):
        for seen in sight.nodes[node].jobs:
            ends = (seen.source, seen.target)
            if seen.name not in known and ends == (job.source, job.target) and seen.slots == slots:
                yield seen
                break


def _our_jobs(run: Run, sight: ClusterSight) -> list[JobSight]:
    return [job for job in sight.active_jobs() if is_ours(job, run.journal)]


def wait_for_earlier(run: Run, sight: ClusterSight) -> Steps[bool]:
    """Wait for an earlier run's migrations; return whether there were any; StuckError after a job's time limit."""
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
