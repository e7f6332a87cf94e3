"""Values that are there several times: counted exactly where they are few or frequent, sampled else."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_core.rdb.measure import STORED_BYTES, VALUES_MAX, EqualValues, shared

SAVING = 150


def counted(values: np.ndarray) -> tuple[int, int]:
    """What is said of *values*, numbers that stand for texts, met in batches as a skim makes them."""
    hashes = np.random.default_rng(1).integers(0, 2**63, int(values.max()) + 1)[values]
    found = EqualValues()
    for first in range(0, len(hashes), 65_536):
        batch = hashes[first : first + 65_536]
        found.add(batch, np.full(len(batch), SAVING))

    assert len(found.held) <= VALUES_MAX
    return shared(found.held, found.shift, found.count)


def true_sums(values: np.ndarray) -> tuple[int, int]:
    _, copies = np.unique(values, return_counts=True)
    several = copies[copies > 1]
    saved = (several - 1) * SAVING - STORED_BYTES
    return int(several[saved > 0].sum()), int(saved[saved > 0].sum())


def test_few_values_are_counted_exactly():
    values = np.random.default_rng(2).integers(0, VALUES_MAX, 100_000)

    assert counted(values) == true_sums(values)


def test_a_few_frequent_values_among_many_that_are_there_once_are_not_multiplied():
    """30 pages of a cache 10,000 times each, 200,000 sessions."""
    rng = np.random.default_rng(3)
    values = np.concatenate((rng.integers(0, 30, 300_000), np.arange(100, 200_100)))
    rng.shuffle(values)

    assert counted(values) == pytest.approx(true_sums(values), rel=0.001)


def test_many_values_that_are_there_some_times_are_estimated_by_a_sample():
    values = np.random.default_rng(4).permutation(np.repeat(np.arange(100_000), 6))

    assert counted(values) == pytest.approx(true_sums(values), rel=0.05)


def test_values_that_are_there_once_save_nothing():
    assert counted(np.arange(300_000)) == (0, 0)
