"""A plan as plain values, and as JSON that is the same byte for byte whenever the plan is the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from cluster_core.rebalance.conflict import Conflict
from cluster_core.rebalance.goal.targets import Floor, HeavySlot
from cluster_core.rebalance.prices import FREE, Prices


class PlanVerdict(StrEnum):
    """What a plan comes to (`gold/rebalance_plans.verdict`)."""

    BALANCED = "balanced"
    """Every master is within its limits: nothing moves."""
    TOO_SMALL = "gain too small"
    """Limits are broken, and a placement was found that is better, but by less than it is worth to move slots for: nothing moves."""
    MOVE = "move"
    """The moves bring every master within its limits."""
    CLOSER = "move, not all limits reached"
    """The moves, if any, bring masters closer to their limits, which no plan was found to keep; whether one exists is unknown."""
    IMPOSSIBLE = "these limits cannot be met together"
    """It is proven that no placement keeps all limits; the moves, if any, are the best found under the least that gives way."""


class Move(NamedTuple):
    """One slot from *source* to *target*; *loads* in the order of the plan's resources, as given."""

    slot: int
    source: str
    target: str
    loads: tuple[int | float, ...]


class WorstLoad(NamedTuple):
    """One resource before and after: the heaviest load over its fair share, the limit, and the proven floor."""

    resource: str
    before: Fraction
    after: Fraction
    limit: Fraction
    floor: Fraction
    relaxed: bool


class CurvePoint(NamedTuple):
    """What a *budget* above the bound (None: none at all) would give: *moved* of the cost, in 1/unit, *ranges* and *slots* that move."""

    budget: Fraction | None
    moved: int
    ranges: int
    slots: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, what it brings, and the proof.

    *moved* and *bound* count the resource *cost* in 1/*unit*; *prices* prove the bound.  It is about placements that keep the limits of
    *tolerance* (one a resource: what was asked, or the least that *conflicts* leave); where the plan misses one, about those that leave no
    master more than the plan does.  So it is never above what moves.  No placement within these limits has less than *ranges_bound* slot
    ranges; *curve* is what other budgets would give than *budget*, the share of the bound that may move above it.  *held_back* are slots that
    would move if a master had room for both copies, *given_up* soft goals that no plan was found to keep.
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
        """How far above the bound the plan is, as a share of the bound; None where nothing has to move."""
        return Fraction(self.moved - self.bound, self.bound) if self.bound else None


def count_ranges(owner: Sequence[object]) -> int:
    """Return how many runs of slots with one owner there are."""
    return int(len(owner) > 0) + sum(a != b for a, b in pairwise(owner))


def slot_ranges(slots: Iterable[int]) -> list[tuple[int, int]]:
    """Return *slots* as (first, last) pairs in order."""
    ranges: list[tuple[int, int]] = []
    for slot in sorted(slots):
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return ranges
