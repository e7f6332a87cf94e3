"""Plans as plain values, and their moves in batches of jobs, one per pair of source and target.

A target needs room for all arriving slots, and a source keeps its slots, until the batch ends. No master gives and
takes in one batch: its new config epoch would revive its claim on a slot that it just gave away. A master without
slots becomes a replica (``cluster-allow-replica-migration yes``), so a remaining master always keeps one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.bounds import FREE, Prices
from cluster_core.rebalance.goal.targets import Floor, HeavySlot
from cluster_core.slots.slot_set import SlotSet

BATCHES_MAX = 16384


class PlanVerdict(StrEnum):
    """Result of planning (`gold/rebalance_plans.verdict`)."""

    BALANCED = "balanced"
    """Every master is within its limits: nothing moves."""
    TOO_SMALL = "gain too small"
    """Limits are missed, but the best placement found gains too little: nothing moves."""
    MOVE = "move"
    """The moves bring every master within its limits."""
    CLOSER = "move, not all limits reached"
    """The moves, if any, reduce the excess; no plan within all limits was found, and none may exist."""
    IMPOSSIBLE = "these limits cannot be met together"
    """Proven: no placement meets all limits; the moves, if any, suit the least relaxed limits."""


class ConflictKind(StrEnum):
    """Limits that contradict each other."""

    PINNED = "pinned slots"
    SLOT = "slots above every capacity"
    SMALL = "limits below the lightest slot"
    ZONES = "zones"
    CAPACITY = "capacities with pinned slots, drains and zones"
    TOGETHER = "limits together"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Contradicting limits of *resources*, on *nodes*, for *slots*, proven by *prices* if limits of several kinds are involved.

    They contradict up to the tolerance *least* (None: at any); *share* is the least zone share.
    """

    kind: ConflictKind
    resources: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    least: Fraction | None = None
    share: Fraction | None = None
    prices: Prices | None = None


class Move(NamedTuple):
    """One slot from *source* to *target*; *loads* in the order of the plan's resources, as given."""

    slot: int
    source: str
    target: str
    loads: tuple[int | float, ...]


class WorstLoad(NamedTuple):
    """One resource before and after: heaviest load over its fair share, limit, and proven floor."""

    resource: str
    before: Fraction
    after: Fraction
    limit: Fraction
    floor: Fraction
    relaxed: bool


class CurvePoint(NamedTuple):
    """Result of a *budget* above the bound (None: unlimited): *moved* cost in 1/unit, *ranges* and moved *slots*."""

    budget: Fraction | None
    moved: int
    ranges: int
    slots: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, figures and proof.

    *moved* and *bound* count the resource *cost* in 1/*unit*; *prices* prove the bound. It holds for placements within
    *tolerance* (per resource: as asked, or the least that *conflicts* allow); if the plan misses a limit, for placements
    without heavier masters. They have at least *ranges_bound* slot ranges. *budget*: share of the bound that may move above
    it; *curve*: results of other budgets. *held_back*: slots without room for both copies. *given_up*: soft goals missed.
    """

    verdict: PlanVerdict
    cost: str
    unit: int
    moves: tuple[Move, ...]
    moved: int
    bound: int
    reach: tuple[WorstLoad, ...]
    floors: tuple[Floor, ...]
    heavy: tuple[HeavySlot, ...]
    zone_share: Fraction | None
    zone_relaxed: bool
    ranges_before: int
    ranges_after: int
    owners_after: tuple[str, ...]
    prices: Prices = FREE
    conflicts: tuple[Conflict, ...] = ()
    tolerance: tuple[Fraction, ...] = ()
    held_back: tuple[int, ...] = ()
    ranges_bound: int = 1
    budget: Fraction = Fraction(0)
    curve: tuple[CurvePoint, ...] = ()
    given_up: tuple[str, ...] = ()

    @property
    def gap(self) -> Fraction | None:
        """Return the plan's excess over the bound, as a share of it; None if nothing has to move."""
        return Fraction(self.moved - self.bound, self.bound) if self.bound else None


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
class MasterRoom:
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


class MoveOrder(NamedTuple):
    """Moves in batches, and moves *left* because no target ever has room for both copies."""

    batches: list[Batch]
    left: list[Move]


def order_moves(moves: Sequence[Move], rooms: Mapping[str, MasterRoom]) -> MoveOrder:
    """Return *moves* as batches; PlanError for a node missing in *rooms*.

    Masters above a limit go first, then those with the largest excess, then small jobs; jobs are cut at the available room.
    """
    pairs: dict[tuple[str, str], list[Move]] = {}
    for move in moves:
        for node in (move.source, move.target):
            if node not in rooms:
                raise PlanError(f"slot {move.slot} moves between nodes that are not there: {node}")
        pairs.setdefault((move.source, move.target), []).append(move)
    held = {node: list(room.held) for node, room in rooms.items()}
    slots = {node: room.slots for node, room in rooms.items()}
    batches: list[Batch] = []
    while len(batches) < BATCHES_MAX and (jobs := _fill(pairs, rooms, held, slots)):
        batches.append(Batch(len(batches) + 1, tuple(jobs)))
        for source, target, taken, loads in jobs:
            for node, sign in ((source, -1), (target, 1)):
                held[node] = [at + sign * load for at, load in zip(held[node], loads, strict=True)]
                slots[node] += sign * len(taken)
    return MoveOrder(batches, [move for waiting in pairs.values() for move in waiting])


def _fill(
    pairs: dict[tuple[str, str], list[Move]], rooms: Mapping[str, MasterRoom], held: Mapping[str, Sequence[float]],
    slots: Mapping[str, int],
) -> list[Job]:  # fmt: skip
    """Remove and return jobs from *pairs* that may run together, for the loads *held* and the number of *slots* of masters."""
    busy: set[str] = set()
    jobs = []
    sizes = {pair: sum(move.loads[0] for move in waiting) for pair, waiting in pairs.items()}
    for pair in sorted(pairs, key=lambda p: (not rooms[p[0]].full, -rooms[p[0]].excess, sizes[p], p)):
        source, target = pair
        if source in busy or target in busy:
            continue
        loads: list[float] = [0] * len(held[target])
        taken: list[int] = []
        left: list[Move] = []
        for move in pairs[pair]:
            full = any(held[target][r] + loads[r] + move.loads[r] > most for r, most in rooms[target].limits.items())
            if full or (rooms[source].stays and slots[source] - len(taken) <= 1):
                left.append(move)
                continue
            taken.append(move.slot)
            loads = [sum_ + load for sum_, load in zip(loads, move.loads, strict=True)]
        if not taken:
            continue
        busy |= {source, target}
        jobs.append(Job(source, target, tuple(sorted(taken)), tuple(loads)))
        pairs[pair] = left
        if not left:
            del pairs[pair]
    return jobs
