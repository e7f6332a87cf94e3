"""Plans: limits, proofs, slot ranges, and that they come to rest."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance.bounds import Prices
from cluster_core.rebalance.check import check_plan
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.plan import Plan, PlanVerdict
from cluster_core.rebalance.planner import defragment, make_plan, pieces_of_tag
from tests.builders.rebalance_problems import applied, problem, random_problem
from tests.examples import examples


@pytest.mark.parametrize("masters", [1, 2, 3, 6, 100, 201, 328, 400, 999, 1000])
def test_an_even_cluster_is_left_alone(masters):
    """redis-cli moves 384 slots of a perfect cluster of 400 masters, and 384 of one of 1000, each time."""
    names = [f"n{n:04d}" for n in range(masters)]
    owners = [names[slot * masters // 16384] for slot in range(16384)]
    plan = make_plan(problem([100] * 16384, owners, [Master(name) for name in names]))

    assert plan.verdict == PlanVerdict.BALANCED
    assert plan.moves == ()


def test_a_hot_slot_is_isolated_and_named():
    """A slot with half of all operations: the floor is reached, and exactly the stated load moves."""
    loads = {"serialized_bytes": [10] * 40, "ops": [400] + [10] * 39}
    owners = "".join(name * 10 for name in "abcd")
    cluster = problem(loads, owners, "abcd", tolerance={"serialized_bytes": 0.4, "ops": 0.1})
    plan = make_plan(cluster)
    ops = plan.reach[1]

    assert (ops.after, ops.floor) == (Fraction(400 * 4, 790), Fraction(400 * 4, 790))
    assert ops.relaxed
    assert [(h.slot, h.resource, h.pieces) for h in plan.heavy] == [(0, "ops", 2)]
    assert [slot for slot, owner in enumerate(plan.owners_after) if owner == plan.owners_after[0]] == [0]
    assert check_plan(cluster, plan) == []


def test_a_tag_is_split_into_as_many_pieces_as_fit():
    """k = ceil(load / target)."""
    assert pieces_of_tag(1000, 300) == 4
    with pytest.raises(PlanError, match="target of 0"):
        pieces_of_tag(1, 0)


def test_a_small_gain_is_not_worth_a_move():
    """A scheduled report does not churn."""
    cluster = problem([10] * 20, "a" * 11 + "b" * 9, "ab", tolerance=0.05)

    assert make_plan(cluster).verdict == PlanVerdict.MOVE
    assert make_plan(replace(cluster, gain_min=0.2)).verdict == PlanVerdict.TOO_SMALL
    assert make_plan(replace(cluster, gain_min=0.2)).moves == ()


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [
        (problem([0] * 20, "a" * 15 + "b" * 5, "ab"), PlanVerdict.BALANCED),
        (problem([7] * 20, "a" * 20, "a"), PlanVerdict.BALANCED),
        (problem([1, 2, 3, 4], "aaab", "ab", tolerance=0), PlanVerdict.MOVE),
        (problem([5, 5, 5], "aaa", "ab", tolerance=0), PlanVerdict.MOVE),
        (problem([9], "a", "ab"), PlanVerdict.BALANCED),
        (
            problem({"serialized_bytes": [3, 4], "ops": [10**20, 1]}, "ab", [Master("a", drained=True), Master("b")]),
            PlanVerdict.MOVE,
        ),
    ],
)
def test_odd_clusters_get_a_plan_that_holds(cluster, verdict):
    """No load at all, one master, no tolerance, one slot: a plan, proven like any other, for the tolerance asked for."""
    plan = make_plan(cluster)
    looser = replace(plan, tolerance=(Fraction(9),) * len(cluster.loads))

    assert plan.verdict == verdict
    assert check_plan(cluster, plan) == []
    assert min(worst.floor for worst in plan.reach) >= 1
    assert "the plan was made for another tolerance than was asked for" in check_plan(cluster, looser)
    assert make_plan(applied(cluster, plan.owners_after)).moves == ()


@pytest.mark.long
def test_zones_are_kept_or_relaxed_as_little_as_works():
    """Three masters in one zone, one in the other: with equal shares the first zone holds three quarters."""
    masters = [Master("a", zone="x"), Master("b", zone="x"), Master("c", zone="x"), Master("d", zone="y")]
    cluster = problem([1] * 200, "a" * 50 + "b" * 50 + "c" * 50 + "d" * 50, masters, tolerance=0.2)
    asked = replace(cluster, zone_share_max=Fraction(72, 100))
    plan = make_plan(asked)
    tight = make_plan(replace(cluster, zone_share_max=Fraction(1, 2)))

    assert not plan.zone_relaxed
    assert plan.owners_after.count("d") >= 56
    assert check_plan(asked, plan) == []
    assert (tight.zone_relaxed, tight.zone_share) == (True, Fraction(7, 10))

    masters[1] = Master("b", zone="y", drained=True)
    loads = [{50: 500, 150: 481, 250: 400}.get(slot, 0) for slot in range(300)]
    sparse = problem(loads, "a" * 100 + "b" * 100 + "c" * 100, masters, tolerance=0, zone_share_max=Fraction(1, 2))
    assert make_plan(sparse).ranges_after == 3, "empty slots stay together"


@pytest.mark.long
def test_the_bound_is_a_sum_of_prices_that_anyone_can_add_up():
    """What slots pay where they are cheapest, less what limits cost: numpy, and nothing of the planner but the prices."""
    asked = random_problem(3, 6, 200, skew=0.3, tolerance=0.05)
    plan = make_plan(asked)
    ids, loads = [master.id for master in asked.masters], np.array([*asked.loads.values()], object)
    owner = np.array([ids.index(name) for name in asked.owners])
    masters, staying = (
        np.array([rows.get(name, (0, 0, 0)) for name in ids], object)
        for rows in (plan.prices.masters, plan.prices.staying)
    )
    moves = (loads[0] << plan.prices.bits) + (masters @ loads).min(axis=0)
    stays = ((masters + staying) @ loads)[owner, np.arange(len(owner))]
    ratios = [max(1 + Fraction(1, 20), floor.ratio) for floor in plan.floors]
    limit = np.array([int(ratio * sum(row) / 6) for ratio, row in zip(ratios, loads, strict=True)], object)
    paid = np.minimum(stays, moves).sum() - ((masters + staying) * limit).sum()

    assert (plan.verdict, plan.heavy) == (PlanVerdict.MOVE, ())
    assert plan.bound == -(-paid >> plan.prices.bits)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda p: replace(p, moved=p.moved - 1),
        lambda p: replace(p, bound=p.bound + 1),
        lambda p: replace(p, moves=p.moves[1:]),
        lambda p: replace(p, moves=(p.moves[0], *p.moves)),
        lambda p: replace(p, ranges_after=p.ranges_after + 1),
        lambda p: replace(p, prices=replace(p.prices, bits=p.prices.bits + 1)),
        lambda p: replace(p, prices=replace(p.prices, masters={"nobody": (1, 1, 1)})),
        lambda p: replace(p, prices=Prices()),
        lambda p: replace(p, floors=tuple(replace(f, ratio=f.ratio + 1, count=1) for f in p.floors)),
        lambda p: replace(p, reach=(p.reach[0]._replace(after=p.reach[0].after - 1), *p.reach[1:])),
        lambda p: replace(p, ranges_bound=p.ranges_bound + 1),
        lambda p: replace(p, budget=p.budget + 1),
        lambda p: replace(p, curve=(p.curve[0]._replace(ranges=1), *p.curve[1:])),
        lambda p: replace(p, curve=(p.curve[0]._replace(moved=p.bound - 1), *p.curve[1:])),
    ],
)
def test_a_changed_plan_is_detected(spoil):
    cluster, problems = sound_plan()

    assert check_plan(cluster, problems) == []
    assert check_plan(cluster, spoil(problems)) != []


@cache
def sound_plan() -> tuple[Problem, Plan]:
    """A plan with all that a check looks at."""
    cluster = random_problem(9, 8, 256, skew=0.4, tolerance=0.05)
    return cluster, make_plan(cluster)


@pytest.mark.parametrize(("seed", "masters", "skew", "budget"), [(1, 4, 0.4, 0.02), (3, 5, 0.9, 0.3), (5, 3, 0.9, 0)])
def test_limits_and_budget_are_kept_and_a_plan_comes_to_rest(seed, masters, skew, budget):
    """Every claim in whole numbers; no more bytes than allowed above the bound, or where nothing was found within, above the fewest found.

    Carried out and planned again, nothing moves.
    """
    cluster = random_problem(seed, masters, 300, empty=1, skew=skew, tolerance=0.06, bytes_budget=budget)
    plan = make_plan(cluster)

    assert check_plan(cluster, plan) == []
    assert make_plan(applied(cluster, plan.owners_after)).moves == () or plan.verdict is PlanVerdict.IMPOSSIBLE
    fewest = min((point.moved for point in plan.curve), default=plan.moved)
    times = 1 + Fraction(str(budget))
    assert plan.moved <= (plan.bound if fewest <= plan.bound * times else fewest) * times
    dear = [less for less, more in pairwise(plan.curve) if more.moved < less.moved and more.ranges <= less.ranges]
    assert dear == []  # what costs fewer bytes and cuts less often is found for the smaller budget, too


@pytest.mark.slow
@settings(max_examples=examples(4), deadline=None)
@example(0, 9, 0.9, 0)
@given(
    st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([0.0, 0.4, 0.9]), st.sampled_from([0, 0.02, 0.05, 0.3])
)
def test_random_plans_keep_limits_and_budget_and_come_to_rest(seed, masters, skew, budget):
    test_limits_and_budget_are_kept_and_a_plan_comes_to_rest(seed, masters, skew, budget)


@pytest.mark.long
@pytest.mark.parametrize(("first", "moves"), [(2200, True), (2035, False)])
def test_headroom_is_left_below_the_limit_and_a_master_within_the_limit_is_left_alone(first, moves):
    """Planned to 1.5 % above the fair share, started above 2 %."""
    owners = "a" * first + "b" * (4000 - first)
    cluster = problem([10] * 4000, owners, "ab", tolerance=0.02, headroom=0.25)
    plan = make_plan(cluster)

    assert bool(plan.moves) == moves
    assert not moves or plan.reach[0].after <= Fraction(1015, 1000)
    assert check_plan(cluster, plan) == []


@pytest.mark.long
def test_a_shredded_cluster_gets_few_ranges_at_no_worse_balance():
    """Whatever moves; the heaviest master does not get heavier."""
    chance = random.Random(3)
    loads = [chance.randrange(50, 150) for _ in range(900)]
    cluster = problem(loads, [chance.choice("abc") for _ in range(900)], "abc", tolerance=0.1)
    plan = defragment(cluster)

    assert plan.ranges_after <= 12 < plan.ranges_before
    assert plan.reach[0].after <= max(plan.reach[0].before, plan.reach[0].limit)
    assert check_plan(cluster, plan) == []


def test_a_master_keeps_its_last_slot_where_that_has_no_load():
    """Slot 3 must leave b, which may hold nothing; slot 2 without load stays there, though it lies between slots of a."""
    masters = [Master("a"), Master("b", capacity={"serialized_bytes": 0}), Master("c")]
    cluster = problem({"serialized_bytes": [0, 0, 0, 1]}, "aabb", masters, tolerance=0, headroom=0, pinned=[0])
    plan = make_plan(cluster)

    assert plan.owners_after == ("a", "a", "b", "a")
    assert check_plan(cluster, plan) == []


def test_pinned_slots_between_others_count_in_the_least_number_of_ranges():
    """Slot 5 of b between slots of a that must not move: three ranges, and c needs one."""
    masters = [Master("a"), Master("b"), Master("c")]
    cluster = problem([10] * 30, "a" * 5 + "b" + "a" * 24, masters, pinned=[4, 5, 6], tolerance=0.2)
    plan = make_plan(cluster)

    assert plan.ranges_bound == 4
    assert check_plan(cluster, plan) == []
