"""How long a plan holds: growth between two measurements, carried on."""

from __future__ import annotations

import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.outlook import Due, Growth, look_ahead
from cluster_core.rebalance.goal.problem import Master
from tests.builders.rebalance_problems import problem

DAY = 86_400.0


def outlook(earlier, later, owners, masters, limit=1.1, seconds=DAY):
    """What is ahead of a cluster of one resource."""
    cluster = problem(later, owners, masters)
    growth = Growth(seconds, {"serialized_bytes": earlier}, {"serialized_bytes": later})
    return look_ahead(cluster, list(owners), growth, {"serialized_bytes": limit})


def test_a_master_that_grows_by_ten_a_day_reaches_a_capacity_thirty_above_in_three_days():
    """The first of two masters to get there is told."""
    masters = [Master("a", capacity={"serialized_bytes": 150}), Master("b", capacity={"serialized_bytes": 400})]
    found = outlook([60, 50, 100], [65, 55, 110], "aab", masters)

    assert found.capacity == {"serialized_bytes": Due(3 * DAY, "a")}


def test_slots_count_for_the_master_that_will_own_them():
    """The growth of a slot that moves goes with it."""
    cluster = problem([20, 10], "ab", [Master("a"), Master("b", capacity={"serialized_bytes": 50})])
    growth = Growth(DAY, {"serialized_bytes": [10, 10]}, {"serialized_bytes": [20, 10]})

    assert look_ahead(cluster, ["a", "b"], growth, {}).capacity == {}
    assert look_ahead(cluster, ["b", "b"], growth, {}).capacity == {"serialized_bytes": Due(2 * DAY, "b")}


def test_a_master_that_grows_faster_than_the_others_gets_out_of_balance():
    """100 and 100, one grows by 10 a day: 100 + 10 t = 1.1 (100 + 5 t) after 10 / 4.5 days."""
    found = outlook([90, 100], [100, 100], "ab", "ab")

    assert found.balance["serialized_bytes"].node == "a"
    assert found.balance["serialized_bytes"].seconds == pytest.approx(DAY * 10 / 4.5)


@pytest.mark.parametrize("earlier", [[100, 100], [90, 90], [110, 110]])
def test_equal_growth_and_no_growth_hold(earlier):
    found = outlook(earlier, [100, 100], "ab", "ab")

    assert (found.balance, found.capacity) == ({}, {})


def test_shares_go_by_weight_and_drained_masters_have_none():
    """Twice the weight may hold twice as much."""
    masters = [Master("a", weight=2), Master("b"), Master("c", drained=True)]

    assert outlook([200, 100, 0], [200, 100, 0], "abc", masters).balance == {}
    assert outlook([200, 100, 0], [200, 130, 0], "abc", masters).balance == {"serialized_bytes": Due(0.0, "b")}


def test_what_was_not_measured_twice_is_not_told():
    """Of operations there is one measurement only."""
    cluster = problem({"serialized_bytes": [1, 1], "ops": [5, 1]}, "ab", "ab")
    growth = Growth(DAY, {"serialized_bytes": [1, 1]}, {"serialized_bytes": [2, 1]})

    assert look_ahead(cluster, ["a", "b"], growth, {"serialized_bytes": 1.5, "ops": 1.5}).balance.keys() == {
        "serialized_bytes"
    }


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_measurements_of_one_time_are_no_growth(seconds):
    """Nor any that go backwards."""
    with pytest.raises(PlanError, match="the later one after the earlier"):
        outlook([1], [1], "a", "a", seconds=seconds)
