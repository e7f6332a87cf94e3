"""The journal of an execution: a row before and after each step, so that the next run can resume."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from cluster_core.slots.slot_set import SlotSet


class StepKind(StrEnum):
    """Kinds of rows (`silver/plan_steps.step`)."""

    STARTED = "started"
    INTENT = "intent"
    """Written before the first command: from here these slots may be open or moved."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    REFUSED = "refused"
    FINISHED = "finished"
    ROLLED_BACK = "rolled-back"
    HELD = "held"
    """The execution extends its lease of the root on an object store; the detail names its process."""


class Step(NamedTuple):
    """One row; *slots* as in CLUSTER NODES, *batch* 0 for none."""

    step: StepKind
    batch: int = 0
    source: str = ""
    target: str = ""
    slots: str = ""
    detail: str = ""
    keys: int | None = None
    seconds: float | None = None
    path: str = ""
    """The `Path` of a run, in its `STARTED` row."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Rows of earlier runs: the last intent of each slot, and intents without an end."""

    intents: dict[int, tuple[str, str]]
    pending: dict[int, tuple[str, str]]
    left: dict[int, str] = field(default_factory=dict)
    """Where the plan left each slot that it moved: the target of the last `DONE` row."""
    has_ended: bool = True
    """Whether the last run ended with everything in place."""

    @property
    def ends(self) -> set[str]:
        """Return masters that gave or received slots."""
        return {node for ends in self.intents.values() for node in ends}

    def holds(self, slot: int, target: str) -> bool:
        """Return whether this plan moved *slot* to *target*, by a `DONE` row or a pending intent."""
        return target in (self.left.get(slot), *self.pending.get(slot, ()))

    def renamed(self, names: Mapping[str, str]) -> Journal:
        """Return this journal with nodes renamed by *names*."""

        def now(name: str) -> str:
            return names.get(name, name)

        return Journal(
            {slot: (now(source), now(target)) for slot, (source, target) in self.intents.items()},
            {slot: (now(source), now(target)) for slot, (source, target) in self.pending.items()},
            {slot: now(target) for slot, target in self.left.items()},
            self.has_ended,
        )


def read_journal(steps: Iterable[Step], before: Journal | None = None) -> Journal:
    """Return the journal of *steps*, oldest first, that follow *before*; DecodeError for bad slots."""
    intents = dict(before.intents) if before else {}
    pending = dict(before.pending) if before else {}
    left = dict(before.left) if before else {}
    has_ended = before.has_ended if before else True
    for step in steps:
        if step.step in (StepKind.STARTED, StepKind.FINISHED, StepKind.ROLLED_BACK):
            has_ended = step.step != StepKind.STARTED
        if step.step in (StepKind.INTENT, StepKind.DONE, StepKind.CANCELLED):
            for slot in SlotSet.parse(step.slots, source="plan_steps"):
                if step.step == StepKind.INTENT:
                    intents[slot] = pending[slot] = (step.source, step.target)
                    continue
                pending.pop(slot, None)
                if step.step == StepKind.DONE:
                    left[slot] = step.target
    return Journal(intents, pending, left, has_ended)


def intents_of(moves: Sequence[tuple[int, str, str, Sequence[int]]]) -> tuple[Step, ...]:
    """Return the intents for (batch, source, target, slots)."""
    return tuple(
        Step(StepKind.INTENT, batch, source, target, str(SlotSet(slots))) for batch, source, target, slots in moves
    )
