"""Check a plan: bound, limits and sums in whole numbers and fractions, independent of the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from cluster_core.rebalance.bounds import count_ranges, is_valid, least_moved, least_ranges
from cluster_core.rebalance.goal.problem import Problem, ScaledProblem, validate, without_goals
from cluster_core.rebalance.goal.targets import Shares, Targets, above_capacity, find_targets, kept, ratios, rehost
from cluster_core.rebalance.plan import ConflictKind, Plan, PlanVerdict
from cluster_core.rebalance.search.conflicts import prove


def check_plan(problem: Problem, plan: Plan) -> list[str]:
    """Return the faults of *plan* for *problem*, one sentence each; PlanError for an invalid problem."""
    if set(plan.given_up) != set(problem.soft[len(problem.soft) - len(plan.given_up) :]):
        return ["a goal is given up that is not soft, or more important than one that is kept"]
    scaled = validate(without_goals(problem, plan.given_up))
    targets = find_targets(scaled)
    index = {master.id: n for n, master in enumerate(scaled.masters)}
    if wrong := _check_moves(scaled, plan, index) or _check_conflicts(scaled, plan):
        return wrong
    targets_after = {move.slot: index[move.target] for move in plan.moves}
    owner = tuple(targets_after.get(s, n) for s, n in enumerate(scaled.owner))
    limits = find_targets(replace(scaled, tolerance=plan.tolerance)) if plan.tolerance else targets
    bounded = kept(scaled, limits, owner)
    return [
        *_check_limits(scaled, targets, plan, owner),
        *_check_sums(scaled, targets, plan, owner),
        *_check_floors(scaled, targets, plan),
        *_check_bound(scaled, bounded, plan, owner),
        *_check_ranges(scaled, bounded, plan),
    ]


def _check_moves(scaled: ScaledProblem, plan: Plan, index: Mapping[str, int]) -> list[str]:
    wrong, seen = [], set()
    for move in plan.moves:
        if not 0 <= move.slot < len(scaled.owner) or move.source not in index or move.target not in index:
            wrong.append(f"slot {move.slot} from {move.source} to {move.target}: not in the problem")
            continue
        target = scaled.masters[index[move.target]]
        if move.slot in seen:
            wrong.append(f"slot {move.slot} moves twice")
        if scaled.masters[scaled.owner[move.slot]].id != move.source or move.source == move.target:
            wrong.append(f"slot {move.slot} is not {move.source}'s to give to {move.target}")
        if target.drained or target.excluded or move.slot in scaled.fixed:
            wrong.append(f"slot {move.slot} may not move to {move.target}")
        seen.add(move.slot)
    return wrong


def _check_limits(scaled: ScaledProblem, targets: Targets, plan: Plan, owner: tuple[int, ...]) -> list[str]:
    """Check that no slot moves into a master that ends above its capacity; if claimed, that all limits are kept."""
    sums, caps = scaled.totals(owner), rehost(scaled, targets, owner).caps
    over = {scaled.masters[n].id for n in above_capacity(scaled, sums)}
    wrong = [
        f"slot {m.slot} moves to {m.target}, which ends above its capacity" for m in plan.moves if m.target in over
    ]
    if plan.verdict not in (PlanVerdict.MOVE, PlanVerdict.BALANCED):
        return wrong
    for n, master in enumerate(scaled.masters):
        if master.drained:
            if n in owner:
                wrong.append(f"{master.id} is drained and keeps slots")
            continue
        if not master.excluded and n in scaled.owner and n not in owner:
            wrong.append(f"{master.id} would lose its last slot")
        for r, name in enumerate(scaled.resources):
            if not master.excluded and sums[n][r] > caps[n][r]:
                wrong.append(f"{master.id} holds {sums[n][r]} of {name}, over its limit of {caps[n][r]}")
    if targets.zone_share is not None:
        for r, name in enumerate(scaled.resources):
            total = sum(scaled.loads[r])
            for zone in dict.fromkeys(m.zone for m in scaled.masters):
                held = sum(sums[n][r] for n, m in enumerate(scaled.masters) if m.zone == zone)
                if held > targets.zone_share * total:
                    wrong.append(f"zone {zone} holds {held} of {name}, over its share")
    return wrong


def _check_sums(scaled: ScaledProblem, targets: Targets, plan: Plan, owner: tuple[int, ...]) -> list[str]:
    wrong = []
    moved = sum(scaled.loads[scaled.cost][move.slot] for move in plan.moves)
    if moved != plan.moved:
        wrong.append(f"the moves add up to {moved}, not {plan.moved}")
    if (count_ranges(scaled.owner), count_ranges(owner)) != (plan.ranges_before, plan.ranges_after):
        wrong.append("the slot ranges are counted wrong")
    if tuple(scaled.masters[n].id for n in owner) != plan.owners_after:
        wrong.append("the moves do not lead to the planned owners")
    for when, owners in (("before", scaled.owner), ("after", owner)):
        for reach, worst in zip(plan.reach, ratios(scaled, targets, owners), strict=True):
            if worst != (reach.before if when == "before" else reach.after):
                wrong.append(f"{reach.resource} {when}: the heaviest is {worst} of its share")
    return wrong


def _check_ranges(scaled: ScaledProblem, bounded: Targets, plan: Plan) -> list[str]:
    """Check the claimed number of ranges, and that no budget promises less than possible."""
    wrong = []
    if plan.ranges_bound > least_ranges(scaled, bounded):
        wrong.append(f"it is not proven that there are at least {plan.ranges_bound} slot ranges")
    if plan.ranges_bound > plan.ranges_after:
        wrong.append(f"there are {plan.ranges_after} slot ranges, and {plan.ranges_bound} are claimed as the minimum")
    if plan.curve and (plan.budget, plan.moved, plan.ranges_after, len(plan.moves)) not in plan.curve:
        wrong.append("the plan is missing from its own curve")
    for point in plan.curve:
        if point.moved < plan.bound or point.ranges < plan.ranges_bound:
            wrong.append(f"a budget of {point.budget} cannot give {point.ranges} ranges for {point.moved}")
    return wrong


def _check_floors(scaled: ScaledProblem, targets: Targets, plan: Plan) -> list[str]:
    """Check that the heaviest slots of each floor do not fit below it."""
    wrong = []
    takers = scaled.takers()
    for r, floor in enumerate(plan.floors):
        if not floor.count:
            continue
        loads = sorted((scaled.loads[r][s] for s in scaled.shared()), reverse=True)
        shares = [targets.fair[n][r] for n in takers if targets.fair[n][r]]
        sums = list(accumulate(loads, initial=0))
        if len(sums) <= floor.count or not shares or Shares(shares).least_ratio(sums, floor.count) < floor.ratio:
            wrong.append(f"the floor of {floor.resource} is not proven by its {floor.count} heaviest slots")
    return wrong


def _check_conflicts(scaled: ScaledProblem, plan: Plan) -> list[str]:
    """Check claimed contradictions; only contradicting limits justify a tolerance of its own."""
    wrong = [
        f"it is not proven that {contradiction.kind} cannot be kept"
        for contradiction in plan.conflicts
        if not prove(scaled, contradiction)
    ]
    if (plan.verdict == PlanVerdict.IMPOSSIBLE) != bool(plan.conflicts):
        wrong.append(
            f"the verdict is {plan.verdict}, with {len(plan.conflicts)} proofs that limits contradict each other"
        )
    given = plan.tolerance or scaled.tolerance
    together = any(contradiction.kind is ConflictKind.TOGETHER for contradiction in plan.conflicts)
    pairs = list(zip(given, scaled.tolerance, strict=False))
    fine = len(given) == len(scaled.tolerance) and (
        all(a <= b for a, b in pairs) or (together and all(a >= b for a, b in pairs))
    )
    if not fine:
        wrong.append("the plan was made for another tolerance than was asked for")
    return wrong


def _check_bound(scaled: ScaledProblem, targets: Targets, plan: Plan, owner: tuple[int, ...]) -> list[str]:
    """Check that the prices prove the bound, and that at most all data moves."""
    wrong = []
    if not is_valid(scaled, plan.prices):
        return ["a price is negative, or of a master or zone that takes no slots"]
    if least_moved(scaled, targets, plan.prices, set(owner)) != plan.bound:
        wrong.append(f"the prices do not prove that {plan.bound} moves")
    if not 0 <= plan.bound <= plan.moved <= sum(scaled.loads[scaled.cost]):
        wrong.append(
            f"at least {plan.bound} of {plan.moved} that move, of {sum(scaled.loads[scaled.cost])} in all, cannot be"
        )
    return wrong
