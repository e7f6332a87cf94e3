"""State of a run: plan, settings, pace, journal and waits for the cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster_core.errors import ProtocolError
from cluster_core.rebalance.execution.cluster_now import ClusterSight, MigrationPath
from cluster_core.rebalance.execution.effects import (
    ANSWER_S,
    AppendToJournal,
    Ask,
    Clock,
    Journal,
    Latency,
    Migrate,
    ReadState,
    Reply,
    Send,
    ShowProgress,
    Step,
    StepKind,
    Steps,
    Wait,
    read_journal,
)
from cluster_core.rebalance.execution.situation import (
    ANSWER_S_MIN,
    HEADROOM,
    USUAL,
    Settings,
    Situation,
    successors,
    with_current_marks,
)
from cluster_core.rebalance.plan import Batch, Job
from cluster_core.rebalance.stored_plan import StoredPlan
from cluster_core.slots.slot_set import SlotSet, slots_by

LOOK_PAUSE_S = 0.05
LOOK_PAUSE_S_MAX = 1.0
"""Maximum pause between two looks at the cluster."""
RETRY_PAUSE_S_MAX = 10.0
HEALTH_S = 1.0
"""Pause between two health checks."""
PIECE_S: Final = 1.0
"""Duration of a piece under a byte limit."""
PIECE_BYTES_MAX: Final = 16 << 20
"""Bytes of the first piece under a latency limit."""
SHARE_MIN: Final = 1 / 64
REST_S_MIN: Final = 0.05
REST_S_MAX: Final = 5.0
"""Maximum rest: longer than latencies are kept (`slotscope.servers.moves`)."""
CALM_S: Final = 1.5
"""Duration of the latency measurement before the first piece."""


class StuckError(ProtocolError):
    """The run cannot continue; the journal is complete, so a later run can resume."""


class FailoverError(ProtocolError):
    """A replica was promoted in place of a master of the plan during the run."""


@dataclass(slots=True)
class Pace:
    """Pace of moves in pieces: a group of slots key by key, or a part of a server-side job.

    Above the latency limit pieces halve and rests double; below it they recover by the same factor.
    """

    bytes_per_s_max: float | None = None
    latency_ms_max: float | None = None
    share: float = 1.0
    rest_s: float = 0.0
    due_s: float = 0.0
    """Time at which the byte limit allows the bytes so far."""

    def count(self, usual: int) -> int:
        """Return the number of items in a piece, at most *usual*."""
        return max(1, round(usual * self.share))

    @property
    def piece_bytes(self) -> float | None:
        """Bytes of a piece; None for no limit."""
        if self.latency_ms_max is None:
            return None if self.bytes_per_s_max is None else self.bytes_per_s_max * PIECE_S
        limit = PIECE_BYTES_MAX * self.share
        return limit if self.bytes_per_s_max is None else min(limit, self.bytes_per_s_max * PIECE_S)

    @property
    def is_slowest(self) -> bool:
        """Return whether pieces are smallest and rests longest."""
        return self.share == SHARE_MIN and self.rest_s == REST_S_MAX

    def adapt(self, latency_ms: float) -> None:
        if self.latency_ms_max is None:
            return
        if latency_ms > self.latency_ms_max:
            self.share = max(self.share / 2, SHARE_MIN)
            self.rest_s = min(max(self.rest_s * 2, REST_S_MIN), REST_S_MAX)
        else:
            self.share = min(self.share * 2, 1.0)
            self.rest_s = self.rest_s / 2 if self.rest_s > REST_S_MIN else 0.0

    def pause_s(self, moved: float, begun_s: float, now_s: float) -> float:
        """Return the rest in seconds after *moved* bytes since *begun_s*; unused time is not made up for."""
        if self.bytes_per_s_max is not None:
            self.due_s = max(self.due_s, begun_s) + moved / self.bytes_per_s_max
        return max(self.rest_s, self.due_s - now_s, 0.0)


@dataclass(slots=True)
class Run:
    """State of one run of *stored*; the IO code may set *stop* at any time.

    *steps* is the journal of earlier runs, oldest row first; *path* None is the fastest.
    """

    stored: StoredPlan
    steps: Sequence[Step] = ()
    path: MigrationPath | None = None
    settings: Settings = USUAL
    stop: bool = False
    """Pause after the current step."""
    journal: Journal = field(init=False)
    start: Situation = field(init=False)
    """The plan with current ids, and cluster and remaining moves at the start."""
    plan_ids: Mapping[str, str] = field(default_factory=dict)
    """Plan ids of replaced masters; the journal is written with them."""
    begun_s: float = 0.0
    slots: int = 0
    """Slots to move, and the number *moved* so far."""
    moved: int = 0
    pace: Pace = field(init=False)
    sizes: Sequence[float] = field(init=False)
    """Bytes of each slot; empty if unknown."""
    receivers: frozenset[str] = frozenset()
    """Masters that receive slots in this run."""
    seen_s: float = 0.0
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        self.journal = read_journal(self.steps)
        self.start = Situation(self.stored, ClusterSight({}), self.journal, self.path or MigrationPath.LEGACY)
        self.sizes = self.stored.sizes
        self.pace = Pace(self.settings.bytes_per_s_max, self.settings.latency_ms_max)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The plan's masters that answer or are needed; other nodes get no command."""
        known = self.start.sight.nodes.keys() | self.start.sight.lost.keys()
        return tuple(node.id for node in self.start.stored.nodes if node.id in known)

    def name(self, node: str) -> str:
        return self.start.name(node)

    def rest(self, attempt: int) -> Steps[None]:
        """Wait before another attempt, longer each time."""
        pause_s = min(self.settings.retry_pause_s * 2.0 ** (attempt - 1), RETRY_PAUSE_S_MAX)
        yield Wait(min(pause_s, self.settings.patience_s))

    def ask(self, commands: Sequence[Send | Migrate]) -> Steps[Sequence[Reply]]:
        """Send *commands* and return one reply each within the user's patience."""
        within_s = max(self.settings.patience_s, ANSWER_S_MIN)
        replies: Sequence[Reply] = yield Ask(tuple(commands), within_s, self.start.migrate_ms)
        return replies

    def expect(self, batches: Sequence[Batch], now_s: float) -> None:
        """Set the receivers and the number of slots to move."""
        self.receivers = frozenset(job.target for batch in batches for job in batch.jobs)
        self.begun_s, self.moved = now_s, 0
        self.slots = sum(len(job.slots) for batch in batches for job in batch.jobs)

    def tell(self, line: str) -> Steps[None]:
        """Show progress; the remaining time follows from the speed so far."""
        now_s = yield Clock()
        share = min(self.moved / self.slots, 1.0) if self.slots else 0.0
        left_s = (now_s - self.begun_s) * (1 - share) / share if share else None
        latency = f", client latency {self.latency_ms:.1f} ms (p99)" if self.latency_ms is not None else ""
        yield ShowProgress(line + latency, share, left_s)

    def note(self, *steps: Step) -> Steps[None]:
        """Append *steps* to the journal, in storage and in memory."""
        if not steps:
            return
        ids = self.plan_ids
        yield AppendToJournal(
            tuple(
                step._replace(source=ids.get(step.source, step.source), target=ids.get(step.target, step.target))
                for step in steps
            )
        )
        self.journal = read_journal(steps, self.journal)

    def note_arrivals(self, sight: ClusterSight) -> Steps[None]:
        """Write missing `DONE` rows: the executor was killed between a move and its row."""
        batches = {
            slot: batch.number for batch in self.start.stored.batches for job in batch.jobs for slot in job.slots
        }
        pending = {slot: self.journal.intents[slot] for slot in sorted(self.journal.pending)}
        rows = slots_by(
            ((batches.get(slot, 0), *ends), slot) for slot, ends in pending.items() if slot in sight.nodes[ends[1]].own
        )
        yield from self.note(
            *(Step(StepKind.DONE, *where, str(slots), "found in place") for where, slots in rows.items())
        )

    def breathe(self, slots: Sequence[int], begun_s: float) -> Steps[None]:
        """Rest after *slots*, moved since *begun_s*, and wait for a healthy cluster; StuckError if it stays unhealthy."""
        now_s = yield Clock()
        if self.pace.latency_ms_max is not None:
            self.latency_ms = yield Latency()
            self.pace.adapt(self.latency_ms or 0.0)
        pause_s = self.pace.pause_s(sum(self.sizes[slot] for slot in slots) if self.sizes else 0.0, begun_s, now_s)
        if pause_s and not self.stop:
            yield Wait(pause_s)
        if self.pace.is_slowest:
            yield from self.await_calm()
        if now_s - self.seen_s < HEALTH_S:
            return
        sentence = self.unhealthy((yield from self.read_state(self.nodes)))
        if sentence:
            yield from self.tell(f"waiting: {sentence}")
            yield from self.look_until(self.unhealthy)
            yield from self.tell("going on: the cluster is healthy again")
        self.seen_s = yield Clock()

    def await_calm(self) -> Steps[None]:
        """Wait until client latency is within its limit while nothing moves; StuckError if it stays above."""
        limit_ms = self.pace.latency_ms_max
        begun_s = yield Clock()
        while limit_ms is not None and not self.stop:
            self.latency_ms = yield Latency()
            if self.latency_ms is None or self.latency_ms <= limit_ms:
                return
            if (yield Clock()) - begun_s >= self.settings.patience_s:
                raise StuckError(
                    f"client latency is {self.latency_ms:.1f} ms (p99) while nothing moves: no pace keeps it within {limit_ms:g} ms"
                )
            yield from self.tell(f"nothing moves until client latency is within {limit_ms:g} ms")
            yield Wait(LOOK_PAUSE_S_MAX)

    def unhealthy(self, sight: ClusterSight) -> str:
        """Describe cluster problems that did not exist before the run; empty if none."""
        known = {name for node in self.start.sight.nodes.values() for name in node.unreachable}
        for node, reason in sight.lost.items():
            return f"{self.name(node)} does not answer: {reason}"
        if failing := self.failing(sight):
            return failing
        for seen in sight.nodes.values():
            name = self.name(seen.id)
            if unreachable := next((other for other in seen.unreachable if other not in known), None):
                return f"{name} does not reach {seen.addresses.get(unreachable, '')} ({unreachable[:8]})"
            if seen.memory_max and seen.id in self.receivers and seen.used_memory > HEADROOM * seen.memory_max:
                return f"{name} uses more than {HEADROOM:.0%} of its maxmemory of {seen.memory_max:,} bytes"
        there, were = (sum(node.replicas_online for node in view.nodes.values()) for view in (sight, self.start.sight))
        return f"{were - there} of {were} replicas have lost their master (INFO replication)" if there < were else ""

    def read_state(self, nodes: tuple[str, ...], within_s: float = ANSWER_S) -> Steps[ClusterSight]:
        """Return the state of *nodes*, reachable or not; FailoverError if a replica replaced one."""
        sight: ClusterSight = yield ReadState(nodes, within_s)
        if successors(self.start.stored, sight, self.journal):
            raise FailoverError("a replica was promoted")
        return with_current_marks(sight, self.journal, self.plan_ids.values())

    def failing(self, sight: ClusterSight, but: Collection[str] = ()) -> str:
        """Name a node that reports cluster state FAIL, except *but*; empty if none does."""
        node = next((node.id for node in sight.nodes.values() if not node.cluster_ok and node.id not in but), None)
        return f"{self.name(node)} says that the cluster is not ok (cluster_state)" if node else ""

    def look(self, nodes: tuple[str, ...] = ()) -> Steps[ClusterSight]:
        """Return the state of *nodes* (default: all masters of the plan) once all answer; StuckError if one does not."""
        return (yield from self.look_until(lambda sight: "", nodes))

    def look_when_ok(self) -> Steps[ClusterSight]:
        """Return the state of all masters once all report cluster state OK."""
        return (yield from self.look_until(self.failing))

    def look_until(
        self, unmet: Callable[[ClusterSight], str], nodes: tuple[str, ...] = (), limit_s: float = math.inf
    ) -> Steps[ClusterSight]:
        """Look until all *nodes* answer and *unmet* is empty; StuckError with its last sentence after *limit_s* or the patience."""
        patience_s = self.settings.patience_s
        begun_s = now_s = yield Clock()
        pause_s = LOOK_PAUSE_S
        while True:
            sight = yield from self.read_state(nodes or self.nodes, answer_s(begun_s + patience_s - now_s))
            lost = [f"{self.name(node)} does not answer: {reason}" for node, reason in sight.lost.items()]
            sentence = lost[0] if lost else unmet(sight)
            if not sentence:
                return sight
            now_s = yield Clock()
            if now_s - begun_s >= (patience_s if lost else min(limit_s, patience_s)):
                raise StuckError(sentence)
            yield Wait(pause_s)
            pause_s = min(pause_s * 1.5, LOOK_PAUSE_S_MAX)

    def await_epochs(self, jobs: Sequence[Job]) -> Steps[None]:
        """Wait until each target knows the config epoch of its source.

        Else its own new epoch may be lower, and a late message of the source takes the slots back, and deletes the keys
        (`clusterUpdateSlotsConfigWith`).
        """

        def unmet(sight: ClusterSight) -> str:
            for source, target, *_ in jobs:
                if sight.nodes[target].epochs.get(source, 0) < sight.nodes[source].config_epoch:
                    return f"{self.name(target)} does not know the config epoch of {self.name(source)}"
            return ""

        yield from self.look_until(unmet, limit_s=self.settings.settle_s)

    def settle(self, jobs: Sequence[Job]) -> Steps[None]:
        """Wait until all masters know the new owners of the slots of *jobs*, and none of these is open."""
        arrivals = slots_by((job.target, slot) for job in jobs for slot in job.slots)

        def unmet(sight: ClusterSight) -> str:
            still_open = SlotSet(sight.open_slots())
            for target, slots in arrivals.items():
                for node in sight.nodes.values():
                    if missing := slots - node.owners.get(target, SlotSet()):
                        return f"{self.name(node.id)} does not say that slots {missing} belong to {self.name(target)}"
                if left_open := slots & still_open:
                    return f"slots {left_open} are still open"
            return ""

        yield from self.look_until(unmet, limit_s=self.settings.settle_s)


def cut(jobs: Sequence[Job], piece_bytes: float | None, sizes: Sequence[float]) -> tuple[list[Job], list[Job]]:
    """Split *jobs* into a first part of at most *piece_bytes*, with at least one slot of each, and the rest."""
    if piece_bytes is None or not sizes:
        return list(jobs), []
    now, later = [], []
    for job in jobs:
        room, taken = piece_bytes / len(jobs), 0
        while taken < len(job.slots) and (not taken or room >= sizes[job.slots[taken]]):
            room -= sizes[job.slots[taken]]
            taken += 1
        now.append(job._replace(slots=job.slots[:taken]))
        if taken < len(job.slots):
            later.append(job._replace(slots=job.slots[taken:]))
    return now, later


def answer_s(left_s: float) -> float:
    """Return the timeout of one look with *left_s* of the patience left."""
    return min(ANSWER_S, max(ANSWER_S_MIN, left_s))
