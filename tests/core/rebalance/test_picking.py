"""Windows of light slots, and as few picked ones as limits allow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.rebalance import Case, zipf_problem
from cluster_core.rebalance.goal.problem import Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search.arrays import SLOT_COST, ProblemArrays
from cluster_core.rebalance.search.branching import Branching
from cluster_core.rebalance.search.completion import complete
from cluster_core.rebalance.search.layout import Layout
from cluster_core.rebalance.search.picking import Picking
from tests.builders.rebalance_problems import random_problem

SHORT = 200_000


def skewed(seed: int, **more: object) -> Problem:
    """Four masters of a thousand slots, some of them a large part of a limit."""
    return random_problem(seed, 4, 4000, skew=0.9, tolerance=0.02, iterations=SHORT, **more)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 3])
def test_few_slots_leave_their_windows_and_limits_and_budget_are_kept(seed: int) -> None:
    """The placement of fewest bytes has light slots wherever each is cheapest on its own."""
    cluster = zipf_problem(Case("", 6, 1.0, 0.0, 0.02, 5, 10), seed)
    scaled = validate(cluster)
    arrays = ProblemArrays(scaled, find_targets(scaled))
    layout = Layout(arrays)
    search = Branching(layout)
    least = complete(layout, search.decided(), layout.home, SLOT_COST, runs=False, parts=search.parts())
    spent = moved(layout, least)
    picking = Picking(layout, least, layout.home, 1.05 * spent)

    for _ in range(2):
        placed = picking.place()
        picking.go_on(placed)

    assert arrays.judge(layout.outside(placed)).over < 5  # mean slots, of 2,785 a limit: less than walks mend
    assert moved(layout, placed) <= 1.05 * spent
    assert count_ranges(layout.outside(placed)) < count_ranges(layout.outside(least)) / 3


def moved(layout: Layout, placed: Sequence[int]) -> float:
    """What moves, in mean slots."""
    return sum(float(layout.costs[s]) for s, home in enumerate(layout.home) if placed[s] != home)


def test_pinned_slots_stay_whatever_windows_there_are() -> None:
    """Also where their neighbours are in a window of another master."""
    cluster = skewed(5, pinned=(3, 700, 701, 2500))
    scaled = validate(cluster)
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    elsewhere = [(home + 1) % 4 for home in layout.home]
    picking = Picking(layout, layout.home, elsewhere, float("inf"))

    at = layout.outside(picking.place())

    assert all(at[s] == scaled.owner[s] for s in cluster.pinned)


def test_a_slot_is_at_home_in_the_window_around_it_and_not_where_it_was_picked_to() -> None:
    """Left in the window of either neighbour it is no pick."""
    scaled = validate(skewed(1))
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    picking = Picking(layout, layout.home, layout.home, float("inf"))
    heavy = layout.singles[0]
    placed = [2 if s == heavy else 1 for s in range(len(layout.slots))]

    picking.go_on(placed)

    assert set(picking.base) == {1}
