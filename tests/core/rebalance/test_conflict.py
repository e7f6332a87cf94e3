"""Limits that cannot be met together: never said of any that can, and no bound above what moves."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.bound.conflict import ConflictKind, Limit, LimitKind, only_limits, prove
from cluster_core.rebalance.goal.limits import above_capacity
from cluster_core.rebalance.goal.problem import Master, Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.goal.zone_masters import spread_masters
from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.conflicts import find_conflicts
from tests.builders.rebalance_problems import problem
from tests.examples import examples

NAMES = ("serialized_bytes", "keys", "ops")


@st.composite
def clusters(draw):
    """Up to four masters and six slots with everything a request can ask for."""
    masters, slots = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    names = NAMES[: draw(st.integers(1, 3))]
    weight = st.one_of(st.integers(0, 9), st.integers(0, 40))
    loads = {name: draw(st.lists(weight, min_size=slots, max_size=slots)) for name in names}
    nodes = []
    for n in range(masters):
        parts = draw(st.lists(st.sampled_from([0, 0, 0.3, 0.6, 1, 2]), min_size=len(names), max_size=len(names)))
        capacity = {m: int(sum(loads[m]) / masters * part) for m, part in zip(names, parts, strict=True) if part}
        role = draw(st.sampled_from(["", "", "", "", "drained", "excluded"]))
        nodes.append(
            Master(
                str(n),
                draw(st.integers(1, 3)),
                draw(st.sampled_from("xy")),
                capacity,
                role == "drained",
                role == "excluded",
            )
        )
    owners = [str(draw(st.integers(0, masters - 1))) for _ in range(slots)]
    pinned = [s for s in range(slots) if not nodes[int(owners[s])].drained and draw(st.integers(0, 9)) == 0]
    return Problem(
        loads, owners, nodes, tolerance=draw(st.sampled_from([0, 0.02, 0.3, 1.0])), pinned=pinned, iterations=4096,
        zone_share_max=draw(st.sampled_from([None, None, 0.5, 0.8])),
    )  # fmt: skip


def kept_by(cluster, targets, scaled, placed):
    """Whether a placement keeps every limit, and whether it keeps the hard ones; heavy slots may be anywhere, alone."""
    heavy = {(h.slot, h.resource) for h in targets.heavy}
    soft = hard = True
    sums = scaled.totals(placed)
    for n, master in enumerate(cluster.masters):
        if master.drained or master.excluded:
            continue
        for r, name in enumerate(scaled.resources):
            most, limit = targets.capacity[n][r], int(targets.relaxed[r] * targets.fair[n][r])
            hard &= most is None or sums[n][r] <= most
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
    return soft and hard, hard and {n for n in scaled.owner if not cluster.masters[n].drained} <= set(placed)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(clusters())
def test_what_is_said_of_a_small_cluster_is_true_of_every_placement_there_is(cluster):
    """Bound, verdict and capacities against all placements; the check agrees."""
    try:
        found = plan(cluster)
    except PlanError:
        assume(False)
    scaled = validate(cluster)
    targets = find_targets(scaled)
    takers = [n for n, m in enumerate(cluster.masters) if not m.drained and not m.excluded]
    ways = [[n] if s in scaled.fixed else takers for s, n in enumerate(scaled.owner)]
    told = [kept_by(cluster, targets, scaled, placed) for placed in product(*ways)]
    after = [int(name) for name in found.owners_after]
    over = above_capacity(targets, scaled.totals(after))

    assert 0 <= found.bound <= found.moved <= sum(scaled.loads[scaled.cost])
    assert check_plan(cluster, found) == []
    assert not (found.conflicts and any(keeps for keeps, _ in told))
    assert found.verdict not in (PlanVerdict.MOVE, PlanVerdict.BALANCED) or kept_by(cluster, targets, scaled, after)[0]
    assert not any(move.target == cluster.masters[n].id for move in found.moves for n in over)
    if any(hard for _, hard in told):
        assert not set(over) & set(takers)


def test_a_capacity_and_a_tolerance_at_odds_are_named_with_the_least_tolerance():
    """Six masters, one of half a share in bytes; keys are as bytes: the others need a tenth more than a share."""
    masters = [Master(name, capacity={"serialized_bytes": 50} if name == "c" else {}) for name in "abcdef"]
    cluster = problem(
        {"serialized_bytes": [1] * 600, "keys": [1] * 600}, "".join(n * 100 for n in "abcdef"), masters, iterations=4096
    )
    found = plan(cluster)
    (conflict,) = found.conflicts

    assert (found.verdict, conflict.kind, conflict.nodes) == (PlanVerdict.IMPOSSIBLE, ConflictKind.TOGETHER, ("c",))
    assert Fraction(99, 1000) < conflict.least < Fraction(1, 10)
    assert found.owners_after.count("c") == 50
    assert check_plan(cluster, found) == []
    assert check_plan(cluster, replace(found, conflicts=(replace(conflict, least=conflict.least + 1),))) != []
    assert check_plan(cluster, replace(found, conflicts=())) != []


@pytest.mark.long
def test_keys_and_bytes_around_one_heavy_slot_cannot_be_met_together():
    """Its host may hold no other bytes, so that all keys there have to go where there is no room."""
    loads = {"serialized_bytes": [3000] + [10] * 1199, "keys": [10] * 1200}
    cluster = problem(loads, "".join(n * 100 for n in "abcdefghijkl"), "abcdefghijkl", iterations=4096)
    found = plan(cluster)

    assert found.verdict == PlanVerdict.IMPOSSIBLE
    assert found.conflicts[0].slots == (0,)
    assert found.conflicts[0].least == pytest.approx(1 / 11, abs=0.005)
    assert 0 <= found.bound <= found.moved
    assert check_plan(cluster, found) == []


def test_a_large_slot_below_every_limit_leaves_its_host_no_room_for_its_part_of_the_keys():
    """Three quarters of a share in bytes and one key: with any tolerance below a fifth, the two other masters cannot hold all other keys."""
    cluster = problem({"serialized_bytes": [6750] + [20] * 999, "keys": [1] * 1000}, "a" * 400 + "b" * 300 + "c" * 300, "abc", iterations=4096)  # fmt: skip
    found = plan(cluster)
    (conflict,) = found.conflicts

    assert (conflict.kind, conflict.slots) == (ConflictKind.TOGETHER, (0,))
    assert set(conflict.resources) == {"serialized_bytes", "keys"}
    assert conflict.least == pytest.approx(Fraction(1, 5), abs=0.01)
    assert check_plan(cluster, found) == []
    for spoiled in (replace(conflict, least=conflict.least + 1), replace(conflict, proofs=tuple(one._replace(placed=()) for one in conflict.proofs))):  # fmt: skip
        assert check_plan(cluster, replace(found, conflicts=(spoiled,))) != []


def test_no_range_is_said_to_be_needed_for_what_a_drained_master_keeps():
    """Nobody has room for its slot of two keys, so that it stays, and the empty masters need not take it."""
    masters = [Master("a", excluded=True), Master("b", drained=True), Master("c", capacity={"keys": 1}), Master("d", capacity={"keys": 1})]  # fmt: skip
    cluster = problem({"serialized_bytes": [0, 0, 0], "keys": [0, 5, 2]}, "aab", masters, pinned=[0, 1], iterations=4096)  # fmt: skip
    found = plan(cluster)

    assert found.ranges_after == 2
    assert check_plan(cluster, found) == []


@st.composite
def capacities(draw):
    """Two to four masters with capacities near their share, six slots, pins, drains and zones."""
    masters, slots = draw(st.integers(2, 4)), draw(st.integers(3, 6))
    names = NAMES[: draw(st.integers(1, 2))]
    loads = {name: draw(st.lists(st.integers(0, 20), min_size=slots, max_size=slots)) for name in names}
    nodes = []
    for n in range(masters):
        parts = {m: draw(st.sampled_from([0, 0.8, 1, 1.1, 1.3, 2])) for m in names}
        capacity = {m: int(sum(loads[m]) / masters * part) for m, part in parts.items() if part}
        nodes.append(Master(str(n), 1, draw(st.sampled_from("xy")), capacity, draw(st.integers(0, 4)) == 0))
    owners = [str(draw(st.integers(0, masters - 1))) for _ in range(slots)]
    pinned = [s for s in range(slots) if not nodes[int(owners[s])].drained and draw(st.integers(0, 5)) == 0]
    share = draw(st.sampled_from([None, None, 0.5, 0.6, 0.8]))
    return Problem(loads, owners, nodes, tolerance=9, pinned=pinned, zone_share_max=share)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(capacities())
def test_capacities_pins_drains_and_zones_are_at_odds_just_where_no_placement_keeps_them(cluster):
    """Against all placements: a conflict that no tolerance helps is said if and only if there is none, and its proof holds."""
    try:
        scaled = validate(cluster)
    except PlanError:
        assume(False)
    told = [one for one in find_conflicts(scaled, find_targets(scaled)) if one.least is None]

    assert bool(told) == (not can_be_placed(scaled))
    assert [one for one in told if not prove(scaled, one)] == []
    for one in told:
        if one.limits:
            assert not can_be_placed(only_limits(scaled, one.limits))
        if one.kind is ConflictKind.CAPACITY:
            assert all(can_be_placed(only_limits(scaled, set(one.limits) - {limit})) for limit in one.limits)


def test_more_masters_in_a_zone_than_are_allowed_are_a_verdict_that_names_the_drain_that_makes_it_so():
    """Two of five masters in zone a are 40 %; with e drained they are half of four."""
    masters = [Master("a", zone="a"), Master("b", zone="a"), Master("c", zone="b"), Master("d", zone="c"), Master("e", zone="c")]  # fmt: skip
    cluster = problem([1] * 10, "aabbccddee", masters, zone_masters_max=0.4, iterations=4096)
    drained = replace(cluster, masters=[*masters[:4], Master("e", zone="c", drained=True)])
    (conflict,) = plan(drained).conflicts

    assert plan(cluster).verdict is PlanVerdict.BALANCED
    assert (conflict.kind, conflict.nodes, conflict.share) == (ConflictKind.MASTERS, ("a", "b"), Fraction(1, 2))
    assert conflict.limits == (Limit(LimitKind.MASTERS), Limit(LimitKind.DRAIN, "e"))
    assert plan(drained).verdict is PlanVerdict.IMPOSSIBLE
    assert plan(drained).owners_after.count("e") == 0
    assert check_plan(drained, plan(drained)) == []
    assert check_plan(drained, replace(plan(drained), conflicts=(replace(conflict, nodes=("a",)),))) != []
    with pytest.raises(PlanError, match="zone_masters_max: the zone of x is not known"):
        validate(replace(cluster, masters=[*masters, Master("x")]))


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sets(st.sampled_from("abcd"))), min_size=1, max_size=5), st.integers(0, 3)
)  # fmt: skip
def test_fail_overs_are_found_if_and_only_if_some_bring_every_zone_within_its_number(masters, most):
    zones, others = [zone for zone, _ in masters], [sorted(other) for _, other in masters]
    found = spread_masters(zones, others, most)
    ways = product(*({zone, *other} for zone, other in masters))

    assert (found is not None) == any(max(map(way.count, way)) <= most for way in ways)
    if found is not None:
        assert max(map(found.count, found)) <= most
        assert all(zone in {own, *other} for zone, (own, other) in zip(found, masters, strict=True))


def can_be_placed(scaled):
    """Whether any placement there is keeps capacities and zones."""
    targets = find_targets(scaled)
    takers = [n for n, m in enumerate(scaled.masters) if not m.drained]
    ways = product(*([n] if s in scaled.fixed else takers for s, n in enumerate(scaled.owner)))
    return any(within_hard_limits(scaled, targets, way) for way in ways)


def test_no_more_limits_are_named_than_it_takes():
    """Zone x holds the 30 of a, zone y 60 of 100: more fits if d stays, a holds more or y may; the drain of c, keys and the pin are in nobody's way."""
    masters = [
        Master("a", zone="x", capacity={"serialized_bytes": 30, "keys": 900}), Master("b", zone="y", capacity={"serialized_bytes": 100}),
        Master("c", zone="y", drained=True), Master("d", zone="x", drained=True),
    ]  # fmt: skip
    cluster = problem(
        {"serialized_bytes": [10] * 10, "keys": [1] * 10}, "aabbccbddb", masters, pinned=[0], zone_share_max=0.6, iterations=4096
    )  # fmt: skip
    found = plan(cluster)
    (conflict,) = [one for one in found.conflicts if one.kind is not ConflictKind.TOGETHER]

    assert conflict.limits == (
        Limit(LimitKind.ZONES), Limit(LimitKind.DRAIN, "d"), Limit(LimitKind.CAPACITY, "serialized_bytes"),
    )  # fmt: skip
    assert check_plan(cluster, found) == []
    assert check_plan(cluster, replace(found, conflicts=(replace(conflict, limits=conflict.limits[1:]),))) != []


