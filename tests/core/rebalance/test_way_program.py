"""Ways to place all light slots at once: as cheap as the program of all slots, in every case, and what is proven by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.rebalance import Case, zipf_problem
from cluster_core.kernels.whole_costs import WholeCosts, add_up
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.bound.joint_proof import coarse, prove_joint
from cluster_core.rebalance.goal.problem import Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.branching import Branching
from cluster_core.rebalance.search.layout import OVER_COST, WORK_MAX, Layout
from cluster_core.rebalance.search.price_lists import PriceLists
from cluster_core.rebalance.search.way_program import CLOSE, WayProgram
from tests.builders.rebalance_problems import random_problem


def laid_out(cluster: Problem) -> Layout:
    scaled = validate(cluster)
    return Layout(ProblemArrays(scaled, find_targets(scaled)))


def by_ways(layout: Layout, heavy: list[int]) -> WayProgram:
    return WayProgram(PriceLists(layout, heavy), OVER_COST, lambda work: None)


@pytest.mark.parametrize("seed", range(6))
def test_mixing_ways_costs_as_little_as_the_program_of_all_slots_wherever_the_heavy_ones_are(seed: int) -> None:
    layout = laid_out(random_problem(seed, 4, 200, empty=seed % 2, skew=0.9, tolerance=0.02))
    heavy = layout.singles[:5]
    ways, whole = by_ways(layout, heavy), layout.program([[s] for s in range(len(layout.slots))], layout.home)

    for held in ({}, {0: 1}, {0: 2, 1: 3}, {0: 0, 1: 0, 4: 2}, {}):
        mixed = ways.solve(held, 10**12)
        least = whole.solve({heavy[h]: n for h, n in held.items()}, whole.work + WORK_MAX).cost
        proven, _ = ways.lists.best(list(held.items()))

        assert least * (1 - 1e-6) <= mixed.cost <= least * (1 + 2 * CLOSE)
        assert proven <= least * (1 + 1e-6)


def test_the_parts_of_slots_that_ways_leave_add_up_to_whole_slots_within_the_limits() -> None:
    """Where no slot is heavy, too."""
    layout = laid_out(random_problem(1, 4, 400, skew=0.5, tolerance=0.05))
    ways = by_ways(layout, [])
    ways.solve({}, 10**12)
    parts = ways.parts()

    assert parts.sum(1) == pytest.approx(1.0)
    assert ((parts > 1e-6) & (parts < 1 - 1e-6)).any()
    assert (parts.T @ layout.rows <= layout.caps * (1 + 1e-6)).all()


def test_a_case_is_left_when_it_is_proven_to_cost_enough() -> None:
    layout = laid_out(random_problem(2, 5, 800, skew=0.9, tolerance=0.02))
    short, long = by_ways(layout, layout.singles[:8]), by_ways(layout, layout.singles[:8])
    cost = long.solve({0: 1, 1: 2}, 10**12).cost
    short.solve({0: 1, 1: 2}, 10**12, cost / 2)

    assert 0 < short.solves < long.solves
    assert cost / 2 <= short.lists.best([(0, 1), (1, 2)])[0] < cost


@pytest.mark.parametrize("scale", [1, 10**30])
def test_costs_are_exact_in_words_and_beyond(scale: int) -> None:
    """The same sums as by plain whole numbers."""
    loads, owner, prices = [[3, 5, 2**20], [7, 0, 11]], [0, 1, 1], [[5, 2], [0, 9 * scale]]
    fee = [10 * scale, 20, 2**31]
    costs = WholeCosts(fee, owner, loads, prices)
    plain = [
        [
            (fee[s] if owner[s] != n else 0) + sum(p * load[s] for p, load in zip(prices[n], loads, strict=True))
            for s in range(3)
        ]
        for n in range(2)
    ]

    assert [[costs.at(s, n) for s in range(3)] for n in range(2)] == plain
    assert add_up(costs.cheapest([0, 1], [(0, 1)])) == plain[1][0] + sum(min(plain[0][s], plain[1][s]) for s in (1, 2))


@pytest.mark.parametrize("factor", [1, 2**70 + 1])
def test_a_proof_in_words_and_one_in_whole_numbers_of_any_size_show_the_same(factor: int) -> None:
    cluster = random_problem(3, 4, 600, skew=0.9, tolerance=0.03)
    scaled, targets = validate(cluster), find_targets(validate(cluster))
    joint = Branching(laid_out(cluster), 50_000_000).proof()
    assert joint is not None
    large = replace(cluster, loads={name: [load * factor for load in loads] for name, loads in cluster.loads.items()})
    more = replace(joint, value=joint.value * factor)

    assert prove_joint(validate(large), find_targets(validate(large)), more)
    assert not prove_joint(
        validate(large), find_targets(validate(large)), replace(more, value=more.value + more.value // 50)
    )
    assert all(a <= b for a, b in zip(coarse(scaled, joint.prices[0]), joint.prices[0], strict=True))
    assert prove_joint(scaled, targets, joint)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 21])
def test_two_of_twelve_masters_with_slots_that_fill_a_master_are_drained_near_the_bound(seed: int) -> None:
    """Whoever takes in a slot that fills a master must give all else like it away: fractions do not show that, cases do."""
    cluster = zipf_problem(Case("", 12, 1.0, 0.0, 0.02, 5, 10), seed)
    masters = [replace(master, drained=n < 2) for n, master in enumerate(cluster.masters)]
    cluster = replace(cluster, masters=masters, bytes_budget=0.05)
    found = plan(cluster)

    assert check_plan(cluster, found) == []
    assert found.gap is not None
    assert found.gap <= 0.05
    assert all(reach.after <= reach.limit for reach in found.reach)
    assert found.ranges_after < 900  # where little moves, 5,000: light slots are placed one by one
