"""What compressing values saves: the truth for a small file, within the told error for a sample of a large one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cluster_core.advice.changes import SAMPLED_MIN, VALUE_BYTES_MAX, TextSums, estimate
from cluster_core.rdb.measure import compressed_sizes, sampled_columns


def sums_of(held: np.ndarray, saved: np.ndarray, chosen: np.ndarray, shift: int) -> TextSums:
    """The sums of texts, of which those that are *chosen* were compressed."""
    columns = sampled_columns(held[chosen], saved[chosen], np.full(chosen.sum(), shift)).sum(axis=0).tolist()
    return TextSums(len(held), int(held.sum()), *columns)


def population(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bytes in memory of values, and what compression saves of each: some kinds shrink well, others hardly."""
    rng = np.random.default_rng(seed)
    held = rng.integers(64, 4000, 20_000) // 8 * 8
    return held, (held * rng.choice([0.0, 0.3, 0.8], 20_000)).astype(np.int64)


def test_sizes_are_those_of_zstd_and_the_rest_of_a_large_value_is_taken_for_the_same():
    text = b"a text that repeats itself, " * 40
    large = text * (3 * VALUE_BYTES_MAX // len(text))
    one, head, many = compressed_sizes([memoryview(text), memoryview(large[:VALUE_BYTES_MAX]), memoryview(large)])

    assert one == len(pa.Codec("zstd").compress(text, asbytes=True)) < len(text) // 10
    assert many == head * len(large) // VALUE_BYTES_MAX


def test_the_truth_is_within_the_error_of_nearly_every_sample():
    """95 of 100 by design; files that were sampled at different rates add up."""
    held, saved = population(2)
    half, within, errors = len(held) // 2, 0, []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        parts = [
            sums_of(held[:half], saved[:half], rng.random(half) < 1 / 16, 4),
            sums_of(held[half:], saved[half:], rng.random(half) < 1 / 64, 6),
        ]
        found = estimate(TextSums(*map(sum, zip(*parts, strict=True))))
        assert found is not None
        within += abs(found.saved_bytes - int(saved.sum())) <= found.error_bytes
        errors.append(found.error_bytes / int(saved.sum()))

    assert within >= 184
    assert max(errors) < 0.15


def test_of_a_sample_that_is_too_small_nothing_is_said():
    held, saved = population(3)
    few = np.zeros(len(held), np.bool_)
    few[: SAMPLED_MIN - 1] = True

    assert estimate(sums_of(held, saved, few, 10)) is None
    assert estimate(TextSums()) is None
    assert estimate(sums_of(held[:5], saved[:5], few[:5], 0)) is not None
