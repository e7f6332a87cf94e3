"""What the pieces of an execution share: the plan, how patient to be, whether to stop, how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from cluster_core.errors import ProtocolError
from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.commands import Path
from cluster_core.rebalance.execution.effects import Ask, Clock, Latency, Look, Note, Reply, Steps, Tell, Wait
from cluster_core.rebalance.execution.journal import Journal, Step, StepKind, read_journal
from cluster_core.rebalance.execution.pace import Pace, sizes_of, unwell
from cluster_core.rebalance.execution.refusals import name_of
from cluster_core.rebalance.execution.remaining import seconds_of
from cluster_core.rebalance.execution.reshard import Migrate, Send
from cluster_core.rebalance.execution.succession import successors, with_current_marks
from cluster_core.rebalance.execution.waits import ANSWER_S, ANSWER_S_MIN, NODE_TIMEOUT_DEFAULT_MS, answer_s
from cluster_core.rebalance.ordering import Batch
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet

LOOK_PAUSE_S = 0.05
LOOK_PAUSE_S_MAX = 1.0
"""Between two looks at the cluster: short at first, then longer."""
RETRY_PAUSE_S_MAX = 10.0
WELL_S = 1.0
"""Between two looks at whether the cluster is well."""


class Stop(IntEnum):
    """What the user wants: nothing, to pause when what runs now is done, to break off what runs now."""

    NO = 0
    PAUSE = 1
    CANCEL = 2


class StuckError(ProtocolError):
    """It cannot go on by itself; the message says what to do.  Everything is as the journal has it, and can be taken up again."""


class FailoverError(ProtocolError):
    """A replica was promoted in place of a master of the plan while the run was at work."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to go about it.

    *pause_after* is a batch number (0: none), *group* how many slots of a job are open at a time key by key, *groups_a_row* how many such
    groups one row of the journal announces, *attempts* how often a job
    that fails is begun without a slot moving, *bytes_per_s_max* and *latency_ms_max* (99 of 100 questions of a client) limits that are
    kept between pieces, *patience_s* how long anything is waited for, *settle_s* how long the news of an owner may
    take to reach all.
    """

    rollback: bool = False
    revive: bool = False
    pause_after: int = 0
    pause_between_s: float = 0.0
    group: int = 16
    groups_a_row: int = 8
    attempts: int = 3
    retry_pause_s: float = 2.0
    patience_s: float = 60.0
    settle_s: float = 30.0
    job_timeout_s: float = 3600.0
    bytes_per_s_max: float | None = None
    latency_ms_max: float | None = None
    told_masters_max: int = 100
    """With more masters than this only source and target hear of a slot, and gossip tells the others."""


@dataclass(slots=True)
class Work:
    """One run.  Whoever does the IO may set *stop* at any time."""

    stored: StoredPlan
    settings: Settings
    path: Path
    journal: Journal
    stop: Stop = Stop.NO
    plan_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids that the plan has for masters whose replicas were promoted since: the journal is written with these."""
    begun_s: float = 0.0
    expected_s: float = 0.0
    passed_s: float = 0.0
    migrate_ms: int = NODE_TIMEOUT_DEFAULT_MS // 2
    without: frozenset[str] = frozenset()
    """Masters of the plan that are away and are not needed."""
    weights: dict[int, tuple[float, int]] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    before: ClusterSight = ClusterSight({})  # noqa: RUF009 - frozen
    """The cluster as it was when the run began."""
    receivers: frozenset[str] = frozenset()
    """Masters that slots arrive at in this run."""
    seen_s: float = 0.0
    latency_ms: float | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every master of the plan that is there or needed: nobody else is spoken to."""
        return tuple(node.id for node in self.stored.nodes if node.id not in self.without)

    def name(self, node: str) -> str:
        """Return a node as a person knows it."""
        return name_of(self.stored, node)

    def rest(self, attempt: int) -> Steps[None]:
        """Wait before another attempt, longer each time."""
        pause_s = min(self.settings.retry_pause_s * 2.0 ** (attempt - 1), RETRY_PAUSE_S_MAX)
        yield Wait(min(pause_s, self.settings.patience_s))

    def ask(self, commands: Sequence[Send | Migrate]) -> Steps[Sequence[Reply]]:
        """Send *commands* and return a reply each, after the user's patience at the latest."""
        within_s = max(self.settings.patience_s, ANSWER_S_MIN)
        replies: Sequence[Reply] = yield Ask(tuple(commands), within_s, self.migrate_ms)
        return replies

    def expect(self, batches: Sequence[Batch], now_s: float) -> None:
        """Set what is to be done: who receives, and for the estimate of the time that is left."""
        seconds = seconds_of(self.stored, batches, self.path, self.settings.bytes_per_s_max)
        self.receivers = frozenset(job.target for batch in batches for job in batch.jobs)
        self.begun_s, self.expected_s, self.passed_s = now_s, sum(seconds), 0.0
        self.weights = {
            batch.number: (s, sum(len(job.slots) for job in batch.jobs))
            for batch, s in zip(batches, seconds, strict=True)
        }

    def passed(self, batch: int, slots: int) -> None:
        """Count *slots* of a batch as done."""
        seconds, count = self.weights.get(batch, (0.0, 1))
        self.passed_s = min(self.expected_s, self.passed_s + seconds * slots / max(count, 1))

    def tell(self, line: str) -> Steps[None]:
        """Show how far it is; the time that is left follows from the speed so far."""
        now_s = yield Clock()
        share = self.passed_s / self.expected_s if self.expected_s else 0.0
        left_s = (now_s - self.begun_s) * (1 - share) / share if share > 0 else self.expected_s
        waits = f", clients wait {self.latency_ms:.1f} ms (p99)" if self.latency_ms is not None else ""
        yield Tell(line + waits, share, left_s)

    def note(self, *steps: Step) -> Steps[None]:
        """Write *steps* into the journal and remember what they say."""
        if not steps:
            return
        ids = self.plan_ids
        yield Note(
            tuple(
                step._replace(source=ids.get(step.source, step.source), target=ids.get(step.target, step.target))
                for step in steps
            )
        )
        self.journal = read_journal(steps, self.journal)

    def note_arrivals(self, sight: ClusterSight) -> Steps[None]:
        """Write down as done what has arrived and of which no end is written: a kill comes between a move and its row."""
        batches = {slot: batch.number for batch in self.stored.batches for job in batch.jobs for slot in job.slots}
        rows: dict[tuple[int, str, str], list[int]] = {}
        for slot, (source, target) in sorted(self.journal.pending.items()):
            if slot in sight.nodes[target].own:
                rows.setdefault((batches.get(slot, 0), source, target), []).append(slot)
        detail = "found in place"
        yield from self.note(
            *(Step(StepKind.DONE, *where, str(SlotSet(slots)), detail) for where, slots in rows.items())
        )

    def breathe(self, slots: Sequence[int], begun_s: float) -> Steps[None]:
        """Rest as is due after *slots*, whose move began at *begun_s*, and go on only when the cluster is well; StuckError if it stays unwell."""
        now_s = yield Clock()
        sizes = sizes_of(self.stored)
        if self.pace.latency_ms_max is not None:
            self.latency_ms = yield Latency()
            self.pace.heed(self.latency_ms or 0.0)
        pause_s = self.pace.pause_s(sum(sizes[slot] for slot in slots) if sizes else 0.0, begun_s, now_s)
        if pause_s and not self.stop:
            yield Wait(pause_s)
        if self.pace.is_least:
            yield from self.await_calm()
        if now_s - self.seen_s < WELL_S:
            return
        sentence = self._unwell((yield from self.glance(self.nodes)))
        if sentence:
            yield from self.tell(f"waiting: {sentence}")
            yield from self.look_until(self._unwell, self.settings.patience_s)
            yield from self.tell("going on: the cluster is well again")
        self.seen_s = yield Clock()

    def await_calm(self) -> Steps[None]:
        """Wait until clients wait no longer than they may while nothing moves; StuckError where they do as long as the patience: it is not the moves."""
        limit_ms = self.pace.latency_ms_max
        begun_s = yield Clock()
        while limit_ms is not None and not self.stop:
            self.latency_ms = yield Latency()
            if self.latency_ms is None or self.latency_ms <= limit_ms:
                return
            if (yield Clock()) - begun_s >= self.settings.patience_s:
                raise StuckError(
                    f"clients wait {self.latency_ms:.1f} ms (p99) while nothing moves: no pace keeps them within {limit_ms:g} ms"
                )
            yield from self.tell(f"nothing moves until clients wait no more than {limit_ms:g} ms")
            yield Wait(LOOK_PAUSE_S_MAX)

    def _unwell(self, sight: ClusterSight) -> str:
        lost = [f"{self.name(node)} does not answer: {why}" for node, why in sight.lost.items()]
        return lost[0] if lost else unwell(self.stored, sight, self.before, self.receivers)

    def glance(self, nodes: tuple[str, ...], within_s: float = ANSWER_S) -> Steps[ClusterSight]:
        """Return what *nodes* say, or do not say; FailoverError where a replica has replaced one of them."""
        sight: ClusterSight = yield Look(nodes, within_s)
        if successors(self.stored, sight, self.journal):
            raise FailoverError("a replica was promoted")
        return with_current_marks(sight, self.journal, {old: new for new, old in self.plan_ids.items()})

    def look(self, nodes: tuple[str, ...] = ()) -> Steps[ClusterSight]:
        """Return what *nodes* (none: every master of the plan) say; waits for those that are away, StuckError when one stays away."""
        return (yield from self.look_until(lambda sight: "", self.settings.patience_s, nodes))

    def look_when_ok(self) -> Steps[ClusterSight]:
        """Return what every master says once all of them say that the cluster is ok: a node that was away takes some seconds."""

        def unmet(sight: ClusterSight) -> str:
            failing = [node.id for node in sight.nodes.values() if not node.cluster_ok]
            return f"{self.name(failing[0])} says that the cluster is not ok (cluster_state)" if failing else ""

        return (yield from self.look_until(unmet, self.settings.patience_s))

    def look_until(
        self, unmet: Callable[[ClusterSight], str], limit_s: float, nodes: tuple[str, ...] = ()
    ) -> Steps[ClusterSight]:
        """Look until all *nodes* answer and *unmet* returns no sentence; StuckError with the last one after *limit_s* or the patience."""
        patience_s = self.settings.patience_s
        begun_s = now_s = yield Clock()
        pause_s = LOOK_PAUSE_S
        while True:
            sight = yield from self.glance(nodes or self.nodes, answer_s(begun_s + patience_s - now_s))
            lost = [f"{self.name(node)} does not answer: {why}" for node, why in sight.lost.items()]
            sentence = lost[0] if lost else unmet(sight)
            if not sentence:
                return sight
            now_s = yield Clock()
            if now_s - begun_s >= (patience_s if lost else min(limit_s, patience_s)):
                raise StuckError(sentence)
            yield Wait(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_PAUSE_S_MAX)

    def settle(self, targets: Mapping[str, SlotSet]) -> Steps[ClusterSight]:
        """Wait until every master says that the slots of *targets* are theirs, and that none of them is open."""
        return (yield from self.look_until(lambda sight: self._unsettled(sight, targets), self.settings.settle_s))

    def _unsettled(self, sight: ClusterSight, targets: Mapping[str, SlotSet]) -> str:
        still_open = sight.open_slots()
        for target, slots in targets.items():
            for node in sight.nodes.values():
                missing = slots - node.owners.get(target, SlotSet())
                if missing:
                    return f"{self.name(node.id)} does not say that slots {missing} belong to {self.name(target)}"
            left_open = SlotSet(slot for slot in still_open if slot in slots)
            if left_open:
                return f"slots {left_open} are still open"
        return ""
