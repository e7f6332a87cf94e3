"""What a plan is to reach: one share a master in all resources, budgets of bytes, hard and soft goals, and limits no plan can keep."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.errors import PlanError
from cluster_core.rebalance import Master, Problem, check_plan, make_plan
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.rebalance.search.heavy import exceeds_limits
from tests.builders.rebalance_problems import problem
from tests.examples import examples


@pytest.mark.parametrize(
    ("keys", "capacities", "fair"),
    [
        (3, [{"memory_bytes": 50}, {}, {}, {}], ((50, 15), *[(Fraction(350, 3), 35)] * 3)),
        (10, [{"memory_bytes": 130}, {"keys": 270}], ((130, 130), (270, 270))),
        (10, [{"memory_bytes": 130}, {"keys": 130}], ((130, 270), (270, 130))),
    ],
)
def test_a_master_short_of_one_resource_gets_a_smaller_share_of_all(keys, capacities, fair) -> None:
    """Half a share of memory and a whole share of keys would need slots of many tiny keys.

    Where no common share adds up to all data, each resource is divided on its own.
    """
    masters = [Master(name, capacity=most) for name, most in zip("abcd", capacities, strict=False)]
    loads, names = {"memory_bytes": [10] * 40, "keys": [keys] * 40}, "abcd"[: len(masters)]
    asked = problem(loads, names * (40 // len(masters)), masters, cost="memory_bytes")

    assert find_targets(validate(asked)).fair == fair


@pytest.mark.parametrize("small", [{"capacity": {"serialized_bytes": 1}}, {"weight": 1e-9}])
def test_a_remaining_master_without_room_for_a_slot_makes_limits_impossible(small: dict[str, object]) -> None:
    """A master without slots becomes a replica, so one that stays keeps a slot: no search is needed to know."""
    masters = [Master("a", **small), Master("b"), Master("c")]  # type: ignore[arg-type]
    cluster = problem([10] * 60, "abc" * 20, masters)
    plan = make_plan(cluster)

    assert plan.verdict is PlanVerdict.IMPOSSIBLE
    assert [(conflict.nodes, conflict.resources) for conflict in plan.conflicts] == [(("a",), ("serialized_bytes",))]
    assert plan.owners_after.count("a") == 1
    assert check_plan(cluster, plan) == []


def test_loads_may_be_one_array() -> None:
    """A notebook has bytes by slot as numpy array, and nothing else."""
    loads = np.array([10.0] * 30 + [20.0] * 30)
    cluster = Problem(loads=loads, owners=["a"] * 30 + ["b"] * 30, masters=[Master("a"), Master("b")], tolerance=0.05)
    plan = make_plan(cluster)

    assert (plan.verdict, plan.cost) == (PlanVerdict.MOVE, "serialized_bytes")
    assert 0 < plan.bound <= plan.moved
    assert check_plan(cluster, plan) == []


@pytest.mark.parametrize(
    ("asked", "budgets"),
    [
        ({}, (Fraction(1, 20), Fraction(1, 100))),
        ({"bytes_budget": 0.1}, (Fraction(1, 10), 0)),
        ({"data_budget": 0.02}, (Fraction(1, 20), Fraction(1, 50))),
    ],
)
def test_a_plan_may_move_a_share_of_the_bound_or_of_all_data_above_the_bound(asked, budgets) -> None:
    """The share of all data lets small corrections keep long ranges; a budget that the user names is the whole budget."""
    assert validate(problem([1, 1], "ab", "ab", **asked)).budgets == budgets


def test_a_soft_goal_is_given_up_where_no_plan_keeps_all_limits_and_a_hard_one_is_not() -> None:
    """Pinned slots bring a master above its limit of keys; bytes are balanced as they are."""
    loads = {"serialized_bytes": [10] * 40, "keys": [10] * 20 + [1] * 20}
    hard = problem(loads, "a" * 20 + "b" * 20, "ab", tolerance={"serialized_bytes": 0.02, "keys": 0}, pinned=range(12))
    soft = replace(hard, soft=["keys"])
    plan = make_plan(soft)

    assert make_plan(hard).verdict is PlanVerdict.IMPOSSIBLE
    assert (plan.verdict, plan.given_up) == (PlanVerdict.BALANCED, ("keys",))
    assert check_plan(soft, plan) == []
    assert check_plan(hard, plan) != []


def shared_by(loads: dict[str, list[int]], runs: tuple[int, ...], keys: float) -> Problem:
    """Three masters with *runs* of slots, a tolerance of 2 % of bytes, and keys as a soft goal."""
    owners = "".join(name * count for name, count in zip("abc", runs, strict=True))
    return problem(loads, owners, "abc", tolerance={"serialized_bytes": 0.02, "keys": keys}, soft=["keys"])


def one_large_slot() -> Problem:
    """It has half of a master's bytes and few keys; only single slots could balance both."""
    bytes_of = [800] + [10] * 239
    return shared_by(
        {"serialized_bytes": bytes_of, "keys": [10 if s % 2 else 1 for s in range(240)]}, (120, 60, 60), 0.02
    )


