"""Order moves in batches of jobs, one per pair of source and target, with room for both copies.

A target needs room for all arriving slots, and a source keeps its slots, until the batch ends. No master gives and
takes in one batch: its new config epoch would revive its claim on a slot that it just gave away. A master without
slots becomes a replica (``cluster-allow-replica-migration yes``), so a remaining master always keeps one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.plan import Move
from cluster_core.slots.slot_set import SlotSet

BATCHES_MAX = 16384


class Job(NamedTuple):
    """Slots from *source* to *target* in one job; *loads* are their sums."""

    source: str
    target: str
    slots: tuple[int, ...]
    loads: tuple[float, ...]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The slots as (first, last) pairs."""
        return SlotSet(self.slots).ranges()


class Batch(NamedTuple):
    """Jobs that run together; the next batch starts when all are done."""

    number: int
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """Room of a master during moves: *limits* by resource number, current loads and slots, whether it *stays*."""

    held: tuple[float, ...]
    limits: Mapping[int, float]
    slots: int
    stays: bool = True
    excess: float = 0.0
    """Excess over its fair limit; the largest gives away first."""

    @property
    def full(self) -> bool:
        """Return whether it starts above a limit; then it gives away first."""
        return any(self.held[r] > limit for r, limit in self.limits.items())


class Order(NamedTuple):
    """Moves in batches, and moves *left* because no target ever has room for both copies."""

    batches: list[Batch]
    left: list[Move]


@dataclass(frozen=True, slots=True)
class TimeModel:
    """Durations of moves, in seconds."""

    job_s: float
    slot_s: float
    bytes_per_s: float

    def seconds(self, job: Job, bytes_at: int) -> float:
        """Return the duration of one job in seconds; *bytes_at* is the index of bytes in the loads."""
        return self.job_s + len(job.slots) * self.slot_s + job.loads[bytes_at] / self.bytes_per_s


def order_moves(moves: Sequence[Move], rooms: Mapping[str, Room]) -> Order:
    """Return *moves* as batches; PlanError for a node missing in *rooms*.

    Masters above a limit go first, then those with the largest excess, then small jobs; jobs are cut at the available room.
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
    """Remove and return jobs from *pairs* that may run together."""
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
