"""The joint bound: proven case by case, never above what any placement moves, and the program behind it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import highspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.bound.joint_proof import prove_joint
from cluster_core.rebalance.goal.problem import Master, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.search import branching as branching_module
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.branching import Branching
from cluster_core.rebalance.search.completion import complete
from cluster_core.rebalance.search.layout import OVER_COST, WORK_MAX, Layout, settle
from tests.builders.rebalance_problems import problem, random_problem
from tests.examples import examples

SHORT = 50_000_000
"""Work of a search that is a test's."""


def laid_out(cluster):
    """The problem as `Branching` takes it, with its whole-number forms."""
    scaled = validate(cluster)
    targets = find_targets(scaled)
    return scaled, targets, Layout(ProblemArrays(scaled, targets))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=7),
    st.integers(2, 3),
    st.sampled_from([0.3, 0.6, 1.0]),
    st.data(),
)
def test_no_placement_within_the_limits_moves_less_than_the_joint_bound(loads, masters, tolerance, data):
    """Every placement there is, heavy slots alone on any master; the last master may be drained."""
    owners = data.draw(st.lists(st.integers(0, masters - 1), min_size=len(loads), max_size=len(loads)))
    drained = masters == 3 and data.draw(st.booleans())
    cluster = problem(
        {"serialized_bytes": [b for b, _ in loads], "keys": [k for _, k in loads]},
        [str(n) for n in owners],
        [Master(str(n), drained=drained and n == 2) for n in range(masters)],
        tolerance=tolerance,
    )
    scaled, targets, layout = laid_out(cluster)
    joint = Branching(layout, SHORT).proof()
    takers = range(masters - drained)
    least = [
        sum(loads[s][0] for s, n in enumerate(placed) if n != owners[s])
        for placed in product(takers, repeat=len(loads))
        if all(keeps_limit(scaled, targets, placed, m, r) for m in takers for r in (0, 1))
    ]

    assert prove_joint(scaled, targets, joint)
    assert not least or joint.value <= min(least)


def keeps_limit(scaled, targets, placed, m, r):
    """Whether master *m* holds no more of resource *r* than all may, or one heavy slot and nothing beside it."""
    held = [(s, scaled.loads[r][s]) for s, n in enumerate(placed) if n == m and scaled.loads[r][s]]
    heavy = {h.slot for h in targets.heavy if h.resource == scaled.resources[r]}
    alone = len(held) == 1 and held[0][0] in heavy
    return alone or sum(load for _, load in held) <= targets.common[m][r]


def test_a_joint_proof_is_no_proof_where_a_heavy_slot_may_have_another_host():
    """All keys but one slot's are on the first master: it need not be the host, nor must that slot move to the third."""
    scaled, targets, layout = laid_out(FULL_OF_KEYS)
    joint = Branching(layout, SHORT).proof()

    assert [h.slot for h in targets.heavy] == [0]
    assert prove_joint(scaled, targets, joint)
    assert joint.value <= 10 < sum(FULL_OF_KEYS.loads["serialized_bytes"][1:8])
    assert not prove_joint(scaled, targets, replace(joint, value=11))


