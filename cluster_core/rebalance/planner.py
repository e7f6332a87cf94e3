"""Which slots should move: from a problem to a plan with its proof.

How this works.

1. `validate` puts the problem into whole units, `find_targets` says what every master may hold, with proven floors.
2. Nobody over a limit and nobody to drain: the plan is empty.  This is what makes a plan that was carried out quiet.
3. `certify` bounds, master by master, what has to leave, and names slots that would do.  Where masters have many slots, `Branching`
   decides where the heavy ones go, and proves a bound for all masters together.
4. `improve` tries placements (`completion`, `starts`, `walk`); the best within all limits wins: bytes first, as far as they are above
   the bound by more than a slack, then few slots and ranges.
5. Sums and limits are computed again in whole numbers.  Where the search did not bring all masters within their limits, the planner
   plans again from where it came to until a round gains less than a twentieth: so that the result, planned again, stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.bound import Certificate, add_up, certify, needs
from cluster_core.rebalance.branching import WORK_MAX, Branching
from cluster_core.rebalance.engine import PLAIN, Engine
from cluster_core.rebalance.ground import MANY, Ground
from cluster_core.rebalance.improvement import improve, join, usual_steps
from cluster_core.rebalance.joint import Joint
from cluster_core.rebalance.plan import BALANCED, CLOSER, MOVE, TOO_SMALL, Move, Plan, Reach, count_ranges
from cluster_core.rebalance.problem import Number, Problem, Scaled, exact, validate
from cluster_core.rebalance.program import Layout
from cluster_core.rebalance.search import CHUNK
from cluster_core.rebalance.targets import Targets, find_targets

ROUNDS_MAX = 20
ROUND_GAIN_MIN = Fraction(1, 20)
WORK_OF_STEP = 30
"""Work of the branching that one iteration of a problem allows."""


class Round(NamedTuple):
    """What a cluster with these owners is told: the proofs, and where its slots would go."""

    certificates: list[Certificate]
    joint: Joint | None
    after: Sequence[int]


def plan(problem: Problem, engine: Engine = PLAIN) -> Plan:
    """Return the plan for *problem*; the same problem and engine give the same plan.  PlanError for bad or impossible input."""
    return _say(_find(problem, engine))


class Found(NamedTuple):
    """A problem, the proofs for it (None where nothing is over), and owners that would be left alone."""

    scaled: Scaled
    targets: Targets
    proofs: Round | None
    owner: tuple[int, ...]


def _find(problem: Problem, engine: Engine) -> Found:
    """Return owners found round by round, each as the plan for a cluster with these owners would."""
    scaled = now = validate(problem)
    gain_min = exact(problem.gain_min, "gain_min")
    first: Round | None = None
    for _ in range(ROUNDS_MAX):
        limits = find_targets(now)
        draining, worst = must_drain(now, now.owner), excess(now, limits, now.owner)
        if not draining and worst == 0:
            break
        turn = _turn(now, limits, engine)
        first = first or turn
        if not draining and worst - excess(now, limits, turn.after) <= max(gain_min, worst * ROUND_GAIN_MIN):
            break
        now = replace(now, owner=tuple(turn.after))
    return Found(scaled, find_targets(scaled), first, now.owner)


def _say(found: Found) -> Plan:
    over = excess(found.scaled, found.targets, found.owner)
    stays = found.owner == found.scaled.owner
    verdict = (TOO_SMALL if over else BALANCED) if stays else (CLOSER if over else MOVE)
    return describe(found.scaled, found.targets, found.proofs, found.owner, verdict)


def _turn(now: Scaled, targets: Targets, engine: Engine) -> Round:
    """Return what is proven for a cluster and the best placement found, by nothing but what the cluster is now."""
    certificates, evicted = _certify(now, targets, engine)
    least = add_up(certificates, hosts_max(targets))
    branching, joint = None, None
    ground = Ground(now, targets, engine, least)
    if ground.per_master > MANY and len(ground.takers) > 1:
        work = now.problem.iterations * WORK_OF_STEP
        branching = Branching(Layout(ground), min(work, WORK_MAX) if work else WORK_MAX)
        joint = branching.proof()
        joint = joint if joint and joint.value > least else None
        ground = Ground(now, targets, engine, joint.value if joint else least)
    return Round(certificates, joint, improve(ground, now.owner, certificates, evicted, branching))


def defragment(problem: Problem, engine: Engine = PLAIN, *, range_cost: Number = 4) -> Plan:
    """Return a plan that also joins ranges, paying up to *range_cost* mean slots' bytes for one range less."""
    scaled = validate(replace(problem, range_cost=range_cost))
    targets = find_targets(scaled)
    certificates, evicted = _certify(scaled, targets, engine)
    after = join(Ground(scaled, targets, engine, joins=True), scaled.owner, certificates, evicted)
    over = excess(scaled, targets, after)
    if over > excess(scaled, targets, scaled.owner) or count_ranges(after) >= count_ranges(scaled.owner):
        return plan(problem, engine)
    return describe(scaled, targets, Round(certificates, None, after), tuple(after), MOVE if over == 0 else CLOSER)


def tolerance_table(
    problem: Problem, tolerances: Sequence[Number], engine: Engine = PLAIN, *, effort: Number = 1
) -> list[tuple[Fraction, Plan]]:
    """Return one plan a tolerance, as given: what a looser balance saves in bytes, slots and ranges.

    *effort* is the part of the usual search that each gets.  No tolerance costs more than a tighter one: its plan would do as well.
    """
    exact(effort, "effort")
    if not problem.iterations and effort != 1:
        takers = sum(1 for m in problem.masters if not m.drained and not m.excluded)
        usual = usual_steps(len(problem.owners) / max(takers, 1), growing=False)
        problem = replace(problem, iterations=max(CHUNK, int(usual * effort)))
    table: dict[Fraction, Plan] = {}
    best: Found | None = None
    for tolerance in sorted({exact(t, "tolerance") for t in tolerances}):
        found = _find(replace(problem, tolerance=tolerance), engine)
        if best is not None and _moved(best) < _moved(found) and not excess(found.scaled, found.targets, best.owner):
            found = found._replace(owner=best.owner)
        best = found
        table[tolerance] = _say(found)
    return [(exact(t, "tolerance"), table[exact(t, "tolerance")]) for t in tolerances]


def _moved(found: Found) -> int:
    load, owner = found.scaled.loads[found.scaled.cost], found.scaled.owner
    return sum(load[s] for s, n in enumerate(found.owner) if owner[s] != n)


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


def hosts_max(targets: Targets) -> int:
    """Return how many masters may become hosts of heavy slots."""
    return len({h.slot for h in targets.heavy})


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


def describe(scaled: Scaled, targets: Targets, proofs: Round | None, owner: tuple[int, ...], verdict: str) -> Plan:
    """Return the plan that leads from the problem's owners to *owner*, everything summed up in whole numbers."""
    certificates, joint = (tuple(proofs.certificates), proofs.joint) if proofs else ((), None)
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
    hosts = hosts_max(targets)
    return Plan(
        verdict,
        scaled.resources[scaled.cost],
        scaled.units[scaled.cost],
        moves,
        sum(scaled.loads[scaled.cost][move.slot] for move in moves),
        max(add_up(certificates, hosts), joint.value if joint else 0),
        certificates,
        hosts,
        reach,
        targets.floors,
        targets.heavy,
        targets.zone_share,
        targets.zone_relaxed,
        count_ranges(scaled.owner),
        count_ranges(owner),
        tuple(names[n] for n in owner),
        joint,
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
