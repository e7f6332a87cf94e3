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
from cluster_core.rebalance.search.arrays import Arrays
from cluster_core.rebalance.search.walks import FIRM, Walks
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


def walks_of(cluster: Problem) -> Walks:
    """Walks within the limits of *cluster*."""
    scaled = validate(cluster)
    return Walks(Arrays(scaled, find_targets(scaled)))


@pytest.mark.long
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 7), st.sampled_from([0.0, 0.9]), st.integers(0, 2))
def test_a_walk_counts_what_is_so(seed: int, masters: int, skew: float, drained: int) -> None:
    """Loads, cost, moved slots, borders and broken limits, after steps of one window and of two, are those of the placement that it came to."""
    cluster = random_problem(seed, masters + drained, 200, skew=skew, tolerance=0.05)
    cluster = replace(cluster, masters=[replace(m, drained=n < drained) for n, m in enumerate(cluster.masters)])
    walks = walks_of(cluster)
    arrays = walks.arrays
    at = arrays.owner.copy()
    at[::3] = np.resize(arrays.takers, len(at[::3]))
    row = walks._row(at, 2.0, FIRM, None)

    begin(row)
    walk(row, Goal(1e4, 1.0, 0.0, 0.002, 0.9, 1.0, 1.1, 0.95, 1.0), 5, row.slots[AT, :-1].copy())

    came_to = row.slots[AT, :-1].copy()
    assert came_to.tolist() != at.tolist()
    assert np.allclose(row.limits[:, LOAD], arrays.held(came_to, arrays.raw).ravel())
    assert row.tally[MOVED] == np.count_nonzero(came_to != arrays.owner)
    assert np.isclose(row.course[COST], arrays.moved(came_to))
    came_to = came_to.tolist()
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
    walks = walks_of(cluster)

    found, _ = walks.find(walks.arrays.owner, float("inf"), (FIRM._replace(price=100.0),), walks.ranges_first)

    assert found is not None
    assert count_ranges(walks.arrays.owner.tolist()) == 400
    assert Counter(found.tolist()) == Counter({0: 100, 1: 100, 2: 100, 3: 100})
    assert count_ranges(found.tolist()) == 4
