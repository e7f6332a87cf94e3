"""Execute a plan: order of reads, commands and journal rows, without IO.

`Execution.run` is a generator of effects (`effects`) that returns an `Outcome`. It writes an intent before the first
command that could open or move a slot, so cluster and journal suffice to resume after a kill. A run first finishes
interrupted moves, then moves the slots that sources still own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from cluster_core.rebalance.execution import server_jobs
from cluster_core.rebalance.execution import setslot as by_hand
from cluster_core.rebalance.execution.cluster_now import ClusterSight, MigrationPath
from cluster_core.rebalance.execution.effects import Clock, Journal, Step, StepKind, Steps, Wait
from cluster_core.rebalance.execution.run_state import CALM_S, FailoverError, Run, StuckError
from cluster_core.rebalance.execution.situation import (
    CurrentState,
    failover_notes,
    forecast_run,
    refusals,
    see,
    with_names,
)
from cluster_core.rebalance.plan import Batch
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet

FAILOVERS_MAX = 8
"""Failovers after which a run aborts."""
NOTHING_TO_TAKE_BACK = "nothing to roll back: every slot of the plan is where it was before"


class Verdict(Enum):
    """How a run ended."""

    IN_PLACE = "already in place"
    FINISHED = "finished"
    ROLLED_BACK = "rolled back"
    PAUSED = "paused"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run, with one sentence, or several if refused."""

    verdict: Verdict
    sentences: tuple[str, ...]


