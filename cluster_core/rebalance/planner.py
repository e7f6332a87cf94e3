"""Which slots should move: from a problem to a plan with its proof.

How this works.

1. `validate` puts the problem into whole units, `find_targets` says what every master may hold, with proven floors.
2. Nobody over a limit and nobody to drain: the plan is empty.  This is what makes a plan that was carried out quiet.
3. `certify` bounds, master by master, what has to leave, and names slots that would do: the first step of a plan.
4. They are placed where most room is (`starts`); where masters are empty, a second start cuts long runs off the ends instead.
5. `walks` improves each start (`search.anneal`, `search.mend`); the cheapest placement within all limits wins: bytes first, with a small
   weight for slots and ranges.
6. Sums and limits are computed again in whole numbers.  Where the search did not bring all masters within their limits, the planner
   plans again from where it came to until a round gains less than a twentieth: so that the result, planned again, stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from cluster_core.errors import PlanError
from cluster_core.rebalance.bound import Certificate, add_up, certify, needs
from cluster_core.rebalance.engine import PLAIN, Engine
from cluster_core.rebalance.plan import BALANCED, CLOSER, MOVE, TOO_SMALL, Move, Plan, Reach, count_ranges
from cluster_core.rebalance.problem import Number, Problem, Scaled, exact, validate
from cluster_core.rebalance.targets import Targets, find_targets
from cluster_core.rebalance.walk import Ground, improve

ROUNDS_MAX = 20
ROUND_GAIN_MIN = Fraction(1, 20)


def plan(problem: Problem, engine: Engine = PLAIN) -> Plan:
    """Return the plan for *problem*; the same problem and engine give the same plan.  PlanError for bad or impossible input."""
    scaled = validate(problem)
    targets = find_targets(scaled)
    certificates, evicted = _certify(scaled, targets, engine)
    owner = _settle(scaled, engine, certificates, evicted)
    if owner == scaled.owner:
        verdict = TOO_SMALL if excess(scaled, targets, owner) else BALANCED
    else:
        verdict = CLOSER if excess(scaled, targets, owner) else MOVE
    return describe(scaled, targets, certificates, owner, verdict)


def _settle(scaled: Scaled, engine: Engine, certificates: list[Certificate], evicted: list[int]) -> tuple[int, ...]:
    """Return owners that would be left alone: improve round by round, each as a plan for a cluster with these owners would."""
    gain_min = exact(scaled.problem.gain_min, "gain_min")
    now = scaled
    for number in range(ROUNDS_MAX):
        targets = find_targets(now)
        draining, worst = must_drain(now, now.owner), excess(now, targets, now.owner)
        if not draining and worst == 0:
            break
        if number:
            certificates, evicted = _certify(now, targets, engine)
        after = improve(Ground(now, targets, engine), now.owner, certificates, evicted)
        if not draining and worst - excess(now, targets, after) <= max(gain_min, worst * ROUND_GAIN_MIN):
            break
        now = replace(now, owner=tuple(after))
    return now.owner


def defragment(problem: Problem, engine: Engine = PLAIN, *, range_cost: Number = 4) -> Plan:
    """Return a plan that also joins ranges, paying up to *range_cost* mean slots' bytes for one range less."""
    scaled = validate(replace(problem, range_cost=range_cost))
    targets = find_targets(scaled)
    certificates, evicted = _certify(scaled, targets, engine)
    after = improve(Ground(scaled, targets, engine), scaled.owner, certificates, evicted, always=True)
    if excess(scaled, targets, after) > excess(scaled, targets, scaled.owner) or count_ranges(after) >= count_ranges(
        scaled.owner
    ):
        return plan(problem, engine)
    verdict = MOVE if excess(scaled, targets, after) == 0 else CLOSER
    return describe(scaled, targets, certificates, tuple(after), verdict)


def tolerance_table(
    problem: Problem, tolerances: Sequence[Number], engine: Engine = PLAIN
) -> list[tuple[Fraction, Plan]]:
    """Return one plan a tolerance: what a looser balance saves in bytes, slots and ranges."""
    return [(exact(t, "tolerance"), plan(replace(problem, tolerance=t), engine)) for t in tolerances]


