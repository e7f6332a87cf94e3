"""Which slots should move: from a problem to a plan with its proof.

How this works.

1. `validate` puts the problem into whole units, `find_targets` says what every master may hold, with proven floors.
   `find_conflicts` proves which limits cannot be kept together; then the planner goes on with the least tolerance that may work.
2. Nobody over a limit and nobody to drain: the plan is empty.  This is what makes a plan that was carried out quiet.
3. `certify` bounds, master by master, what has to leave, and names slots that would do.  Where masters have many slots, `Branching`
   (few masters) or `Holdings` decide where the heavy ones go, and prove a bound for all masters together.
4. `improve` tries placements (`completion`, `starts`, `walk`); the best within all limits wins: bytes first, as far as they are above
   the bound by more than a slack, then few slots and ranges.  `keep_capacities` mends what is still above a capacity.
5. `RangeBudget` spends what may move above the bound on fewer slot ranges: whole windows of slots instead of single ones.
6. Sums and limits are computed again in whole numbers.  Where the search did not bring all masters within their limits, the planner
   plans again from where it came to until a round gains less than a fifth: so that the result, planned again, stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from cluster_core.errors import PlanError
from cluster_core.rebalance.bound.certificates import add_up
from cluster_core.rebalance.bound.conflict import Conflict, ConflictKind, at_tolerance
from cluster_core.rebalance.bound.dive import SLOTS_MAX
from cluster_core.rebalance.goal.capacity import keep_capacities
from cluster_core.rebalance.goal.limits import excess, keeps, kept, must_drain, overload
from cluster_core.rebalance.goal.problem import Number, Problem, Scaled, exact, validate
from cluster_core.rebalance.goal.targets import Targets, find_targets, rehost
from cluster_core.rebalance.outcome import Outcome, Proposal, certify_masters, conclude, hosts_max, prove, ratios
from cluster_core.rebalance.plan import Plan, count_ranges
from cluster_core.rebalance.range_budget import RangeBudget
from cluster_core.rebalance.search.account import Account, never
from cluster_core.rebalance.search.arrays import MANY, ProblemArrays
from cluster_core.rebalance.search.branching import WORK_MAX as BRANCHING_WORK
from cluster_core.rebalance.search.branching import Branching, is_few
from cluster_core.rebalance.search.conflicts import at_odds, find_conflicts
from cluster_core.rebalance.search.dice import CHUNK
from cluster_core.rebalance.search.fees import FeeSearch
from cluster_core.rebalance.search.holdings import Holdings
from cluster_core.rebalance.search.improvement import improve, usual_steps
from cluster_core.rebalance.search.layout import Layout

ROUNDS_MAX = 6
ROUND_GAIN_MIN = Fraction(1, 5)
SLACKS = (Fraction(1, 200), Fraction(1, 20))
"""By how much more than the least tolerance limits are raised, until a plan keeps them: slots are whole."""
WORK_MAX = 11e9
"""Work of all searches of a plan together; see `Account`."""
CONFLICTS_PART, LEAST_PART, RANGES_PART, RANGES_RESERVE = 0.42, 0.75, 0.4, 0.33
"""Most parts of it for what contradicts itself, for the placement that moves least, and for fewer slot ranges, and what is kept for these.
Where that placement misses limits, it is looked for once more from what has fewer ranges, to see that this stays."""
FEES_FROM = 40
"""Limits from which on fees may prove more than cases solved by ways."""
WORK_OF_STEP = 120
"""Work of the branching that one iteration of a problem allows."""


def plan(problem: Problem, stop: Callable[[], bool] = never) -> Plan:
    """Return the plan for *problem*; the same problem gives the same plan.  PlanError for bad or impossible input.

    *stop* is asked now and then whether to end with the best so far; then the plan depends on when.
    """
    account = Account(WORK_MAX, stop)
    return conclude(_with_few_ranges(_find_owners(problem, account), account))


def _find_owners(
    problem: Problem, account: Account, start: Sequence[int] | None = None, known: Sequence[Conflict] = ()
) -> Outcome:
    """Return the best owners found for limits that are not proven to contradict each other, from *start* on (None: from nothing known).

    *known* is what contradicts itself with tolerances that are no looser.
    """
    scaled = validate(problem)
    before = account.left
    conflicts = find_conflicts(scaled, find_targets(scaled), known, account.part(CONFLICTS_PART))
    if conflicts and math.isfinite(before):  # what is planned then has other limits, and as much work as any
        account.spend(account.left - before)
    return _search(scaled, conflicts, account, start, RANGES_RESERVE)


def _search(
    scaled: Scaled,
    conflicts: tuple[Conflict, ...],
    account: Account,
    start: Sequence[int] | None = None,
    reserve: float = 0.0,
) -> Outcome:
    """Return the best owners found, with one part of the work for all proposals; the share in *reserve* is for what comes after."""
    account = account.part(LEAST_PART, reserve)
    least, efforts = _least(conflicts), _efforts(scaled)
    aims = _aims(scaled, account) if least is None else [at_tolerance(scaled, least + slack) for slack in SLACKS]
    limits = find_targets(scaled)
    found: list[tuple[Number, int, Outcome]] = []
    for aim in aims:
        asked = scaled if least is None else aim
        outcome = Outcome(scaled, conflicts, aim, *_rounds(asked, aim, efforts, account, start))
        found.append((overload(scaled, limits, outcome.owner), len(found), outcome))
        if excess(asked, find_targets(asked), outcome.owner) == 0:
            return outcome
    return min(found)[2]


def _efforts(scaled: Scaled) -> Iterator[int]:
    """Yield the iterations of one proposal after the other: as many as the problem has, then half of those before each time."""
    yield scaled.problem.iterations
    steps = scaled.problem.iterations or _usual(scaled.problem)
    while True:
        steps = max(CHUNK, steps // 2)
        yield steps


def _usual(problem: Problem) -> int:
    takers = sum(1 for m in problem.masters if not m.drained and not m.excluded)
    return usual_steps(len(problem.owners) / max(takers, 1), growing=False)


def _least(conflicts: Sequence[Conflict]) -> Fraction | None:
    """Return the least tolerance that is not proven impossible; None where that asked is not."""
    return next((c.least for c in conflicts if c.kind is ConflictKind.TOGETHER), None)


def _aims(scaled: Scaled, account: Account) -> list[Scaled]:
    """Return the problem with its headroom taken off the tolerance, where that is not proven impossible, and as it is."""
    part = 1 - exact(scaled.problem.headroom, "headroom")
    tight = replace(scaled, tolerance=tuple(own * part for own in scaled.tolerance))
    if part == 1 or at_odds(tight, account):
        return [scaled]
    return [tight, scaled]


def _rounds(
    scaled: Scaled, aim: Scaled, efforts: Iterator[int], account: Account, start: Sequence[int] | None = None
) -> tuple[Proposal | None, tuple[int, ...], bool]:
    """Return the first round, owners found round by round, each as the plan for a cluster with these owners would, and if some were forgone.

    The limits of *scaled* say whether anything is to be done, those of *aim* what is aimed at; the first round may begin at *start*.
    """
    now = scaled
    gain_min = exact(scaled.problem.gain_min, "gain_min")
    first: Proposal | None = None
    forgone = False
    for _ in range(ROUNDS_MAX):
        limits = find_targets(now)
        worst, over = excess(now, limits, now.owner), overload(now, limits, now.owner)
        if not must_drain(now, now.owner) and worst == over == 0:
            break
        aimed = replace(now, tolerance=aim.tolerance, problem=replace(now.problem, iterations=next(efforts)))
        targets = find_targets(aimed)
        proposal = _propose(aimed, targets, account, None if first else start)
        proposal = proposal._replace(
            after=keep_capacities(aimed, rehost(aimed, targets, proposal.after), proposal.after)
        )
        first = first or proposal
        gain, relief = worst - excess(now, limits, proposal.after), over - overload(now, limits, proposal.after)
        drains = must_drain(now, now.owner) and not must_drain(now, proposal.after)
        if relief < 0 or not (drains or relief or gain > max(gain_min, worst * ROUND_GAIN_MIN)):
            forgone = gain > 0 and not over
            break
        now = replace(now, owner=tuple(proposal.after))
        if account.is_over():
            break
    return first, now.owner, forgone


def _with_few_ranges(found: Outcome, account: Account, *, quick: bool = False) -> Outcome:
    """Return what was found with the budget of bytes spent on fewer slot ranges, where a plan after that would move nothing either; else what plans after it lead to."""
    if found.owner == found.scaled.owner:
        return found
    asked = find_targets(found.scaled)
    over = bool(excess(found.scaled, asked, found.owner) or overload(found.scaled, asked, found.owner))
    aim, limits = found.raised, find_targets(found.raised)
    targets = kept(aim, limits, found.owner)
    part = account.part(RANGES_PART, 0.0 if keeps(aim, limits, found.owner) else LEAST_PART)
    spent = RangeBudget(aim, targets, found.owner, prove(found).bound, part).spend(quick=quick)
    again = _again(found, spent.owner, account) if over and not account.is_over() else spent.owner
    if again != spent.owner:
        return found._replace(owner=_at_rest(found, again if spent.owner == found.owner else found.owner, account))
    return found._replace(owner=spent.owner, curve=spent.curve)


def _again(found: Outcome, owner: tuple[int, ...], account: Account) -> tuple[int, ...]:
    """Return what the owners become when they are planned again from *owner*, that of a plan that misses limits."""
    return _search(replace(found.scaled, owner=owner), found.conflicts, account).owner


def _at_rest(found: Outcome, owner: tuple[int, ...], account: Account) -> tuple[int, ...]:
    """Return the owners that plan after plan leads to from *owner*, as far as there is work left to tell."""
    for _ in range(ROUNDS_MAX):
        before, owner = owner, _again(found, owner, account)
        if owner == before or account.is_over():
            break
    return owner


def hold_back(problem: Problem, plan: Plan, slots: Collection[int]) -> Plan:
    """Return *plan* without the moves of *slots*, for which no master has room while both copies exist; all its claims anew."""
    scaled = validate(problem)
    raised = replace(scaled, tolerance=plan.tolerance or scaled.tolerance)
    places = scaled.places(plan.owners_after)
    after = tuple(scaled.owner[s] if s in slots else n for s, n in enumerate(places))
    said = conclude(Outcome(scaled, plan.conflicts, raised, None, after))
    return replace(said, held_back=tuple(sorted({*plan.held_back, *slots})))


def _propose(now: Scaled, targets: Targets, account: Account, start: Sequence[int] | None = None) -> Proposal:
    """Return what is proven for a cluster and the best placement found, by nothing but what the cluster is now, and *start* where one is given."""
    certificates, evicted = certify_masters(now, targets, account=account)
    least = add_up(certificates, hosts_max(targets))
    heavy, joint, fees = None, None, None
    leaving = dict.fromkeys(evicted, -1)
    arrays = ProblemArrays(now, targets, least, account)
    many_slots = arrays.per_master > MANY and len(arrays.takers) > 1
    few = many_slots and is_few(arrays)
    fees_may_help = not many_slots or (few and len(arrays.takers) * arrays.size > FEES_FROM)
    if arrays.per_master > SLOTS_MAX and len(arrays.takers) > 1 and fees_may_help:
        search = FeeSearch(now, targets, account)
        if search.proof is not None:
            leaving = search.leaving()
            fees = search.proof if search.proof.value > least else None
            least = max(least, search.proof.value)
    if many_slots:
        layout = Layout(arrays)
        work = now.problem.iterations * WORK_OF_STEP
        work = min(max(work, BRANCHING_WORK // 22), BRANCHING_WORK) if work else BRANCHING_WORK
        heavy = Branching(layout, work) if few else Holdings(layout)
        joint = heavy.proof()
        joint = joint if joint and joint.value > least else None
        least, fees = (joint.value, None) if joint else (least, fees)
        better = heavy.fees() if isinstance(heavy, Holdings) else None
        if better and better.value > least:
            least, joint, fees = better.value, None, better
        at = list(now.owner)
        for s, n in heavy.decided().items():
            at[layout.slots[s]] = arrays.takers[n]
        targets = rehost(now, targets, at)
    arrays = ProblemArrays(now, targets, least, account)
    return Proposal(certificates, joint, fees, improve(arrays, now.owner, certificates, leaving, heavy, start))


def defragment(problem: Problem, stop: Callable[[], bool] = never) -> Plan:
    """Return the plan of fewest slot ranges, whatever moves, in which no heaviest master is heavier than before, or than it may be."""
    account = Account(WORK_MAX, stop)
    found = _find_owners(problem, account)
    scaled = found.scaled
    asked = find_targets(scaled)
    if found.owner == scaled.owner and not excess(scaled, asked, scaled.owner):
        worst = ratios(scaled, asked, scaled.owner)
        tolerance = tuple(min(own, max(w - 1, Fraction(0))) for own, w in zip(scaled.tolerance, worst, strict=True))
        found = found._replace(raised=replace(scaled, tolerance=tolerance))
    targets = kept(found.raised, find_targets(found.raised), found.owner)
    budget = RangeBudget(found.raised, targets, found.owner, prove(found).bound, account)
    joined = budget.unbound()
    if count_ranges(joined) >= count_ranges(scaled.owner):
        return plan(problem, stop)
    return conclude(found._replace(owner=joined))


def tolerance_table(
    problem: Problem, tolerances: Sequence[Number], *, effort: Number = 1, known: Plan | None = None,
    stop: Callable[[], bool] = never,
) -> list[tuple[Fraction, Plan]]:  # fmt: skip
    """Return one plan a tolerance, as given: what a looser balance saves in bytes, slots and ranges.

    *effort* is the part of the usual search that each gets; each begins with the owners of the one next to it, the first with those of the
    *known* plan, that for the problem's own tolerance.  No tolerance costs more than a tighter one: its plan would do as well.
    """
    exact(effort, "effort")
    if not problem.iterations and effort != 1:
        problem = replace(problem, iterations=max(CHUNK, int(_usual(problem) * effort)))
    wanted = sorted({exact(t, "tolerance") for t in tolerances})
    scaled = validate(problem)
    asked = max(scaled.tolerance) if known is not None else Fraction(0)
    first = scaled.places(known.owners_after) if known is not None else None
    conflicts = known.conflicts if known is not None else ()
    found: dict[Fraction, Outcome] = {}
    for some in ([t for t in wanted if t >= asked], [t for t in wanted[::-1] if t < asked]):
        start: Sequence[int] | None = first
        for tolerance in some:
            each = replace(problem, tolerance=tolerance)
            account = Account(WORK_MAX * exact(effort, "effort"), stop)
            found[tolerance] = _with_few_ranges(_find_owners(each, account, start, conflicts), account, quick=True)
            start = found[tolerance].owner
    for tight, loose in pairwise(wanted):
        if _moved(found[tight]) < _moved(found[loose]):
            targets = find_targets(found[loose].scaled)
            if not excess(found[loose].scaled, targets, found[tight].owner):
                found[loose] = found[loose]._replace(owner=found[tight].owner)
    return [(exact(t, "tolerance"), conclude(found[exact(t, "tolerance")])) for t in tolerances]


def _moved(found: Outcome) -> int:
    load, owner = found.scaled.loads[found.scaled.cost], found.scaled.owner
    return sum(load[s] for s, n in enumerate(found.owner) if owner[s] != n)


def pieces_of_tag(load: Number, target: Number) -> int:
    """Return into how many tags a hash tag of *load* must be split so that each is at most *target*; PlanError for target 0."""
    whole, part = exact(load, "load of the tag"), exact(target, "target")
    if not part:
        raise PlanError("no tag fits a target of 0")
    return max(1, math.ceil(whole / part))
