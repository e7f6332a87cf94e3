"""A request is validated once, and what is wrong is named."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.problem import Master, validate
from tests.builders.rebalance_problems import problem


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ([1, -2, 3], "slot 1 is negative: -2"),
        ([1, 2, math.nan], "slot 2 is nan"),
        ([math.inf, 2, 3], "slot 0 is inf"),
        ([1, None, 3], "slot 1 is missing"),
        ([1, 2], "2 loads for 3 slots"),
    ],
)
def test_a_load_that_cannot_be_is_named_with_its_slot(loads, said):
    """Missing, negative, NaN and infinite loads are refused, never planned with."""
    with pytest.raises(PlanError, match=said):
        validate(problem(loads, "aab", "ab"))


def test_an_owner_that_is_no_master_is_named():
    """A node of the plan that is not in the topology, or a slot without owner."""
    with pytest.raises(PlanError, match="slot 2 belongs to c: no such master"):
        validate(problem([1, 1, 1], "aac", "ab"))
    with pytest.raises(PlanError, match="slot 1 has no owner"):
        validate(problem([1, 1], ["a", ""], "ab"))


def test_capacity_below_the_data_is_impossible():
    """Sums of capacity and data are compared before anything is searched."""
    small = [Master("a", capacity={"serialized_bytes": 3}), Master("b", capacity={"serialized_bytes": 4})]

    with pytest.raises(PlanError, match="impossible: the data is 8 serialized_bytes, all capacity is 7"):
        validate(problem([4, 4], "ab", small))


def test_a_slot_pinned_to_a_drained_master_is_refused():
    """The two wishes contradict each other."""
    with pytest.raises(PlanError, match="slot 0 is pinned to a, which is drained"):
        validate(problem([4, 4], "ab", [Master("a", drained=True), Master("b")], pinned=[0]))


def test_a_weight_of_nothing_needs_the_word_drained():
    """redis-cli gives slots to masters of weight 0; here the request must say what it means."""
    with pytest.raises(PlanError, match="weight of a is 0"):
        validate(problem([4, 4], "ab", [Master("a", weight=0), Master("b")]))


def test_floats_are_counted_in_a_common_unit():
    """Halves and quarters become whole numbers, so that sums are exact."""
    scaled = validate(problem([0.5, 0.25, 3], "aab", "ab", tolerance=0.02))

    assert scaled.units == (4,)
    assert scaled.loads == ((2, 1, 12),)
    assert scaled.tolerance == (Fraction(1, 50),)
