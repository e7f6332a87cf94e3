"""Limits that cannot be met together: no false conflict, and no bound above the moved bytes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance.check import check_plan
from cluster_core.rebalance.goal.problem import Master, Problem, validate
from cluster_core.rebalance.goal.targets import above_capacity, find_targets, ratios
from cluster_core.rebalance.plan import ConflictKind, PlanVerdict
from cluster_core.rebalance.planner import make_plan
from cluster_core.rebalance.search.conflicts import find_conflicts
from tests.builders.rebalance_problems import problem
from tests.examples import examples

NAMES = ("serialized_bytes", "keys", "ops")


@st.composite
def clusters(draw):
    """Up to four masters and six slots with everything a request can ask for."""
    masters, slots = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    names = NAMES[: draw(st.integers(1, 3))]
    load = st.one_of(st.integers(0, 9), st.integers(0, 40))
    loads = {name: draw(st.lists(load, min_size=slots, max_size=slots)) for name in names}
    nodes = []
    for n in range(masters):
        parts = draw(st.lists(st.sampled_from([0, 0, 0.3, 0.6, 1, 2]), min_size=len(names), max_size=len(names)))
        capacity = {m: int(sum(loads[m]) / masters * part) for m, part in zip(names, parts, strict=True) if part}
        role = draw(st.sampled_from(["", "", "", "", "drained", "excluded"]))
        weight, zone = draw(st.integers(1, 3)), draw(st.sampled_from("xy"))
        nodes.append(Master(str(n), weight, zone, capacity, role == "drained", role == "excluded"))
    owners = [str(draw(st.integers(0, masters - 1))) for _ in range(slots)]
    pinned = [s for s in range(slots) if not nodes[int(owners[s])].drained and draw(st.integers(0, 9)) == 0]
    return Problem(
        loads, owners, nodes, tolerance=draw(st.sampled_from([0, 0.02, 0.3, 1.0])), pinned=pinned,
        zone_share_max=draw(st.sampled_from([None, None, 0.5, 0.8])),
    )  # fmt: skip


def kept_by(cluster, targets, scaled, placed):
    """Whether a placement keeps every limit, and whether it keeps the hard ones; heavy slots may be anywhere, alone.

    Neither where a master that stays has no slot left.
    """
    heavy = {(h.slot, h.resource) for h in targets.heavy}
    soft = hard = True
    sums = scaled.totals(placed)
    for n, master in enumerate(cluster.masters):
        if master.drained or master.excluded:
            continue
        for r, name in enumerate(scaled.resources):
            most, limit = scaled.capacity[n][r], int(targets.relaxed[r] * targets.fair[n][r])
            hard &= sums[n][r] <= most
            alone = any(
                m == n and (s, name) in heavy and scaled.loads[r][s] == sums[n][r] for s, m in enumerate(placed)
            )
            soft &= sums[n][r] <= limit or alone
    if cluster.zone_share_max is not None:
        share = Fraction(repr(cluster.zone_share_max))
        for r, load in enumerate(scaled.loads):
            for zone in "xy":
                soft &= sum(
                    row[r] for row, m in zip(sums, cluster.masters, strict=True) if m.zone == zone
                ) <= share * sum(load)
    hard &= {n for n in scaled.owner if not cluster.masters[n].drained} <= set(placed)
    return soft and hard, hard


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_statements_about_a_small_cluster_hold_for_every_placement(cluster):
    """Bound, floors, verdict and capacities against all placements; the check agrees, and no placement within the limits moves less than the bound."""
    try:
        plan = make_plan(cluster)
    except PlanError:
        assume(False)
    scaled = validate(cluster)
    targets = find_targets(scaled)
    takers = [n for n, m in enumerate(cluster.masters) if not m.drained and not m.excluded]
    ways = [[n] if s in scaled.fixed else takers for s, n in enumerate(scaled.owner)]
    kept = [kept_by(cluster, targets, scaled, placed) for placed in product(*ways)]
    after = [int(name) for name in plan.owners_after]
    over = above_capacity(scaled, scaled.totals(after))
    possible = [placed for placed, (_, hard) in zip(product(*ways), kept, strict=True) if hard] or [*product(*ways)]
    least = map(min, zip(*(ratios(scaled, targets, placed) for placed in possible), strict=True))

    assert 0 <= plan.bound <= plan.moved <= sum(scaled.loads[scaled.cost])
    assert all(floor.ratio <= max(1, ratio) for floor, ratio in zip(plan.floors, least, strict=True))
    assert check_plan(cluster, plan) == []
    assert all(after[s] in ((n,) if s in scaled.fixed else (n, *takers)) for s, n in enumerate(scaled.owner))
    assert not (plan.conflicts and any(keeps for keeps, _ in kept))
    if not plan.heavy and not plan.conflicts:
        cost = scaled.loads[scaled.cost]
        costs = [
            sum(v for v, n, o in zip(cost, placed, scaled.owner, strict=True) if n != o) for placed in product(*ways)
        ]
        within = [moved for moved, (keeps, _) in zip(costs, kept, strict=True) if keeps]
        assert plan.bound <= min(within, default=plan.moved)
    assert plan.verdict not in (PlanVerdict.MOVE, PlanVerdict.BALANCED) or kept_by(cluster, targets, scaled, after)[0]
    assert not any(move.target == cluster.masters[n].id for move in plan.moves for n in over)
    if any(hard for _, hard in kept):
        assert not set(over) & set(takers)


def test_pins_without_room_for_other_slots_are_named_with_the_least_tolerance():
    """A third of the bytes and no key are pinned to a: below 30 %, a has room for five more slots, b and c for 17 with keys each, of 40."""
    loads = {"serialized_bytes": [10] * 60, "keys": [0] * 20 + [10] * 40}
    masters = [Master("a"), Master("b"), Master("c")]
    cluster = problem(loads, "a" * 20 + "b" * 20 + "c" * 20, masters, pinned=range(20))
    plan = make_plan(cluster)
    (conflict,) = plan.conflicts

    assert (plan.verdict, conflict.kind) == (PlanVerdict.IMPOSSIBLE, ConflictKind.TOGETHER)
    assert conflict.least == pytest.approx(0.3, abs=0.001)
    assert check_plan(cluster, plan) == []
    assert check_plan(cluster, replace(plan, conflicts=(replace(conflict, least=conflict.least + 1),))) != []
    assert check_plan(cluster, replace(plan, conflicts=())) != []


def test_pins_that_fill_a_capacity_fit_with_a_larger_tolerance():
    masters = [Master("a", capacity={"serialized_bytes": 30}), Master("b"), Master("c")]
    (conflict,) = make_plan(problem([10] * 6, "aaabbc", masters, pinned=range(3))).conflicts

    assert (conflict.kind, conflict.least) == (ConflictKind.PINNED, Fraction(1, 2))


@pytest.mark.long
def test_thousands_of_slots_that_fit_are_no_conflict():
    """Capacities of a thousandth above what there is, in three zones that may hold no more than their third."""
    masters = [Master(n, 1, zone, {"serialized_bytes": 1001}) for n, zone in zip("abcdef", "xyzxyz", strict=True)]
    cluster = problem([1, 2, 3] * 1000, "a" * 2000 + "b" * 1000, masters, tolerance=0.02, zone_share_max=0.334)
    scaled = validate(cluster)

    assert sum(scaled.loads[0]) == 6000
    assert find_conflicts(scaled) == ()
    assert check_plan(cluster, make_plan(cluster)) == []
