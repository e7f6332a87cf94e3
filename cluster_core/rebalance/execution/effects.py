"""Effects of an execution, their answers, and the rows of its journal: the interface between `Execution` and the IO code.

A journal row before and after each step lets the next run resume.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from cluster_core.rebalance.plan import Job
from cluster_core.slots.slot_set import SlotSet

NODE_TIMEOUT_DEFAULT_MS: Final = 15_000
"""cluster-node-timeout where a server does not report it: the default of the servers."""
ANSWER_S: Final = 5.0
"""Timeout of one look at one node; looks repeat until the patience ends."""


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
    """Rows of earlier runs: the last intent of each slot, and the slots whose intent is *pending*, without an end."""

    intents: dict[int, tuple[str, str]]
    pending: set[int]
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
        return target == self.left.get(slot) or (slot in self.pending and target in self.intents[slot])

    def renamed(self, names: Mapping[str, str]) -> Journal:
        """Return this journal with nodes renamed by *names*."""

        def now(name: str) -> str:
            return names.get(name, name)

        intents = {slot: (now(source), now(target)) for slot, (source, target) in self.intents.items()}
        return replace(self, intents=intents, left={slot: now(target) for slot, target in self.left.items()})


def read_journal(steps: Iterable[Step], before: Journal | None = None) -> Journal:
    """Return the journal of *steps*, oldest first, that follow *before*; DecodeError for bad slots."""
    before = before or Journal({}, set())
    intents, pending, left, has_ended = {**before.intents}, {*before.pending}, {**before.left}, before.has_ended
    for step in steps:
        if step.step in (StepKind.STARTED, StepKind.FINISHED, StepKind.ROLLED_BACK):
            has_ended = step.step != StepKind.STARTED
        if step.step in (StepKind.INTENT, StepKind.DONE, StepKind.CANCELLED):
            slots = SlotSet.parse(step.slots, source="plan_steps")
            if step.step == StepKind.INTENT:
                intents |= dict.fromkeys(slots, (step.source, step.target))
                pending.update(slots)
                continue
            pending.difference_update(slots)
            if step.step == StepKind.DONE:
                left |= dict.fromkeys(slots, step.target)
    return Journal(intents, pending, left, has_ended)


def intents_of(number: int, jobs: Iterable[Job]) -> list[Step]:
    """Return the intents for *jobs* of a batch."""
    return [Step(StepKind.INTENT, number, *job[:2], str(SlotSet(job.slots))) for job in jobs if job.slots]


@dataclass(frozen=True, slots=True)
class Send:
    """Send the command *arguments*, name first, to *node*."""

    node: str
    arguments: tuple[str | bytes, ...]


@dataclass(frozen=True, slots=True)
class Migrate:
    """MIGRATE *keys* from *source* to the address of *target*, database 0, with REPLACE if *replace*."""

    source: str
    target: str
    keys: tuple[bytes, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read the state of *nodes*; answered with a `ClusterSight` within *within_s*."""

    nodes: tuple[str, ...]
    within_s: float = ANSWER_S


@dataclass(frozen=True, slots=True)
class Ask:
    """Send commands to their nodes, in order per node; answered with one `Reply` each.

    *within_s* limits each node's commands together; MIGRATE times out after *migrate_ms*.
    """

    commands: tuple[Send | Migrate, ...]
    within_s: float = ANSWER_S
    migrate_ms: int = NODE_TIMEOUT_DEFAULT_MS // 2


@dataclass(frozen=True, slots=True)
class AppendToJournal:
    """Append *steps* to the journal; answered when stored."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait *seconds*; a stop ends the wait early."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Answered with monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Answered with the recent p99 latency of clients in milliseconds, at the slowest master; None if unknown."""


@dataclass(frozen=True, slots=True)
class ShowProgress:
    """Show progress: a *line*, the share that is *done* (0 to 1), the estimated seconds left."""

    line: str
    done: float
    left_s: float | None = None


Effect = ReadState | Ask | AppendToJournal | Wait | Clock | Latency | ShowProgress


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer of a server: text, a number or a list of bytes."""

    value: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of the server."""

    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer: the command may have run."""

    text: str


Reply = Answered | Refused | Lost

T = TypeVar("T")
Steps = Generator[Effect, Any, T]
"""A part of an execution: yields effects, receives their answers, returns its result."""
