"""The compiled loops do what the plain ones do, bit by bit, and the prices are those of a solver."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.kernels.rebalance_engine import ENGINE
from cluster_core.rebalance.bound.certificates import certify, make_cover, needs, prove
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.planner import plan
from cluster_core.rebalance.search.engine import PLAIN
from tests.builders.rebalance_problems import random_problem
from tests.examples import examples


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.sampled_from([0.0, 0.4, 1.0]))
def test_both_engines_give_the_same_plan(seed, masters, skew):
    """One source, interpreted and compiled: the same arithmetic, the same plan."""
    cluster = random_problem(seed, masters, 48, empty=masters // 3, skew=skew, tolerance=0.1, iterations=6 * 1024)

    assert plan(cluster, PLAIN) == plan(cluster, ENGINE)


@pytest.mark.parametrize("seed", range(8))
def test_the_prices_are_those_of_a_solver(seed):
    """HiGHS on the same covering programs finds no higher bound than the prices prove."""
    highspy = pytest.importorskip("highspy", reason="highspy is not installed")
    scaled = validate(random_problem(seed, 4, 400, skew=0.8, tolerance=0.02))
    targets = find_targets(scaled)
    compared = 0
    for n in range(4):
        slots = [s for s, owner in enumerate(scaled.owner) if owner == n]
        need = needs(scaled, targets, n, slots)
        if max(need) <= 0:
            continue
        certificate, _ = certify(scaled, need, n, slots, ENGINE)
        base = make_cover(scaled, slots, need, certificate.prices).base / 2**60
        assert base == pytest.approx(solved(highspy, scaled, slots, need), rel=1e-6)
        compared += 1

    assert compared


def solved(highspy, scaled, slots, need):
    """The optimum of the covering program by HiGHS."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    chosen = [model.addVariable(0, 1, scaled.loads[scaled.cost][s] / 1e5) for s in slots]
    for load, wanted in zip(scaled.loads, need, strict=True):
        mean = sum(load) / len(load)
        if wanted > 0:
            model.addConstr(sum(load[s] / mean * x for s, x in zip(slots, chosen, strict=True)) >= wanted / mean)
    model.run()
    return model.getInfo().objective_function_value * 1e5


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 12))
def test_a_certificate_is_proven_in_whole_numbers_and_is_never_too_high(seed, count):
    """The bound of one master against every way to relieve it."""
    chance = random.Random(seed)
    scaled = validate(random_problem(seed, 2, 2 * count, skew=0.7, tolerance=0.02))
    slots = list(range(count))
    need = [chance.randint(-5, sum(load[s] for s in slots)) for load in scaled.loads]
    if max(need) <= 0:
        need[0] = 1
    certificate, evicted = certify(scaled, need, 0, slots, ENGINE)
    least = min(
        sum(scaled.loads[0][s] for s in slots if mask >> s & 1)
        for mask in range(1 << count)
        if all(sum(load[s] for s in slots if mask >> s & 1) >= e for load, e in zip(scaled.loads, need, strict=True))
    )

    assert certificate.value <= least
    assert certificate.value >= least * 0.99 - 1
    assert prove(scaled, slots, need, certificate)
    assert all(sum(load[s] for s in evicted) >= e for load, e in zip(scaled.loads, need, strict=True))
