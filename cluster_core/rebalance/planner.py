"""Make a plan with its proof from a problem.

1. `validate` scales the problem to whole units; `find_targets` sets limits. Contradicting limits are proven
   (`search.conflicts`) and relaxed to the least tolerance that may work.
2. Without an exceeded limit or a drain nothing moves.
3. `search.search.Search` finds owners within limits, first with headroom, then without.
4. `conclude` sums up in whole numbers, with the bound that prices prove.
5. If limits are missed, the planner joins slot ranges and repeats from the result until a round gains less than a
   fifth, so that planning again moves nothing. It drops soft goals that no plan meets or that cost many ranges.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction

from cluster_core.errors import PlanError
from cluster_core.rebalance.bounds import count_ranges, least_moved, least_ranges, whole_prices
from cluster_core.rebalance.goal.problem import (
    RANGES_A_MASTER,
    Number,
    Problem,
    ScaledProblem,
    exact,
    validate,
    without_goals,
)
from cluster_core.rebalance.goal.targets import (
    Targets,
    above_capacity,
    excess_by_resource,
    find_targets,
    keeps,
    kept,
    ratios,
)  # fmt: skip
from cluster_core.rebalance.plan import Conflict, ConflictKind, Move, Plan, PlanVerdict, WorstLoad
from cluster_core.rebalance.search.arrays import Arrays
from cluster_core.rebalance.search.conflicts import at_tolerance, find_conflicts
from cluster_core.rebalance.search.heavy import exceeds_limits
from cluster_core.rebalance.search.relaxation import Relaxation
from cluster_core.rebalance.search.search import SHREDDED, LimitDistance, Result, Search, badness

ROUNDS_MAX = 4
ROUND_GAIN_MIN = Fraction(1, 5)
JOINING_EFFORT = 0.25
"""Share of the usual search effort to join ranges of a plan that misses limits."""
SOFT_RANGES_A_MASTER = 3
"""Slot ranges per master that a soft goal may always cost; beyond, it may not double the ranges."""
SLACKS = (Fraction(1, 200), Fraction(1, 20))
"""Steps above the least tolerance, until a plan meets the limits."""


def make_plan(problem: Problem) -> Plan:
    """Return the plan for *problem*, deterministically; PlanError for bad or impossible input.

    Drops soft goals, the least important first, that no plan meets or that cost many slot ranges.
    """
    scaled, few = validate(problem), SOFT_RANGES_A_MASTER * len(problem.masters)
    if not problem.soft:
        return conclude(scaled, *_find(scaled))
    plan = None if exceeds_limits(scaled, find_targets(scaled)) else _try(scaled, is_soft=True)
    for first in range(len(problem.soft) - 1, -1, -1):
        if plan is not None and (plan.ranges_after <= few or not plan.moves):
            return plan
        goals = tuple(problem.soft[first:])
        other = _try(validate(without_goals(problem, goals)), is_soft=first > 0)
        if other is None or other.verdict is PlanVerdict.TOO_SMALL:
            continue
        if plan is None or _saves_ranges(plan, other, goals, len(problem.masters)):
            plan = _as_asked(problem, replace(other, given_up=goals))
    return plan if plan is not None and plan.given_up else conclude(scaled, *_find(scaled))


def _try(scaled: ScaledProblem, *, is_soft: bool) -> Plan | None:
    """Return a plan that meets the limits, or None; with soft goals the search is short."""
    plan = conclude(scaled, *_find(scaled, is_short=is_soft))
    return None if plan.verdict in (PlanVerdict.CLOSER, PlanVerdict.IMPOSSIBLE) else plan


def _saves_ranges(plan: Plan, other: Plan, goals: Collection[str], masters: int) -> bool:
    """Return whether *other*, without the soft *goals*, has less than half the ranges.

    Unless ranges are many, it must not worsen these resources.
    """
    limits = {reach.resource: max(reach.before, reach.limit) for reach in plan.reach}
    is_worse = any(reach.after > limits[reach.resource] for reach in other.reach if reach.resource in goals)
    is_dear = plan.ranges_after > SHREDDED * masters
    return (is_dear or not is_worse) and 2 * other.ranges_after + masters < plan.ranges_after


def _as_asked(problem: Problem, plan: Plan) -> Plan:
    """Return *plan* with the original limits of dropped goals."""
    asked = find_targets(validate(problem)).relaxed
    reaches = tuple(
        reach._replace(limit=most) if reach.resource in plan.given_up else reach
        for reach, most in zip(plan.reach, asked, strict=True)
    )
    return replace(plan, reach=reaches)


def _find(scaled: ScaledProblem, *, is_short: bool = False) -> tuple[tuple[Conflict, ...], Result]:
    """Return the contradictions in *scaled* and the best owners found, with relaxed limits if they are proven impossible."""
    conflicts = find_conflicts(scaled)
    now, first = scaled, None
    unmoved = Result(_aims(scaled, conflicts)[-1], scaled.owner)
    for _ in range(ROUNDS_MAX):
        asked = _aims(now, conflicts)[-1]
        if not any(badness(asked, find_targets(asked), now.owner)):
            break
        result = _round(now, conflicts, is_short)
        gain = _gain(result.aim if conflicts else now, result.owner)
        if not gain:
            unmoved = unmoved._replace(forgone=gain is False)
            break
        first = result if first is None else result._replace(prices=first.prices, curve=())
        if keeps(result.aim, find_targets(result.aim), result.owner):
            break
        owner = _joined(replace(result.aim, owner=scaled.owner), result.owner)
        first = first if owner == result.owner else first._replace(owner=owner, curve=())
        now = replace(now, owner=owner)
    return conflicts, unmoved if first is None else first


def _joined(scaled: ScaledProblem, owner: tuple[int, ...]) -> tuple[int, ...]:
    """Return *owner*, which misses limits, with fewer slot ranges and no greater excess, or one not worth a plan."""
    if count_ranges(owner) <= RANGES_A_MASTER * len(scaled.masters):
        return owner
    targets, least = find_targets(scaled), exact(scaled.problem.gain_min, "gain_min")
    over = [
        max(most, least) if most else most for most in excess_by_resource(scaled, targets, owner, scaled.totals(owner))
    ]
    tolerance = tuple(most - 1 + more for most, more in zip(targets.relaxed, over, strict=True))
    search = Search(replace(scaled, tolerance=tolerance), JOINING_EFFORT)
    return search.joined(owner) or owner


def _aims(scaled: ScaledProblem, conflicts: Sequence[Conflict]) -> list[ScaledProblem]:
    """Return problems to try in order: with and without headroom, or with tolerances above a proven impossible one."""
    least = next((c.least for c in conflicts if c.kind is ConflictKind.TOGETHER), None)
    if least is not None:
        return [at_tolerance(scaled, least + slack) for slack in SLACKS]
    part = 1 - exact(scaled.problem.headroom, "headroom")
    return [scaled] if part == 1 else [replace(scaled, tolerance=tuple(own * part for own in scaled.tolerance)), scaled]


def _round(scaled: ScaledProblem, conflicts: tuple[Conflict, ...], is_short: bool) -> Result:
    """Search each aim until limits are met; return the best result."""
    tried: list[tuple[LimitDistance, int, Result]] = []
    asked = find_targets(scaled)
    known: Sequence[int] | None = None
    for aim in _aims(scaled, conflicts):
        search = Search(aim)
        result = search.run(known, is_short=is_short)
        owner = _turned_back(aim, result.owner)
        result = result if owner == result.owner else result._replace(owner=owner, curve=())
        if not any(badness(aim, search.targets, owner)):
            return result
        tried.append((badness(scaled, asked, owner), len(tried), result))
        known = owner if known is None else known
    return min(tried)[2]


def _turned_back(scaled: ScaledProblem, owner: tuple[int, ...]) -> tuple[int, ...]:
    """Return *owner* without moves into masters above their capacity."""
    at = list(owner)
    over = above_capacity(scaled, scaled.totals(at))
    while moved := [s for s, n in enumerate(at) if n in over and scaled.owner[s] != n]:
        for s in moved:
            at[s] = scaled.owner[s]
        over = above_capacity(scaled, scaled.totals(at))
    return tuple(at)


def _gain(asked: ScaledProblem, owner: tuple[int, ...]) -> bool | None:
    """Return whether *owner* is worth its moves: False if it gains too little, None if it gains nothing."""
    limits = find_targets(asked)
    before, after = (badness(asked, limits, at) for at in (asked.owner, owner))
    if after.loses_last or after[:3] > before[:3] or (after.keeps_drained and owner == asked.owner):
        return None
    gain = before.above_limits - after.above_limits
    gain_min = exact(asked.problem.gain_min, "gain_min")
    if after[:3] < before[:3] or gain > max(gain_min, before.above_limits * ROUND_GAIN_MIN):
        return True
    return False if gain > 0 else None


def hold_back(problem: Problem, plan: Plan, slots: Collection[int]) -> Plan:
    """Return *plan* without the moves of *slots*, which never have room for both copies, with new figures."""
    scaled = validate(without_goals(problem, plan.given_up))
    raised = replace(scaled, tolerance=plan.tolerance or scaled.tolerance)
    places = scaled.places(plan.owners_after)
    after = tuple(scaled.owner[s] if s in slots else n for s, n in enumerate(places))
    held = conclude(scaled, plan.conflicts, Result(raised, after, plan.prices))
    held = replace(held, held_back=tuple(sorted({*plan.held_back, *slots})), given_up=plan.given_up)
    return _as_asked(problem, held) if plan.given_up else held


def defragment(problem: Problem) -> Plan:
    """Return the plan with the fewest slot ranges, at any cost, that keeps limits or the heaviest loads."""
    scaled = validate(problem)
    conflicts, result = _find(scaled)
    if result.owner == scaled.owner and not conflicts:
        worst = ratios(scaled, find_targets(scaled), scaled.owner)
        tolerance = tuple(min(own, max(w - 1, Fraction(0))) for own, w in zip(scaled.tolerance, worst, strict=True))
        result = result._replace(aim=replace(scaled, tolerance=tolerance))
    search = Search(result.aim)
    joined = search.unbounded()
    if joined is None or count_ranges(joined) >= count_ranges(scaled.owner):
        return make_plan(problem)
    return conclude(scaled, conflicts, result._replace(owner=joined, prices=search.prices, curve=()))


def pieces_of_tag(load: Number, target: Number) -> int:
    """Return the number of tags to split a hash tag of *load* into, each at most *target*; PlanError for target 0."""
    whole, part = exact(load, "load of the tag"), exact(target, "target")
    if not part:
        raise PlanError("no tag fits a target of 0")
    return max(1, math.ceil(whole / part))


def conclude(scaled: ScaledProblem, conflicts: tuple[Conflict, ...], result: Result) -> Plan:
    """Return the plan from the problem's owners to those of *result*."""
    owner, prices = result.owner, result.prices
    targets, limits = find_targets(scaled), find_targets(result.aim)
    bounded = kept(scaled, limits, owner)
    if not keeps(scaled, limits, owner):
        prices = whole_prices(scaled, Relaxation(Arrays(scaled, bounded)).staying, staying=True)
    bound = least_moved(scaled, bounded, prices, set(owner))
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
        verdict=_verdict(scaled, conflicts, result),
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
        conflicts=conflicts,
        tolerance=result.aim.tolerance,
        ranges_bound=least_ranges(scaled, bounded),
        budget=scaled.budgets[0] if result.budget is None else result.budget,
        curve=result.curve,
    )


