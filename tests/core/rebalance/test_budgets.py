"""Every search of a plan ends with its steps, whatever the loads are."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cluster_core.kernels.placement_program import PlacementProgram
from cluster_core.rebalance import planner
from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.planner import plan, tolerance_table
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.improvement import improve
from cluster_core.rebalance.search.layout import WORK_MAX, Layout
from tests.builders.rebalance_problems import random_problem

SLOTS = 16384
ONE_SOLUTION_MORE = 1.2
"""A program that has work left is solved once more, whatever that takes to set up."""


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> list[PlacementProgram]:
    """Every linear program that a plan solves."""
    made = []

    def program(self: Layout, *columns: Any, **margin: float) -> PlacementProgram:
        made.append(plain(self, *columns, **margin))
        return made[-1]

    plain = Layout.program
    monkeypatch.setattr(Layout, "program", program)
    return made


def hot_tags(masters: int, tags: int) -> Problem:
    """Slots that weigh about the same, a mean master five hundred of them, but for *tags* that weigh a tenth to six tenths of a master."""
    chance = random.Random(1)
    loads = {
        name: [chance.randrange(low, high) for _ in range(SLOTS)]
        for name, low, high in (("serialized_bytes", 500, 1500), ("keys", 1, 5), ("ops", 10, 30))
    }
    shares = {name: sum(row) / masters for name, row in loads.items()}
    for slot in chance.sample(range(SLOTS), tags):
        for name, row in loads.items():
            row[slot] += int(shares[name] * chance.uniform(0.1, 0.6))
    names = [f"{n:040x}" for n in range(masters)]
    return Problem(loads, [names[s * masters // SLOTS] for s in range(SLOTS)], [Master(name) for name in names])


def pareto_keys(masters: int) -> Problem:
    """Keys a slot Pareto(1.6), sizes lognormal(5, 1.1), owners weighted 2.2 down to 0.5."""
    chance = random.Random(7)
    keys = [min(400, int(chance.paretovariate(1.6) * 5)) for _ in range(SLOTS)]
    sizes = [sum(int(chance.lognormvariate(5, 1.1)) for _ in range(count)) for count in keys]
    names = [f"{n:040x}" for n in range(masters)]
    weights = [2.2 - 1.7 * n / (masters - 1) for n in range(masters)]
    owners = sorted(chance.choices(names, weights, k=SLOTS))
    return Problem({"serialized_bytes": sizes, "keys": keys}, owners, [Master(name) for name in names])


@pytest.mark.slow
def test_sixty_hot_tags_on_thirty_masters_end_with_the_work_that_a_program_is_allowed(
    works: list[PlacementProgram],
) -> None:
    """Thousands of slots that weigh about the same are not settled for ever; the plan keeps its limits and its proof holds."""
    problem = hot_tags(30, 60)

    found = plan(problem)

    assert 0 < max(program.work for program in works) <= WORK_MAX * ONE_SOLUTION_MORE
    assert check_plan(problem, found) == []
    assert all(reach.after <= reach.limit for reach in found.reach)


@pytest.mark.slow
def test_all_tolerances_of_a_whole_cluster_end_with_the_work_that_they_are_allowed(
    works: list[PlacementProgram],
) -> None:
    """A fifth of the usual search each; every bound lies below what moves, and none moves more than a tighter one."""
    problem = pareto_keys(6)

    table = tolerance_table(problem, (0.01, 0.02, 0.05, 0.1, 0.2), effort=0.2)

    assert 0 < max(program.work for program in works) <= WORK_MAX // 4 * ONE_SOLUTION_MORE
    assert all(0 <= found.bound <= found.moved for _, found in table)
    assert [found.moved for _, found in table] == sorted((found.moved for _, found in table), reverse=True)


def test_a_program_that_is_cut_short_tells_no_cost_so_that_nobody_takes_it_for_the_cheapest() -> None:
    """All is on two of eight masters: one step from there is no placement, whatever its cost is said to be."""
    chance = np.random.default_rng(3)
    loads = chance.uniform(0.5, 1.5, (64, 2))
    room = np.tile(loads.sum(0) / 8 * 1.05, (8, 1))
    start = np.arange(64) % 2
    fees = (np.arange(8) != start[:, None]) * loads[:, :1]

    cut_short = PlacementProgram(loads, room, fees, start, 1000.0).solve({}, 1)
    whole = PlacementProgram(loads, room, fees, start, 1000.0).solve({}, WORK_MAX)

    assert cut_short.cost == np.inf
    assert 0 < whole.cost < loads[:, 0].sum()


def test_proposals_of_one_search_share_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are missed again and again, and aimed at with headroom and without: every proposal has half the steps of the one before.

    Where they are missed in the end, it is planned once more from there, as whoever plans again would.
    """
    asked = []

    def recorded(arrays: ProblemArrays, *rest: Any) -> Any:
        asked.append(arrays.scaled.problem.iterations)
        return improve(arrays, *rest)

    monkeypatch.setattr(planner, "improve", recorded)
    cluster = random_problem(1, 10, 200, skew=0.6, iterations=65_536)

    plan(replace(cluster, tolerance=0.0001, headroom=0.25))

    assert len(asked) > 1
    assert asked[0] == 65_536
    assert asked.count(65_536) <= 2
    assert all(later in (former // 2, 65_536) for former, later in pairwise(asked))
