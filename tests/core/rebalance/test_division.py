"""Heavy slots that fill every limit among them are divided exactly."""

from __future__ import annotations

import random

import pytest

from cluster_core.rebalance.bound.check import check_plan
from cluster_core.rebalance.goal.problem import Master, Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import PlanVerdict
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.division import Division, has_many
from cluster_core.rebalance.search.layout import Layout

WHOLE = 10_000
RESOURCES = ("serialized_bytes", "keys", "ops")


def broken_up(seed: int, *, masters: int = 4, heavy: int = 6, light: int = 450) -> Problem:
    """Masters that could each hold *heavy* slots of `WHOLE` in every resource, all slots shuffled over them; and light ones."""
    chance = random.Random(seed)
    rows = [(2, 2, 2)] * (masters * light)
    for _ in range(masters):
        cuts = [[0, *sorted(chance.sample(range(1, WHOLE), heavy - 1)), WHOLE] for _ in RESOURCES]
        rows += [tuple(cut[k + 1] - cut[k] for cut in cuts) for k in range(heavy)]  # type: ignore[misc]
    chance.shuffle(rows)
    names = [f"n{k}" for k in range(masters)]
    loads = {name: [row[r] for row in rows] for r, name in enumerate(RESOURCES)}
    owners = [names[s * masters // len(rows)] for s in range(len(rows))]
    return Problem(loads, owners, [Master(n) for n in names], tolerance=0.01, bytes_budget=0, iterations=200_000)


@pytest.mark.long
def test_limits_that_heavy_slots_fill_almost_wholly_are_kept() -> None:
    problem = broken_up(2)

    found = plan(problem)

    assert found.verdict == PlanVerdict.MOVE
    assert check_plan(problem, found) == []


@pytest.mark.long
def test_two_masters_never_divide_what_they_hold_so_that_more_moves_or_limits_break() -> None:
    scaled = validate(broken_up(1))
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    division = Division(layout, layout.home, over=True)

    before = division.value
    division.improve()

    assert division.value <= before
    assert sorted(division.decided()) == sorted(layout.singles)


def test_a_division_begins_where_slots_are_and_moves_none_where_all_limits_are_kept() -> None:
    problem = broken_up(1)
    scaled = validate(Problem(problem.loads, problem.owners, problem.masters, tolerance=10))
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    division = Division(layout, layout.home, over=False)

    division.improve()

    assert division.decided() == {s: layout.home[s] for s in layout.singles[: len(division.heavy)]}
    assert division.value == 0


def test_heavy_slots_that_only_fit_in_pairs_are_packed_among_many_masters() -> None:
    """Each of 20 masters holds two slots of the same size; only a light one with a heavy one keeps the limits."""
    masters, light = 20, 60
    hot = [600] * (masters // 2) + [400] * (masters // 2)
    rows = [(40, hot[k]) for k in range(masters) for _ in range(2)]
    owners = [k for k in range(masters) for _ in range(2)] + [k for k in range(masters) for _ in range(light)]
    loads = {"serialized_bytes": [row[0] for row in rows] + [50] * (masters * light)}
    loads["ops"] = [row[1] for row in rows] + [10] * (masters * light)
    nodes = [Master(f"n{k:02}") for k in range(masters)]
    scaled = validate(Problem(loads, [nodes[n].id for n in owners], nodes, tolerance=0.02))
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))

    division = Division(layout, layout.home, over=True)

    held = [0] * masters
    for s, n in division.decided().items():
        held[n] += loads["ops"][layout.slots[s]] if layout.slots[s] < len(rows) else 0
    assert max(held) <= 1_000
    assert sum(1 for s, n in division.decided().items() if layout.home[s] != n) <= masters + 4


@pytest.mark.parametrize(("masters", "light"), [(5, 500), (24, 100)])
def test_masters_that_keep_their_limits_are_divided_all_at_once(masters: int, light: int) -> None:
    """Slots of half a master each went in a circle: every one goes home, which no two masters could do between them."""
    rows = [(1_000, 1_000 + 10 * (k % 10)) for k in range(2 * masters)]
    owners = [k // 2 for k in range(2 * masters)] + [k for k in range(masters) for _ in range(light)]
    loads = {"serialized_bytes": [row[0] for row in rows] + [500 // light] * (masters * light)}
    loads["ops"] = [row[1] for row in rows] + [500 // light] * (masters * light)
    nodes = [Master(f"n{k:02}") for k in range(masters)]
    scaled = validate(Problem(loads, [nodes[n].id for n in owners], nodes, tolerance=0.05))
    layout = Layout(ProblemArrays(scaled, find_targets(scaled)))
    turned = [(n + 1) % masters if loads["ops"][s] > 5 else n for s, n in enumerate(layout.home)]

    division = Division(layout, turned, over=False, coarse=has_many(layout))
    division.improve()

    assert division.value == 0
    assert division.decided() == {s: layout.home[s] for s in division.heavy}