def _verdict(scaled: ScaledProblem, conflicts: Sequence[Conflict], result: Result) -> PlanVerdict:
    stays = result.owner == scaled.owner
    if conflicts:
        return PlanVerdict.IMPOSSIBLE
    if any(badness(scaled, find_targets(scaled), result.owner)):
        return PlanVerdict.TOO_SMALL if result.forgone and stays else PlanVerdict.CLOSER
    return PlanVerdict.BALANCED if stays else PlanVerdict.MOVE


def reach_of(scaled: ScaledProblem, targets: Targets, owner: Sequence[int]) -> tuple[WorstLoad, ...]:
    """Return per resource the heaviest masters now and under *owner*."""
    before, after = ratios(scaled, targets, scaled.owner), ratios(scaled, targets, owner)
    reaches = []
    for r, name in enumerate(scaled.resources):
        relaxed, heavy = targets.relaxed[r], [h.ratio for h in targets.heavy if h.resource == name]
        is_relaxed = bool(heavy) or relaxed > 1 + scaled.tolerance[r]
        limit, floor = max([relaxed, *heavy]), targets.floors[r].ratio
        reaches.append(WorstLoad(name, before[r], after[r], limit, floor, is_relaxed))
    return tuple(reaches)


def _given(value: Number) -> int | float:
    return value if isinstance(value, int | float) else float(value)
