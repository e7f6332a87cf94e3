"""What a plan is to reach: one share a master in all resources, budgets of bytes, hard and soft goals, and limits no plan can keep."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance import Master, Problem, check_plan, make_plan
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.goal.watched import watch
from cluster_core.rebalance.plan import PlanVerdict
from tests.builders.rebalance_problems import problem


def test_a_master_short_of_memory_gets_a_smaller_share_of_keys_too() -> None:
    """Half a share of memory and a whole share of keys would need slots of many tiny keys."""
    masters = [Master("a", capacity={"memory_bytes": 50}), Master("b"), Master("c"), Master("d")]
    loads = {"memory_bytes": [10] * 40, "keys": [3] * 40}
    targets = find_targets(validate(problem(loads, "abcd" * 10, masters, cost="memory_bytes")))

    assert targets.fair[0] == (50, 15)
    assert targets.fair[1] == (Fraction(350, 3), 35)


def test_where_one_master_is_short_of_memory_and_the_other_of_keys_each_resource_is_divided_on_its_own() -> None:
    """No common share adds up to all data, but the capacities of each resource do."""
    masters = [Master("a", capacity={"memory_bytes": 30}), Master("b", capacity={"keys": 30})]
    loads = {"memory_bytes": [10] * 10, "keys": [10] * 10}
    targets = find_targets(validate(problem(loads, "ab" * 5, masters, cost="memory_bytes")))

    assert targets.fair == ((30, 70), (70, 30))


@pytest.mark.parametrize("small", [{"capacity": {"serialized_bytes": 1}}, {"weight": 1e-9}])
def test_a_master_that_stays_and_fits_no_slot_makes_the_limits_impossible_at_once(small: dict[str, object]) -> None:
    """A master without slots becomes a replica, so one that stays keeps a slot: no search is needed to know."""
    masters = [Master("a", **small), Master("b"), Master("c")]  # type: ignore[arg-type]
    cluster = problem([10] * 60, "abc" * 20, masters)
    found = make_plan(cluster)

    assert found.verdict is PlanVerdict.IMPOSSIBLE
    assert [(conflict.nodes, conflict.resources) for conflict in found.conflicts] == [(("a",), ("serialized_bytes",))]
    assert found.owners_after.count("a") == 1
    assert check_plan(cluster, found) == []


def test_loads_may_be_one_array() -> None:
    """A notebook has bytes by slot as numpy array, and nothing else."""
    loads = np.array([10.0] * 30 + [20.0] * 30)
    cluster = Problem(loads=loads, owners=["a"] * 30 + ["b"] * 30, masters=[Master("a"), Master("b")], tolerance=0.05)
    found = make_plan(cluster)

    assert (found.verdict, found.cost) == (PlanVerdict.MOVE, "serialized_bytes")
    assert 0 < found.bound <= found.moved
    assert check_plan(cluster, found) == []


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


def test_a_soft_goal_without_loads_is_refused() -> None:
    """The message names the resource."""
    with pytest.raises(PlanError, match="keys is a soft goal"):
        make_plan(problem([1, 1], "ab", "ab", soft=["keys"]))


def test_a_soft_goal_is_given_up_where_no_plan_keeps_all_limits_and_a_hard_one_is_not() -> None:
    """Pinned slots bring a master above its limit of keys; bytes are balanced as they are."""
    loads = {"serialized_bytes": [10] * 40, "keys": [10] * 20 + [1] * 20}
    hard = problem(loads, "a" * 20 + "b" * 20, "ab", tolerance={"serialized_bytes": 0.02, "keys": 0}, pinned=range(12))
    soft = replace(hard, soft=["keys"])
    found = make_plan(soft)

    assert make_plan(hard).verdict is PlanVerdict.IMPOSSIBLE
    assert (found.verdict, found.given_up) == (PlanVerdict.BALANCED, ("keys",))
    assert check_plan(soft, found) == []
    assert check_plan(hard, found) != []


def test_a_soft_goal_that_costs_many_ranges_is_given_up_and_planning_again_moves_nothing() -> None:
    """One slot has half of a master's bytes and few keys; only single slots could balance both."""
    bytes_of, keys_of = [10] * 240, [10 if s % 2 else 1 for s in range(240)]
    bytes_of[0] = 800
    given = problem(
        {"serialized_bytes": bytes_of, "keys": keys_of},
        "a" * 120 + "b" * 60 + "c" * 60,
        "abc",
        tolerance={"serialized_bytes": 0.02, "keys": 0.02},
        soft=["keys"],
    )
    found = make_plan(given)
    again = make_plan(replace(given, owners=found.owners_after))

    assert make_plan(replace(given, soft=[])).ranges_after > 2 * found.ranges_after
    assert (found.verdict, found.given_up) == (PlanVerdict.MOVE, ("keys",))
    assert check_plan(given, found) == []
    assert again.moves == ()


def test_loads_that_are_only_watched_have_no_soft_goals() -> None:
    """A plan with keys as a soft goal says where it leaves the operations that it does not balance."""
    balanced = problem({"serialized_bytes": [1] * 4, "keys": [1] * 4}, "aabb", "ab", soft=["keys"])
    watched = watch(balanced, {"ops": [4, 0, 0, 0]}, {"ops": 0.02}, "aabb")

    assert watched is not None
    assert [(reach.resource, reach.after) for reach in watched.reach] == [("ops", 2)]
