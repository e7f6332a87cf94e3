"""Move slots key by key (SETSLOT, MIGRATE), a few slots of every job in step."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from cluster_core.errors import ProtocolError
from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.effects import (
    Answered,
    Clock,
    Lost,
    Migrate,
    Refused,
    Reply,
    Send,
    Step,
    StepKind,
    Steps,
    intents_of,
)
from cluster_core.rebalance.execution.run_state import Run, StuckError, answer_s, cut
from cluster_core.rebalance.execution.situation import waves
from cluster_core.rebalance.plan import Batch, Job
from cluster_core.slots.slot_set import SlotSet, slots_by

KEYS_MAX = 100
"""Keys of one MIGRATE."""
TOLD_MASTERS_MAX = 100
"""With more masters only source and target get the command; gossip informs the others."""


@dataclass(slots=True)
class SlotMove:
    """The move of *slot* from *source* to *target*; *informed* learn of the new owner at the end.

    *owner* is the node that claims the slot at the start, empty for none. *keys_sent* are keys that the target already
    has; with keys there a resumed move can only continue.
    """

    slot: int
    source: str
    target: str
    owner: str
    informed: tuple[str, ...] = ()
    keys_sent: int = 0
    keys_max: int = KEYS_MAX
    outcome: StepKind = StepKind.FAILED

    def commands(self) -> Generator[Send | Migrate, Reply | None, None]:
        """Yield commands and receive their replies; ProtocolError if the move cannot continue.

        Every step may be repeated, and the order survives a kill: the target imports before the source migrates, and learns
        first that it owns the slot. A slot without owner is only claimed: a source that gave it away has no keys of it.
        """
        if self.owner != self.target:
            self._check((yield self._setslot(self.target, "IMPORTING", self.source)))
        if self.owner == self.source:
            self._check((yield self._setslot(self.source, "MIGRATING", self.target)))
            while True:
                reply = yield Send(self.source, ("CLUSTER", "GETKEYSINSLOT", str(self.slot), str(self.keys_max)))
                self._check(reply)
                keys = tuple(reply.value) if isinstance(reply, Answered) else ()
                if not keys:
                    break
                reply = yield Migrate(self.source, self.target, keys)
                if isinstance(reply, Refused) and "BUSYKEY" in reply.text:
                    # an earlier MIGRATE arrived without its reply; clients changed the source's copy
                    reply = yield Migrate(self.source, self.target, keys, replace=True)
                self._check(reply, f"keys do not move to {self.target}")
                self.keys_sent += len(keys)
        self._check((yield self._setslot(self.target, "NODE", self.target)))
        reply = yield self._setslot(self.source, "NODE", self.target)
        if not (
            isinstance(reply, Refused) and "only with masters" in reply.text
        ):  # a source without slots is a replica (redis 9223)
            self._check(reply)
        for node in self.informed:
            yield self._setslot(node, "NODE", self.target)  # if it refuses, gossip informs it
        self.outcome = StepKind.DONE

    def _setslot(self, node: str, *arguments: str) -> Send:
        return Send(node, ("CLUSTER", "SETSLOT", str(self.slot), *arguments))

    def _check(self, reply: Reply | None, problem: str = "refused") -> None:
        if isinstance(reply, Refused):
            raise ProtocolError(f"slot {self.slot}: {problem}: {reply.text}")


def run_batch(run: Run, batch: Batch) -> Steps[bool]:
    """Move the slots of *batch*; return False if the user stopped it; StuckError after `Settings.attempts` without progress."""
    left, attempt = batch, 0
    while not run.stop and (failure := (yield from _run_groups(run, left))) is not None and not run.stop:
        attempt += 1
        if attempt == run.settings.attempts:
            raise StuckError(failure)
        yield from run.rest(attempt)
        yield from repair(run, (yield from run.look_when_ok()))
        before, left = left, _rest(left, (yield from run.look()))
        if _slots(left) < _slots(before):
            attempt = 0
    if not run.stop:
        return True
    yield from repair(run, (yield from run.look()))
    return not _rest(batch, (yield from run.look())).jobs


def _run_groups(run: Run, batch: Batch) -> Steps[str | None]:
    """Move slots in groups until all have moved, one fails (returns the reason) or the user stops.

    A journal row costs more than a slot, so intents are written for several groups.
    """
    ahead = run.settings.group * run.settings.groups_a_row
    moved: list[SlotMove] = []
    failure: str | None = None
    begun_s = yield Clock()
    start = written = 0
    while start < max((len(job.slots) for job in batch.jobs), default=0) and not (run.stop or failure):
        now_s = yield Clock()
        if start == written:
            written += ahead
            intents = intents_of(batch.number, [job._replace(slots=job.slots[start:written]) for job in batch.jobs])
            yield from run.note(*_results(batch.number, moved, now_s - begun_s, None), *intents)
            moved, begun_s = [], now_s
        end = min(start + run.pace.count(run.settings.group), written)
        piece, _ = cut(
            [job._replace(slots=job.slots[start:end]) for job in batch.jobs], run.pace.piece_bytes, run.sizes
        )
        end = start + max(1, min((len(job.slots) for job in piece if job.slots), default=1))
        group = [
            _move(run, slot, job.source, job.target, job.source) for job in batch.jobs for slot in job.slots[start:end]
        ]
        start = end
        failure = yield from walk(run, group)
        moved += group
        done = sum(move.outcome is StepKind.DONE for move in group)
        run.moved += done
        yield from run.tell(f"batch {batch.number}: {done} slots moved")
        if not failure:
            yield from run.breathe([move.slot for move in group], now_s)
    now_s = yield Clock()
    yield from run.note(*_results(batch.number, moved, now_s - begun_s, failure))
    return failure


def _move(run: Run, slot: int, source: str, target: str, owner: str, keys_sent: int = 0) -> SlotMove:
    is_small = len(run.nodes) <= TOLD_MASTERS_MAX
    informed = tuple(node for node in run.nodes if node not in (source, target)) if is_small else ()
    return SlotMove(slot, source, target, owner, informed, keys_sent, run.pace.count(KEYS_MAX))


def _results(batch: int, moves: Sequence[SlotMove], seconds: float, failure: str | None) -> list[Step]:
    """Return a journal row for each outcome, source and target."""
    rows: dict[tuple[StepKind, str, str], list[SlotMove]] = {}
    for move in moves:
        rows.setdefault((move.outcome, move.source, move.target), []).append(move)
    return [
        Step(
            outcome, batch, source, target, str(SlotSet(move.slot for move in those)),
            (failure or "") if outcome == StepKind.FAILED else "", sum(move.keys_sent for move in those), seconds,
        )
        for (outcome, source, target), those in rows.items()
    ]  # fmt: skip


def _rest(batch: Batch, sight: ClusterSight) -> Batch:
    """Return *batch* with the slots that their sources still own."""
    jobs = [
        job._replace(slots=tuple(slot for slot in job.slots if slot not in sight.nodes[job.target].own))
        for job in batch.jobs
    ]
    return Batch(batch.number, tuple(job for job in jobs if job.slots))


def _slots(batch: Batch) -> int:
    return sum(len(job.slots) for job in batch.jobs)


def walk(run: Run, moves: Iterable[SlotMove]) -> Steps[str | None]:
    """Run *moves* in step; return a failure's reason, else None."""
    answered: list[tuple[Generator[Send | Migrate, Reply | None, None], Reply | None]] = [
        (move.commands(), None) for move in moves
    ]
    failure: str | None = None
    while answered:
        asked = []
        for steps, reply in answered:
            try:
                asked.append((steps, steps.send(reply)))
            except StopIteration:
                continue
            except ProtocolError as error:
                failure = failure or str(error)
        replies = (yield from run.ask([command for _, command in asked])) if asked else []
        answered = []
        for (steps, command), reply in zip(asked, replies, strict=True):
            if isinstance(reply, Lost):
                node = command.node if isinstance(command, Send) else command.source
                failure = failure or f"{run.name(node)}: {reply.text}"
            else:
                answered.append((steps, reply))
    return failure


