"""Certificates: their prices are the best there are, and what they claim is proven and never too high."""

from __future__ import annotations

import random

import highspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.bound.certificates import make_cover, needs, prove
from cluster_core.rebalance.bound.cover import least
from cluster_core.rebalance.goal.problem import validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.search.covers import Overload, certify
from tests.builders.rebalance_problems import random_problem
from tests.examples import examples


@pytest.mark.parametrize("seed", range(8))
def test_the_prices_of_one_program_are_those_of_each_master_alone(seed):
    """Masters share no slots: each master's own covering program has no higher optimum than its prices prove."""
    scaled = validate(random_problem(seed, 4, 400, skew=0.8, tolerance=0.02))
    targets = find_targets(scaled)
    held = [[s for s, owner in enumerate(scaled.owner) if owner == n] for n in range(4)]
    overloads = [Overload(n, slots, needs(scaled, targets, n, slots)) for n, slots in enumerate(held)]
    overloads = [one for one in overloads if max(one.need) > 0]
    proven = [
        least(make_cover(scaled, one.slots, one.need), [certificate.prices], [-1]) / 2**60
        for one, (certificate, _) in zip(overloads, certify(scaled, overloads), strict=True)
    ]

    assert overloads
    assert proven == pytest.approx([solved(highspy, scaled, one.slots, one.need) for one in overloads], rel=1e-6)


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
    ((certificate, evicted),) = certify(scaled, [Overload(0, slots, need)])
    least = min(
        sum(scaled.loads[0][s] for s in slots if mask >> s & 1)
        for mask in range(1 << count)
        if all(sum(load[s] for s in slots if mask >> s & 1) >= e for load, e in zip(scaled.loads, need, strict=True))
    )

    assert certificate.value <= least
    assert certificate.value >= least * 0.99 - 1
    assert prove(scaled, slots, need, certificate)
    assert all(sum(load[s] for s in evicted) >= e for load, e in zip(scaled.loads, need, strict=True))
