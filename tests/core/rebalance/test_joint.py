"""The joint bound: proven case by case, never above what any placement moves, and the program behind it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.kernels.rebalance_engine import ENGINE
from cluster_core.rebalance.bound import branching as branching_module
from cluster_core.rebalance.bound.branching import Branching
from cluster_core.rebalance.bound.joint import prove_joint
from cluster_core.rebalance.bound.program import OVER_COST, Layout, Program
from cluster_core.rebalance.goal.problem import Master, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.search.arrays import Ground
from cluster_core.rebalance.search.completion import complete
from cluster_core.rebalance.search.engine import PLAIN
from tests.builders.rebalance_problems import problem, random_problem
from tests.examples import examples


def laid_out(cluster, engine=ENGINE):
    """The problem as `Branching` takes it, with its whole-number forms."""
    scaled = validate(cluster)
    targets = find_targets(scaled)
    return scaled, targets, Layout(Ground(scaled, targets, engine))


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=7),
    st.integers(2, 3),
    st.sampled_from([0.3, 0.6, 1.0]),
    st.data(),
)
def test_no_placement_within_the_limits_moves_less_than_the_joint_bound(loads, masters, tolerance, data):
    """Every placement there is; the last master may be drained."""
    owners = data.draw(st.lists(st.integers(0, masters - 1), min_size=len(loads), max_size=len(loads)))
    drained = masters == 3 and data.draw(st.booleans())
    cluster = problem(
        {"serialized_bytes": [b for b, _ in loads], "keys": [k for _, k in loads]},
        [str(n) for n in owners],
        [Master(str(n), drained=drained and n == 2) for n in range(masters)],
        tolerance=tolerance,
    )
    scaled, targets, layout = laid_out(cluster)
    joint = Branching(layout).proof()
    takers = range(masters - drained)
    least = [
        sum(loads[s][0] for s, n in enumerate(placed) if n != owners[s])
        for placed in product(takers, repeat=len(loads))
        if all(
            sum(loads[s][r] for s, n in enumerate(placed) if n == m) <= targets.caps[m][r]
            for m in takers
            for r in (0, 1)
        )
    ]

    if joint is None:
        assert targets.heavy
    else:
        assert prove_joint(scaled, targets, joint)
        assert not least or joint.value <= min(least)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_joint_proof_that_says_more_or_leaves_out_a_case_is_found_out(seed):
    """Value, prices and tree each matter."""
    scaled, targets, layout = laid_out(random_problem(seed, 4, 600, skew=0.9, tolerance=0.03))
    joint = Branching(layout).proof()

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
    search = Branching(layout)

    assert search.proof().value > layout.mean[0] * search._pool[0].total + 1


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_both_engines_decide_and_complete_alike(seed, masters, runs):
    """One source, interpreted and compiled: the same arithmetic, the same placement, the same proof."""
    cluster = random_problem(seed, masters, 60, empty=masters // 3, skew=0.8, tolerance=0.1)
    results = []
    for engine in (PLAIN, ENGINE):
        _, _, layout = laid_out(cluster, engine)
        search = Branching(layout, 10**7)
        results.append((search.proof(), complete(layout, search.decided(), layout.home, 0.02, runs=runs)))

    assert results[0] == results[1]


@pytest.mark.parametrize("seed", range(6))
def test_the_program_is_solved_as_a_solver_does(seed):
    """HiGHS on the same linear program."""
    highspy = pytest.importorskip("highspy", reason="highspy is not installed")
    _, _, layout = laid_out(random_problem(seed, 4, 200, empty=seed % 2, skew=0.9, tolerance=0.02))
    program = Program(layout, [[s] for s in range(len(layout.slots))])
    basis = program.start(layout.home, [-1] * len(layout.slots))
    cost = program.solve(basis, warm=False)

    assert cost == pytest.approx(solved(highspy, layout), rel=1e-6)
    assert len(program.divided(basis)) <= program.m


def solved(highspy, layout):
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
            model.addConstr(load - over <= layout.caps[n * layout.size + r])
    model.run()
    return model.getInfo().objective_function_value


def test_the_search_ends_when_its_work_is_done(monkeypatch):
    """A proof of few cases is a proof, and heavy slots are placed all the same."""
    monkeypatch.setattr(branching_module, "CLOSE_ENOUGH", 0.0)
    scaled, targets, layout = laid_out(random_problem(3, 5, 800, skew=0.9, tolerance=0.02))
    short, long = Branching(layout, 1), Branching(layout, 10**8)

    assert prove_joint(scaled, targets, short.proof())
    assert short.proof().value <= long.proof().value
    assert set(short.decided()) == set(long.decided())


def test_settling_ends_where_a_column_that_is_held_does_not_fit():
    """Two slots that fill both masters, and a third: it stays divided wherever it is held."""
    _, _, layout = laid_out(problem([10, 10, 10], "aab", "ab", tolerance=0))
    layout.caps = [1.2, 1.2]
    program = Program(layout, [[0], [1], [2]])
    basis = program.start([0, 0, 1], [-1, -1, -1])
    program.solve(basis, warm=False)

    program.settle(basis, 3)

    assert all(basis.held[s] >= 0 for s in program.divided(basis))
