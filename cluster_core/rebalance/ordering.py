"""The order of moves: batches of jobs, one job a pair of source and target, with room for both copies at every moment.

While a slot moves, both masters hold it: a target needs room for all arriving slots before any leaving slot is gone, and a source keeps its
slots until the batch is over.  No master gives and takes in one batch: a master that takes a slot raises its config epoch, and its old
claim on a slot that it has just given away would win until all nodes know the new owner.  A master that gives away its last slot becomes a
replica of the receiver (default ``cluster-allow-replica-migration yes``), so a master that stays always keeps a slot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.plan import Move, slot_ranges

BATCHES_MAX = 16384


class Job(NamedTuple):
    """Slots from *source* to *target* in one go; *loads* are their sums, in the order of the moves' loads."""

    source: str
    target: str
    slots: tuple[int, ...]
    loads: tuple[float, ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The slots as (first, last) pairs."""
        return slot_ranges(self.slots)


class Batch(NamedTuple):
    """Jobs that run at the same time; the next batch starts when all are done."""

    number: int
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """What a master may hold while slots move: *limits* by resource number, its loads and slots now, whether it *stays*."""

    held: tuple[float, ...]
    limits: Mapping[int, float]
    slots: int
    stays: bool = True
    excess: float = 0.0
    """By how much it is over its fair limit: the largest excess gives away first."""

    @property
    def full(self) -> bool:
        """Whether it begins above a limit: then it gives away first."""
        return any(self.held[r] > limit for r, limit in self.limits.items())


class Order(NamedTuple):
    """Moves in batches, and those *left*: no target ever has room for both copies."""

    batches: list[Batch]
    left: list[Move]


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Seconds that moves take."""

    job_s: float
    slot_s: float
    bytes_per_s: float

    def seconds(self, job: Job, bytes_at: int) -> float:
        """Return the seconds of one job; *bytes_at* is the place of bytes among the loads."""
        return self.job_s + len(job.slots) * self.slot_s + job.loads[bytes_at] / self.bytes_per_s


def order_moves(moves: Sequence[Move], rooms: Mapping[str, Room]) -> Order:
    """Return *moves* as batches: at most one job a source and a target.

    Masters above a limit go first, then those with the largest excess, then small jobs; a job is cut where room ends.  Nothing moves into
    a master while it is above a limit.  Raises PlanError for a node that *rooms* lacks.
    """
    pairs: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        for node in (move.source, move.target):
            if node not in rooms:
                raise PlanError(f"slot {move.slot} moves between nodes that are not there: {node}")
        pairs.setdefault((move.source, move.target), []).append(move)
    state = _State({node: list(room.held) for node, room in rooms.items()}, {n: r.slots for n, r in rooms.items()})
    batches: list[Batch] = []
    while pairs:
        jobs = _fill(pairs, rooms, state)
        if not jobs or len(batches) >= BATCHES_MAX:
            return Order(batches, [move for waiting in pairs.values() for move in waiting])
        batches.append(Batch(len(batches) + 1, tuple(jobs)))
        for job in jobs:
            state.finish(job)
    return Order(batches, [])


class _State:
    """Loads and slots of every master between batches."""

    def __init__(self, held: dict[str, list[float]], slots: dict[str, int]) -> None:
        self.held, self.slots = held, slots

    def finish(self, job: Job) -> None:
        for r, load in enumerate(job.loads):
            self.held[job.source][r] -= load
            self.held[job.target][r] += load
        self.slots[job.source] -= len(job.slots)
        self.slots[job.target] += len(job.slots)


def _fill(pairs: dict[tuple[str, str], list[Move]], rooms: Mapping[str, Room], state: _State) -> list[Job]:
    """Take what may run together out of *pairs*."""
    busy: set[str] = set()
    jobs = []
    sizes = {pair: sum(move.loads[0] for move in waiting) for pair, waiting in pairs.items()}
    for pair in sorted(pairs, key=lambda p: (not rooms[p[0]].full, -rooms[p[0]].excess, sizes[p], p)):
        source, target = pair
        if source in busy or target in busy:
            continue
        extra = [0.0] * len(rooms[target].held)
        taken: list[Move] = []
        for move in pairs[pair]:
            spare = state.slots[source] - len(taken) > 1
            full = any(
                state.held[target][r] + extra[r] + move.loads[r] > limit for r, limit in rooms[target].limits.items()
            )
            if full or (rooms[source].stays and not spare):
                continue
            taken.append(move)
            for r, load in enumerate(move.loads):
                extra[r] += load
        if not taken:
            continue
        busy |= {source, target}
        sums = tuple(sum(move.loads[r] for move in taken) for r in range(len(taken[0].loads)))
        jobs.append(Job(source, target, tuple(sorted(move.slot for move in taken)), sums))
        gone = {move.slot for move in taken}
        left = [move for move in pairs[pair] if move.slot not in gone]
        if left:
            pairs[pair] = left
        else:
            del pairs[pair]
    return jobs