class Execution(Run):
    """One run; a failover ends it without open slots, and the next run continues with the promoted replica."""

    __slots__ = ()

    def run(self) -> Steps[Outcome]:
        """Yield effects, return the outcome."""
        was_replaced = ""
        for _ in range(FAILOVERS_MAX):
            now = yield from see(self.stored, self.journal)
            try:
                return (yield from self._run(now, was_replaced))
            except FailoverError:
                self.journal = self.journal.renamed(self.plan_ids)
                again = yield from see(self.stored, self.journal)
                was_replaced = "; ".join(failover_notes(self.stored, again)) or was_replaced
        return Outcome(
            Verdict.PAUSED, (f"paused: {was_replaced}, the last of {FAILOVERS_MAX} failovers; {self._next()}",)
        )

    def _run(self, now: CurrentState, was_replaced: str) -> Steps[Outcome]:
        """Run once with the masters of *now*; after a failover in this run (*was_replaced*) only close open slots."""
        start = self.start = forecast_run(now.stored, now.sight, now.journal, self.path, self.settings)
        self.journal, sight = now.journal, start.sight
        self.plan_ids = {new: old for old, new in now.replaced.items()}
        notes = (*failover_notes(self.stored, now), *start.notes)
        if start.in_place:
            if not self.journal.has_ended:  # killed between the last move and its row
                yield from self.note_arrivals(sight)
                yield from self.note(Step(self._end()))
            in_place = NOTHING_TO_TAKE_BACK if self.settings.rollback else "already in place"
            return Outcome(Verdict.IN_PLACE, (in_place, *notes))
        left = bool(by_hand.unfinished(self, sight)) and not sight.lost
        if start.refusals and not was_replaced and not (left and not refusals(replace(start, batches=()))):
            yield from self.note(Step(StepKind.REFUSED, detail=start.refusals[0]))
            return Outcome(Verdict.REFUSED, start.refusals)
        if not was_replaced:
            direction = "back" if self.settings.rollback else "forward"
            yield from self.note(Step(StepKind.STARTED, detail=direction, path=start.path.value))
            if notes:
                yield from self.tell("; ".join(notes))
        try:
            if was_replaced:
                yield from self.tell(f"{was_replaced}: closing open slots")
                yield from self._finish_earlier((yield from self.look()))
                return (yield from self._paused(f": {was_replaced}"))
            return (yield from self._carry_out(sight))
        except StuckError as error:
            still_open = yield from by_hand.close_untouched(self)
            reason = "; ".join(filter(None, (was_replaced, with_names(now.stored, str(error), sight))))
            open_slots = f"slots {SlotSet(still_open)} are left open; " if still_open else ""
            return (yield from self._paused(f": {reason}", open_slots))

    def _carry_out(self, sight: ClusterSight) -> Steps[Outcome]:
        sight = yield from self._finish_earlier(sight)
        prospect = forecast_run(self.start.stored, sight, self.journal, self.start.path, self.settings)
        if prospect.refusals:  # open slots come first
            yield from self.note(Step(StepKind.REFUSED, detail=prospect.refusals[0]))
            return Outcome(Verdict.REFUSED, prospect.refusals)
        batches = prospect.batches
        self.expect(batches, (yield Clock()))
        if batches and self.pace.latency_ms_max is not None:
            yield Wait(CALM_S)
            yield from self.await_calm()
        run_batch = by_hand.run_batch if self.start.path is MigrationPath.LEGACY else server_jobs.run_batch
        count = len(self.stored.batches)
        for index, batch in enumerate(batches):
            if self.stop:
                return (yield from self._paused(f" before batch {batch.number} of {count}"))
            yield from self.tell(f"batch {batch.number} of {count}: {self._described(batch)}")
            yield from self.await_epochs(batch.jobs)
            complete = yield from run_batch(self, batch)
            if not complete:
                return (yield from self._paused(f" in batch {batch.number} of {count}"))
            yield from self.settle(batch.jobs)
            last = index == len(batches) - 1
            if not last and (self.stop or batch.number == self.settings.pause_after):
                return (yield from self._paused(f" after batch {batch.number} of {count}"))
        seconds = (yield Clock()) - self.begun_s
        yield from self.note(Step(self._end(), seconds=seconds))
        if self.settings.rollback:
            message = f"rolled back: every slot that the plan moved is where it was before ({seconds:.1f} s)"
            return Outcome(Verdict.ROLLED_BACK, (message, *self.start.notes))
        moved = len(self.stored.plan.moves)
        message = f"finished: all {moved:,} slots of the plan are in place on every master ({seconds:.1f} s)"
        return Outcome(Verdict.FINISHED, (message,))

    def _finish_earlier(self, sight: ClusterSight) -> Steps[ClusterSight]:
        """Finish an earlier run: wait for its migrations and close its open slots."""
        waited = yield from server_jobs.wait_for_earlier(self, sight)
        if waited:
            sight = yield from self.look()
        failure: str | None = None
        for attempt in range(self.settings.attempts):
            left = by_hand.unfinished(self, sight)
            if not left:
                break
            if attempt:
                yield from self.rest(attempt)
            yield from self.tell(f"finishing slots {SlotSet(left)}, which were left open")
            failure = yield from by_hand.repair(self, sight)
            sight = yield from self.look_when_ok()
        if left := by_hand.unfinished(self, sight):
            raise StuckError(failure or f"slots {SlotSet(left)} do not close")
        yield from self.note_arrivals(sight)
        return sight

    def _paused(self, where: str, open_slots: str = "") -> Steps[Outcome]:
        yield from self.note(Step(StepKind.PAUSED, detail=where.lstrip(": ")))
        moved = moved_so_far(self.start.stored, self.journal)
        place = "still where the plan moved them" if self.settings.rollback else "in place"
        progress = f"{moved:,} of {len(self.stored.plan.moves):,} slots are {place}; {open_slots}{self._next()}"
        return Outcome(Verdict.PAUSED, (f"paused{where}; {progress}",))

    def _next(self) -> str:
        if self.settings.rollback:
            return "run --rollback again to resume, without it to carry the plan out"
        return "run again to resume, --rollback to undo"

    def _end(self) -> StepKind:
        return StepKind.ROLLED_BACK if self.settings.rollback else StepKind.FINISHED

    def _described(self, batch: Batch) -> str:
        jobs = [
            f"{len(job.slots):,} {'slot' if len(job.slots) == 1 else 'slots'} {self.name(job.source)} → {self.name(job.target)}"
            for job in batch.jobs[:3]
        ]
        return ", ".join(jobs) + (f" and {len(batch.jobs) - 3} more jobs" if len(batch.jobs) > 3 else "")


def moved_so_far(stored: StoredPlan, journal: Journal) -> int:
    """Return the number of slots at their targets, by the journal."""
    return sum(journal.left.get(slot) == target for slot, (_, target) in stored.ends.items())