def _certify(scaled: Scaled, targets: Targets, engine: Engine) -> tuple[list[Certificate], list[int]]:
    """Return a certificate for every master that must give something away, and slots with which that is done."""
    held: list[list[int]] = [[] for _ in scaled.masters]
    for s, n in enumerate(scaled.owner):
        held[n].append(s)
    certificates: list[Certificate] = []
    evicted: list[int] = []
    for n, slots in enumerate(held):
        if scaled.masters[n].excluded or not slots:
            continue
        if scaled.masters[n].drained:
            value = sum(scaled.loads[scaled.cost][s] for s in slots)
            certificates.append(Certificate(scaled.masters[n].id, "drained", value, ()))
            evicted += slots
            continue
        need = needs(scaled, targets, n, slots)
        if max(need) > 0:
            certificate, gone = certify(scaled, need, n, slots, engine)
            certificates.append(certificate)
            evicted += gone
    return certificates, evicted


def must_drain(scaled: Scaled, owner: Sequence[int]) -> bool:
    """Return whether a drained master holds slots."""
    return any(scaled.masters[n].drained for n in owner)


def excess(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> Fraction:
    """Return by how many fair shares the worst master is over a limit, or a zone over its share; 0 where none is."""
    worst = Fraction(0)
    sums = scaled.totals(owner)
    for n, row in enumerate(sums):
        if scaled.masters[n].excluded or scaled.masters[n].drained:
            continue
        for r, load in enumerate(row):
            if load > targets.caps[n][r]:
                worst = max(worst, (load - targets.caps[n][r]) / (targets.fair[n][r] or Fraction(1)))
    if targets.zone_share is not None:
        for r in range(len(scaled.resources)):
            total = sum(scaled.loads[r])
            zones: dict[str, int] = {}
            for n, row in enumerate(sums):
                zones[scaled.masters[n].zone] = zones.get(scaled.masters[n].zone, 0) + row[r]
            if total:
                worst = max(worst, Fraction(max(zones.values()), total) - targets.zone_share)
    return worst


def describe(
    scaled: Scaled, targets: Targets, certificates: Sequence[Certificate], owner: tuple[int, ...], verdict: str
) -> Plan:
    """Return the plan that leads from the problem's owners to *owner*, everything summed up in whole numbers."""
    names = [master.id for master in scaled.masters]
    given = [scaled.problem.loads[name] for name in scaled.resources]
    moves = tuple(
        Move(s, names[scaled.owner[s]], names[n], tuple(_given(load[s]) for load in given))
        for s, n in enumerate(owner)
        if n != scaled.owner[s]
    )
    before, after = ratios(scaled, targets, scaled.owner), ratios(scaled, targets, owner)
    reach = tuple(
        Reach(name, before[r], after[r], max(targets.relaxed[r], _heaviest(targets, r)), targets.floors[r].ratio,
              targets.relaxed[r] > 1 + scaled.tolerance[r] or any(h.resource == name for h in targets.heavy))
        for r, name in enumerate(scaled.resources)
    )  # fmt: skip
    hosts = len({h.slot for h in targets.heavy})
    return Plan(
        verdict,
        scaled.resources[scaled.cost],
        scaled.units[scaled.cost],
        moves,
        sum(scaled.loads[scaled.cost][move.slot] for move in moves),
        add_up(certificates, hosts),
        tuple(certificates),
        hosts,
        reach,
        targets.floors,
        targets.heavy,
        targets.zone_share,
        targets.zone_relaxed,
        count_ranges(scaled.owner),
        count_ranges(owner),
        tuple(names[n] for n in owner),
    )


def _heaviest(targets: Targets, r: int) -> Fraction:
    name = targets.floors[r].resource
    return max((h.ratio for h in targets.heavy if h.resource == name), default=Fraction(0))


def _given(value: Number) -> int | float:
    return value if isinstance(value, int | float) else float(value)


def ratios(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> list[Fraction]:
    """Return by resource the heaviest load of a master that stays over its fair share; 0 where there is no load."""
    worst = [Fraction(0)] * len(scaled.resources)
    for n, row in enumerate(scaled.totals(owner)):
        for r, load in enumerate(row):
            if targets.fair[n][r]:
                worst[r] = max(worst[r], load / targets.fair[n][r])
    return worst


def pieces_of_tag(load: Number, target: Number) -> int:
    """Return into how many tags a hash tag of *load* must be split so that each is at most *target*; PlanError for target 0."""
    whole, part = exact(load, "load of the tag"), exact(target, "target")
    if not part:
        raise PlanError("no tag fits a target of 0")
    return max(1, math.ceil(whole / part))
