"""Walks over windows of slots: what they count is so, and masters that are full exchange windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.rebalance.goal.problem import Problem, validate
from cluster_core.rebalance.goal.targets import find_targets
from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.ranges import FIRM, RangeSearch
from cluster_core.rebalance.search.windows import (
    AT,
    BORDER_COUNT,
    BROKEN,
    CAP,
    COST,
    COUNT,
    LOAD,
    MOVED,
    PLACE,
    Goal,
    begin,
    walk,
)
from tests.builders.rebalance_problems import problem, random_problem
from tests.examples import examples


def search_of(cluster: Problem) -> RangeSearch:
    """A search for few ranges from where the slots of *cluster* are."""
    scaled = validate(cluster)
    return RangeSearch(ProblemArrays(scaled, find_targets(scaled)), scaled.owner)


@pytest.mark.long
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.sampled_from([0.0, 0.9]), st.integers(0, 2))
def test_a_walk_counts_what_is_so(seed: int, masters: int, skew: float, drained: int) -> None:
    """Loads, cost, moved slots, borders and broken limits, after steps of one window and of two, are those of the placement that it came to."""
    cluster = random_problem(seed, masters + drained, 200, skew=skew, tolerance=0.05)
    cluster = replace(cluster, masters=[replace(m, drained=n < drained) for n, m in enumerate(cluster.masters)])
    search = search_of(cluster)
    scaled, arrays = search.arrays.scaled, search.arrays
    at = [n if s % 3 else arrays.takers[s % len(arrays.takers)] for s, n in enumerate(scaled.owner)]
    row = search._row([at[s] for s in search.slots], 2.0, FIRM)

    begin(row)
    walk(row, Goal(1e4, 0.0, search.mean_cost, 0.9, 1.0, 1.1, 0.95, 1.0), 5, row.slots[AT, :-1].copy())

    came_to = row.slots[AT, :-1].tolist()
    assert came_to != [at[s] for s in search.slots]
    held = np.zeros_like(row.limits[:, LOAD])
    for s, n in zip(search.slots, came_to, strict=True):
        for r in range(arrays.size):
            held[n * arrays.size + r] += arrays.shares[r][s]
    assert np.allclose(row.limits[:, LOAD], held)
    away = [(s, n) for s, n in zip(search.slots, came_to, strict=True) if n != scaled.owner[s]]
    assert row.tally[MOVED] == len(away)
    assert np.isclose(row.course[COST], sum(arrays.shares[scaled.cost][s] for s, _ in away))
    assert [row.masters[n, COUNT] for n in range(len(row.masters))] == [
        Counter(came_to)[n] for n in range(len(row.masters))
    ]
    borders = [s for s in range(1, len(came_to)) if came_to[s] != came_to[s - 1]]
    assert row.tally[BORDER_COUNT] == len(borders)
    assert [s for s in range(1, len(came_to)) if row.slots[PLACE, s] >= 0] == borders
    assert row.tally[BROKEN] == np.count_nonzero(row.limits[:, LOAD] > row.limits[:, CAP])


@pytest.mark.long
def test_full_masters_exchange_windows() -> None:
    """No slot can move alone where every master is full; two windows of as many can, until every master has one range."""
    names = "abcd"
    owners = "".join(names[s * 7 % 4] for s in range(400))
    cluster = problem({"serialized_bytes": [10] * 400}, owners, names, tolerance=0, headroom=0)
    search = search_of(cluster)

    found = search.find(search.arrays.scaled.owner, float("inf"), (FIRM._replace(price=100.0),))

    assert count_ranges(search.arrays.scaled.owner) == 400
    assert Counter(found) == Counter({0: 100, 1: 100, 2: 100, 3: 100})
    assert count_ranges(found) == 4