def within_hard_limits(scaled, targets, placed):
    """Whether a placement is within capacities and zones."""
    sums = scaled.totals(placed)
    above = [n for n in above_capacity(targets, sums) if not scaled.masters[n].drained]
    share = scaled.problem.zone_share_max
    zones = [
        sum(row[r] for row, m in zip(sums, scaled.masters, strict=True) if m.zone == zone)
        <= Fraction(repr(share or 1)) * sum(load)
        for r, load in enumerate(scaled.loads)
        for zone in "xy"
    ]
    return not above and all(zones)


def test_slots_that_only_some_masters_can_hold_are_named_where_these_have_not_the_room():
    """A slot of 60 fits a and b only, and then five of 45 have but four places: no balance helps, and the check finds any change of the proof."""
    masters = [
        Master(n, capacity={"serialized_bytes": most}) for n, most in zip("abcd", (100, 100, 50, 50), strict=True)
    ]
    cluster = problem([60, 45, 45, 45, 45, 45], "aaccdd", masters, iterations=4096)
    found = plan(cluster)
    (conflict,) = [one for one in found.conflicts if one.kind is ConflictKind.CAPACITY]
    (proof,) = conflict.proofs

    assert found.verdict is PlanVerdict.IMPOSSIBLE
    assert set(conflict.slots) >= {0}
    assert check_plan(cluster, found) == []
    for spoiled in (
        proof._replace(prices=proof.prices[:-1]),
        proof._replace(prices=((0, 0),)),
        proof._replace(placed=()),
    ):
        assert check_plan(cluster, replace(found, conflicts=(replace(conflict, proofs=(spoiled,)),))) != []


def test_more_large_slots_than_places_for_them_are_counted():
    """Three slots above half of the two masters that could hold one; a third has room for none."""
    masters = [Master(n, capacity={"serialized_bytes": most}) for n, most in zip("abc", (111, 110, 50), strict=True)]
    cluster = problem([60, 61, 62, 5, 5], "aabbc", masters, iterations=4096)
    found = plan(cluster)
    conflict = found.conflicts[0]

    assert (conflict.kind, conflict.slots, conflict.nodes) == (ConflictKind.PLACES, (0, 1, 2), ("a", "b"))
    assert check_plan(cluster, found) == []


def test_slots_by_the_thousand_that_fit_are_not_said_to_be_at_odds():
    """Capacities of a thousandth above what there is, in three zones that may hold no more than their third."""
    masters = [Master(n, 1, zone, {"serialized_bytes": 1001}) for n, zone in zip("abcdef", "xyzxyz", strict=True)]
    cluster = problem([1, 2, 3] * 1000, "a" * 2000 + "b" * 1000, masters, tolerance=0.02, zone_share_max=0.334)
    scaled = validate(cluster)

    assert sum(scaled.loads[0]) == 6000
    assert find_conflicts(scaled, find_targets(scaled)) == ()
