"""Plans as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from cluster_core.rebalance.bounds import FREE, Prices
from cluster_core.rebalance.conflict import Conflict
from cluster_core.rebalance.goal.targets import Floor, HeavySlot


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
