"""The work of one plan: all its searches draw on one account, whatever each of them would like."""

from __future__ import annotations

import pytest

from cluster_core.rebalance import planner
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.account import Account
from tests.builders.rebalance_problems import random_problem


def test_what_is_spent_of_a_part_is_spent_of_the_whole_and_no_part_is_more_than_what_is_left() -> None:
    whole = Account(100.0)
    part = whole.part(0.6)
    part.spend(50.0)

    assert (part.left, whole.left) == (10.0, 50.0)
    assert whole.part(0.6).left == 50.0
    assert whole.part(0.6, reserve=0.3).left == 20.0
    assert whole.part(0.6, reserve=0.7).is_over()


def test_a_search_is_shortened_to_what_is_left_and_one_without_an_end_never_is() -> None:
    assert Account(100.0).affords(7, 20.0) == 5
    assert Account(200.0).affords(7, 20.0) == 7
    assert Account().part(0.1).affords(7, 1e12) == 7
    assert Account(100.0, lambda: True).is_over()


@pytest.mark.parametrize("tolerance", [0.001, 0.02])
def test_a_plan_of_little_work_ends_near_it_and_is_the_same_again(
    monkeypatch: pytest.MonkeyPatch, tolerance: float
) -> None:
    """Limits that hold and limits that are missed again and again: every search draws on the same account."""
    accounts = []

    def opened(*given: object) -> Account:
        accounts.append(Account(*given))  # type: ignore[arg-type]
        return accounts[-1]

    monkeypatch.setattr(planner, "WORK_MAX", 4e8)
    monkeypatch.setattr(planner, "Account", opened)
    cluster = random_problem(1, 6, 600, skew=0.6, tolerance=tolerance)

    found = plan(cluster)

    assert len(accounts) == 1
    assert 0 < 4e8 - accounts[0].left < 6e8
    assert plan(cluster) == found