def repair(run: Run, sight: ClusterSight) -> Steps[str | None]:
    """Finish interrupted moves and inform all masters of owners; return a failure's reason, else None."""
    sight = yield from _tell_owners(run, sight)
    left, owners = unfinished(run, sight), sight.owner_list()
    pairs = slots_by((run.journal.intents[slot], slot) for slot in left)
    for jobs in waves([Job(*ends, tuple(slots), ()) for ends, slots in pairs.items()]):
        yield from run.await_epochs(jobs)
        pending = [
            _move(run, slot, job.source, job.target, owners[slot], _keys_sent(sight, slot, job.source, job.target))
            for job in jobs
            for slot in job.slots
        ]
        failure = yield from walk(run, pending)
        yield from run.note(*_results(0, pending, 0.0, failure))
        if failure:
            return failure
    return None


def _tell_owners(run: Run, sight: ClusterSight) -> Steps[ClusterSight]:
    """Send importing nodes the owners after a failover (`ClusterSight.misinformed`); return the cluster once all report OK."""

    def wrong_owners(sight: ClusterSight) -> list[tuple[str, int, str]]:
        return [
            (node, slot, owner)
            for node, slot, owner in sight.misinformed(unfinished(run, sight))
            if owner == run.journal.intents[slot][0] and slot in sight.nodes[node].importing
        ]

    def unmet(sight: ClusterSight) -> str:
        wrong = wrong_owners(sight)
        for node, _, owner in wrong:
            if owner not in sight.nodes[node].epochs:
                return f"{run.name(node)} does not know that {run.name(owner)} is a master"
        return run.failing(sight, but={node for node, _, _ in wrong})

    if not wrong_owners(sight):
        return sight
    sight = yield from run.look_until(unmet)
    yield from run.ask(
        [Send(node, ("CLUSTER", "SETSLOT", str(slot), "NODE", owner)) for node, slot, owner in wrong_owners(sight)]
    )
    return (yield from run.look_when_ok())