def one_slot_of_most_of_a_share() -> Problem:
    """Keys are balanced; the slot's few keys leave most keys to two of three masters."""
    keys_of = [1 + s * s % 5 for s in range(300)]
    bytes_of = [keys * (50 + s * 7919 % 300) for s, keys in enumerate(keys_of)]
    bytes_of[175] = sum(bytes_of) // 2 * 7 // 10
    return shared_by({"serialized_bytes": bytes_of, "keys": keys_of}, (100, 100, 100), 0.2)


@pytest.mark.long
@pytest.mark.parametrize("asked", [one_large_slot(), one_slot_of_most_of_a_share()])
def test_a_soft_goal_that_costs_many_ranges_is_given_up_and_planning_again_moves_nothing(asked) -> None:
    plan = make_plan(asked)

    assert make_plan(replace(asked, soft=[])).ranges_after > 2 * plan.ranges_after
    assert (plan.verdict, plan.given_up) == (PlanVerdict.MOVE, ("keys",))
    assert plan.ranges_after <= 9
    assert check_plan(asked, plan) == []
    assert make_plan(replace(asked, owners=plan.owners_after)).moves == ()


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 60), st.integers(0, 9)), min_size=4, max_size=80))
def test_no_placement_of_heavy_slots_is_called_hopeless_where_one_exists(slots) -> None:
    """Limits are as much as the heaviest master of a random placement holds."""
    slots[:4] = [(name, *slot[1:]) for name, slot in zip("abcd", slots, strict=False)]
    at, *columns = zip(*slots, strict=True)
    loads = dict(zip(("serialized_bytes", "keys"), map(list, columns), strict=True))
    tolerance = {}
    for name, load in loads.items():
        most = max(sum(weight for owner, weight in zip(at, load, strict=True) if owner == each) for each in "abcd")
        tolerance[name] = max(0, Fraction(4 * most, sum(load) or 1) - 1)
    scaled = validate(problem(loads, ("abcd" * len(at))[: len(at)], "abcd", tolerance=tolerance))

    assert not exceeds_limits(scaled, find_targets(scaled))


def test_loads_of_excluded_masters_count_for_their_zone():
    """Half of the data stays in zone x: no plan brings it below a half."""
    masters = [Master(name, zone=zone, excluded=name == "a") for name, zone in ("ax", "bx", "cy", "dy")]
    targets = find_targets(validate(problem([1] * 8, "aaaabbcd", masters, zone_share_max=Fraction(2, 5), tolerance=1)))

    assert (targets.zone_share, targets.zone_relaxed) == (Fraction(1, 2), True)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (problem([1, -2, 3], "aab", "ab"), "slot 1 is negative: -2"),
        (problem([1, 2, math.nan], "aab", "ab"), "slot 2 is nan"),
        (problem([math.inf, 2, 3], "aab", "ab"), "slot 0 is inf"),
        (problem([1, None, 3], "aab", "ab"), "slot 1 is missing"),
        (problem([1, 2], "aab", "ab"), "2 loads for 3 slots"),
        (problem([1, 1, 1], "aac", "ab"), "slot 2 belongs to c: no such master"),
        (problem([1, 1], ["a", ""], "ab"), "slot 1 has no owner"),
        (
            problem([4, 4], "ab", [Master(name, capacity={"serialized_bytes": 3}) for name in "ab"]),
            "impossible: the data is 8 serialized_bytes, all capacity is 6",
        ),
        (
            problem([4, 4], "ab", [Master("a", drained=True), Master("b")], pinned=[0]),
            "slot 0 is pinned to a, which is drained",
        ),
        (problem([4, 4], "ab", [Master("a", weight=0), Master("b")]), "weight of a is 0"),
        (problem([1, 1], "ab", "ab", soft=["keys"]), "keys is a soft goal"),
        (problem({f"load {n}": [1, 1] for n in range(17)}, "ab", "ab"), "balances 1 to 16 resources, not 17"),
    ],
)
def test_an_impossible_request_is_refused_in_one_line(request_, reason):
    """Before anything is searched; a weight of 0 must be a drain, since redis-cli gives such masters slots."""
    with pytest.raises(PlanError, match=reason):
        validate(request_)


def test_a_cluster_has_at_most_a_master_a_slot() -> None:
    masters = [Master(str(number)) for number in range(16385)]

    assert len(validate(problem([1], ["0"], masters[:-1])).weights) == 16384
    with pytest.raises(PlanError, match="16385 masters: there are only 16384 slots"):
        validate(problem([1], ["0"], masters))


def test_fractions_of_loads_are_whole_numbers_of_a_common_unit():
    scaled = validate(problem([0.5, 0.25, 3], "aab", "ab"))

    assert (scaled.units, scaled.loads) == ((4,), ((2, 1, 12),))
