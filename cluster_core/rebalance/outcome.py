"""Convert a search result to a plan with exact sums: moves, bound and figures."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.conflict import Conflict
from cluster_core.rebalance.goal.limits import excess, keeps, kept, must_drain, overload
from cluster_core.rebalance.goal.problem import Number, Scaled
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.plan import CurvePoint, Move, Plan, PlanVerdict, WorstLoad, count_ranges
from cluster_core.rebalance.prices import FREE, Prices, least_moved, whole_prices
from cluster_core.rebalance.range_bound import least_ranges
from cluster_core.rebalance.search.arrays import Arrays
from cluster_core.rebalance.search.relaxation import Relaxation


class Outcome(NamedTuple):
    """A problem, its contradictions, the *raised* problem, and final owners with prices for its limits.

    *forgone*: a better placement was found but gains too little.
    """

    scaled: Scaled
    conflicts: tuple[Conflict, ...]
    raised: Scaled
    owner: tuple[int, ...]
    prices: Prices = FREE
    budget: Fraction | None = None
    curve: tuple[CurvePoint, ...] = ()
    forgone: bool = False


def conclude(outcome: Outcome) -> Plan:
    """Return the plan from the problem's owners to the final ones."""
    scaled, owner = outcome.scaled, outcome.owner
    targets = find_targets(scaled)
    bounded, prices, bound = prove(outcome)
    names = [master.id for master in scaled.masters]
    given = [scaled.problem.loads[name] for name in scaled.resources]
    moves = tuple(
        Move(s, names[scaled.owner[s]], names[n], tuple(_given(load[s]) for load in given))
        for s, n in enumerate(owner)
        if n != scaled.owner[s]
    )
    moved = sum(scaled.loads[scaled.cost][move.slot] for move in moves)
    if not 0 <= bound <= moved:
        raise PlanError(f"{moved} move and {bound} are proven to: a fault of the planner, no plan")
    return Plan(
        verdict=_verdict(outcome, targets),
        cost=scaled.resources[scaled.cost],
        unit=scaled.units[scaled.cost],
        moves=moves,
        moved=moved,
        bound=bound,
        reach=reach_of(scaled, targets, owner),
        floors=targets.floors,
        heavy=targets.heavy,
        zone_share=targets.zone_share,
        zone_relaxed=targets.zone_relaxed,
        ranges_before=count_ranges(scaled.owner),
        ranges_after=count_ranges(owner),
        owners_after=tuple(names[n] for n in owner),
        prices=prices,
        conflicts=outcome.conflicts,
        tolerance=outcome.raised.tolerance,
        ranges_bound=least_ranges(scaled, bounded),
        budget=scaled.budgets[0] if outcome.budget is None else outcome.budget,
        curve=outcome.curve,
    )


def prove(outcome: Outcome) -> tuple[Targets, Prices, int]:
    """Return the limits that the owners keep, their prices, and the proven bound on moved cost."""
    scaled, owner = outcome.scaled, outcome.owner
    limits = find_targets(outcome.raised)
    bounded, holding = kept(scaled, limits, owner), set(owner)
    prices = outcome.prices
    if not keeps(scaled, limits, owner):
        prices = whole_prices(scaled, Relaxation(Arrays(scaled, bounded)).staying, staying=True)
    bound = least_moved(scaled, bounded, prices, holding)
    return bounded, prices, bound


def _verdict(outcome: Outcome, targets: Targets) -> PlanVerdict:
    scaled, owner = outcome.scaled, outcome.owner
    stays = owner == scaled.owner
    if outcome.conflicts:
        return PlanVerdict.IMPOSSIBLE
    if must_drain(scaled, owner) or excess(scaled, targets, owner) or overload(scaled, targets, owner):
        return PlanVerdict.TOO_SMALL if outcome.forgone and stays else PlanVerdict.CLOSER
    return PlanVerdict.BALANCED if stays else PlanVerdict.MOVE


def reach_of(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> tuple[WorstLoad, ...]:
    """Return per resource the heaviest masters now and under *owner*."""
    before, after = ratios(scaled, targets, scaled.owner), ratios(scaled, targets, owner)
    return tuple(
        WorstLoad(name, before[r], after[r], max(targets.relaxed[r], _heaviest(targets, r)), targets.floors[r].ratio,
              targets.relaxed[r] > 1 + scaled.tolerance[r] or any(h.resource == name for h in targets.heavy))
        for r, name in enumerate(scaled.resources)
    )  # fmt: skip


def _heaviest(targets: Targets, r: int) -> Fraction:
    name = targets.floors[r].resource
    return max((h.ratio for h in targets.heavy if h.resource == name), default=Fraction(0))


def _given(value: Number) -> int | float:
    return value if isinstance(value, int | float) else float(value)


def ratios(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> list[Fraction]:
    """Return per resource the heaviest load of a remaining master over its fair share; 0 without load."""
    worst = [Fraction(0)] * len(scaled.resources)
    for n, row in enumerate(scaled.totals(owner)):
        for r, load in enumerate(row):
            if targets.fair[n][r]:
                worst[r] = max(worst[r], load / targets.fair[n][r])
    return worst