def close_untouched(run: Run) -> Steps[list[int]]:
    """Close open slots without moved keys after a run got stuck, if all masters answer; return slots that stay open."""
    sight = yield from run.read_state(run.nodes, answer_s(run.settings.patience_s))
    intents = run.journal.intents
    ours = {slot for slot, ends in sight.open_slots().items() if intents.get(slot) == ends}
    left = sorted(ours.union(unfinished(run, sight)))
    if sight.lost or not left:
        return sorted(sight.open_slots().keys() & left)
    try:
        sight = yield from _tell_owners(run, sight)
    except StuckError:
        return sorted(sight.open_slots().keys() & left)
    mine = set(unfinished(run, sight))
    commands: list[Send] = []
    for slot in left:
        source, target = intents[slot]
        if slot in sight.nodes[target].own or _keys_sent(sight, slot, source, target):
            continue
        if slot in mine:  # others own the rest: no key goes to their previous target
            commands.append(Send(source, ("CLUSTER", "SETSLOT", str(slot), "STABLE")))
        if slot in mine or slot in sight.nodes[target].importing:
            commands.append(Send(target, ("CLUSTER", "SETSLOT", str(slot), "STABLE")))
    yield from run.ask(commands)
    sight = yield from run.read_state(run.nodes, answer_s(run.settings.patience_s))
    still_open = sight.open_slots().keys() & left
    closed = [] if sight.lost else sorted(mine - still_open)
    rows = slots_by((intents[slot], slot) for slot in closed if slot not in sight.nodes[intents[slot][1]].own)
    yield from run.note(*(Step(StepKind.CANCELLED, 0, *ends, str(slots)) for ends, slots in rows.items()))
    return sorted(still_open)


def _keys_sent(sight: ClusterSight, slot: int, source: str, target: str) -> int:
    """Return how many keys of an open slot its target has.

    A promoted replica has its master's keys but no importing mark: the move can only continue.
    """
    is_counted = slot in sight.nodes[target].importing or slot not in sight.nodes[source].migrating
    return sight.nodes[target].open_keys.get(slot, 0) if is_counted else 1


def unfinished(run: Run, sight: ClusterSight) -> list[int]:
    """Return the plan's slots that are open or have an owner unknown to some master, except those that others moved."""
    left = {**sight.open_slots(), **dict.fromkeys(sight.disputed())}
    owners, intents = sight.owner_list() if left else [], run.journal.intents
    return sorted(slot for slot in left if slot in intents and owners[slot] in (*intents[slot], ""))