FULL_OF_KEYS = problem(
    {"serialized_bytes": [2, 60, 60, 60, 60, 60, 60, 60] + [2] * 4 + [69] * 8, "keys": [900] + [10] * 19},
    "aaaaaaaabbbbcccccccc",
    "abc",
    tolerance=0.7,
)
"""The first master has a slot of very many keys and few bytes, and much besides; the second has hardly any bytes."""


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_joint_proof_that_says_more_or_leaves_out_a_case_is_found_out(seed):
    """Value, prices and tree each matter."""
    scaled, targets, layout = laid_out(random_problem(seed, 4, 600, skew=0.9, tolerance=0.03))
    joint = Branching(layout, SHORT).proof()

    assert prove_joint(scaled, targets, joint)
    assert not prove_joint(scaled, targets, replace(joint, value=joint.value + joint.value // 50 + 1))
    assert not prove_joint(scaled, targets, replace(joint, tree=joint.tree[:-1]))
    assert not prove_joint(scaled, targets, replace(joint, tree=(*joint.tree, -1)))
    assert not prove_joint(
        scaled, targets, replace(joint, prices=tuple(tuple(-p for p in row) for row in joint.prices))
    )
    assert not prove_joint(scaled, targets, replace(joint, tree=tuple(99 if e >= 0 else -99 for e in joint.tree)))


def test_heavy_slots_raise_the_bound_above_what_fractions_prove():
    """Half of one of two equal slots cannot move."""
    _, _, layout = laid_out(problem([60, 60, 10, 10, 10, 50, 40, 50], "aaaaabbc", "abc", tolerance=0.1))
    search = Branching(layout, SHORT)

    assert search.proof().value > layout.mean[0] * search.lists.proven(())[0] + 1


def test_the_same_search_decides_and_completes_alike():
    """The same arithmetic on every run: the same placement, the same proof."""
    _, _, layout = laid_out(random_problem(4, 4, 60, empty=1, skew=0.8, tolerance=0.1))
    first, second = Branching(layout, SHORT), Branching(layout, SHORT)

    assert first.proof() == second.proof()
    assert complete(layout, first.decided(), layout.home, 0.02, runs=True) == complete(
        layout, second.decided(), layout.home, 0.02, runs=True
    )


@pytest.mark.parametrize("seed", range(6))
def test_making_variables_when_they_are_needed_loses_nothing(seed):
    """The program with all its variables, as HiGHS solves it at once, is no cheaper."""
    _, _, layout = laid_out(random_problem(seed, 4, 200, empty=seed % 2, skew=0.9, tolerance=0.02))
    program = layout.program([[s] for s in range(len(layout.slots))], layout.home)
    spread = program.solve({}, WORK_MAX)

    assert spread.cost == pytest.approx(solved(layout), rel=1e-6)
    assert len(spread.divided) <= layout.caps.size


def solved(layout):
    """The optimum of the whole program by HiGHS."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    masters = range(len(layout.takers))
    parts = [
        [model.addVariable(0, 1, 0 if n == layout.home[s] else row[0]) for n in masters]
        for s, row in enumerate(layout.rows)
    ]
    for part in parts:
        model.addConstr(sum(part[1:], part[0]) == 1)
    for n in masters:
        for r in range(layout.size):
            over = model.addVariable(0, highspy.kHighsInf, OVER_COST)
            load = sum((row[r] * part[n] for row, part in zip(layout.rows, parts, strict=True)), 0 * over)
            model.addConstr(load - over <= layout.caps[n, r])
    model.run()
    return model.getInfo().objective_function_value


def test_the_search_ends_when_its_work_is_done(monkeypatch):
    """A proof of few cases is a proof, and heavy slots are placed all the same."""
    monkeypatch.setattr(branching_module, "CLOSE_ENOUGH", 0.0)
    scaled, targets, layout = laid_out(random_problem(3, 5, 800, skew=0.9, tolerance=0.02))
    short, long = Branching(layout, 1), Branching(layout, SHORT)

    assert prove_joint(scaled, targets, short.proof())
    assert short.proof().value <= long.proof().value
    assert set(short.decided()) == set(long.decided())


@pytest.mark.parametrize("few_limits", [40, 0])
def test_no_proof_has_more_cases_than_its_check_looks_at(few_limits, monkeypatch):
    """By ways, and by bundles."""
    monkeypatch.setattr(branching_module, "FEW_LIMITS", few_limits)
    monkeypatch.setattr(branching_module, "CASES_MAX", 16)
    monkeypatch.setattr(branching_module, "CLOSE_ENOUGH", 0.0)
    scaled, targets, layout = laid_out(random_problem(3, 5, 800, skew=0.8, tolerance=0.02))
    joint = Branching(layout, 4 * SHORT).proof()

    assert prove_joint(scaled, targets, joint)
    assert 5 < len(joint.tree) <= 16


def test_settling_ends_where_a_column_that_is_held_does_not_fit():
    """Two slots that fill both masters, and a third: it is held somewhere, above the limit."""
    _, _, layout = laid_out(problem([10, 10, 10], "aab", "ab", tolerance=0))
    layout.caps[:] = 1.2
    program = layout.program([[0], [1], [2]], [0, 0, 1])
    spread = settle(program, program.solve({}, WORK_MAX), {}, 3, WORK_MAX)

    assert spread.divided == []
    assert spread.cost > OVER_COST * 0.5


def test_a_program_ends_when_its_work_is_done():
    """What it has by then is a placement, though not the cheapest."""
    _, _, layout = laid_out(random_problem(3, 5, 800, skew=0.9, tolerance=0.02))
    columns = [[s] for s in range(len(layout.slots))]
    short, long = layout.program(columns, layout.home), layout.program(columns, layout.home)

    assert short.solve({}, 1).cost > long.solve({}, WORK_MAX).cost
    assert short.work < long.work
