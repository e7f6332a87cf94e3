"""Estimates from sampled keys: right on average over all possible samples, with correct errors."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.load.sampling import (
    PREFIX_BYTES_MAX,
    STANDARD_ERRORS,
    Estimate,
    Part,
    SampledKey,
    biggest,
    chance_of_a_key,
    estimate_all,
    estimate_groups,
    most_used,
    prefixes,
    without_only_children,
)

KEY_SPACES = st.lists(st.tuples(st.sampled_from((b"a:", b"b:")), st.integers(0, 1000)), min_size=1, max_size=4)


def part_of(keys: int, draws: Sequence[SampledKey], *, whole: bool = False, master: str = "m") -> Part:
    return Part(master, master, keys, draws, whole)


def group(draw: SampledKey) -> tuple[bytes, ...]:
    return (draw.key[:2],)


@given(KEY_SPACES, st.integers(2, 3))
def test_the_mean_of_all_possible_samples_is_the_truth(keys, count):
    """Every sequence of draws is as likely as any other: the mean of their estimates is the total, that of their variances the variance."""
    space = [SampledKey(prefix + b"%d" % at, size) for at, (prefix, size) in enumerate(keys)]
    samples = list(itertools.product(space, repeat=count))
    estimates = [estimate_groups([part_of(len(space), sample)], group) for sample in samples]
    totals = [estimate[b"a:"].memory_bytes.value if b"a:" in estimate else 0.0 for estimate in estimates]
    counts = [estimate[b"a:"].keys.value if b"a:" in estimate else 0.0 for estimate in estimates]
    variances = [
        (estimate[b"a:"].memory_bytes.error / STANDARD_ERRORS) ** 2 if b"a:" in estimate else 0.0
        for estimate in estimates
    ]
    truth = sum(size for prefix, size in keys if prefix == b"a:")

    assert sum(totals) / len(samples) == pytest.approx(truth)
    assert sum(counts) / len(samples) == pytest.approx(sum(prefix == b"a:" for prefix, _ in keys))
    assert sum(variances) / len(samples) == pytest.approx(
        sum((t - truth) ** 2 for t in totals) / len(samples), abs=1e-6
    )


@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_ranges_hold_the_truth_as_often_as_they_say(spread):
    """Two masters of unlike keys, sizes lognormal, 400 looks of 300 draws each: 95 of 100 ranges, give or take what chance allows."""
    chance = random.Random(14)
    spaces = [
        [SampledKey(b"%s:%d" % (name, at), int(chance.lognormvariate(mean, spread))) for at in range(size)]
        for name, mean, size in ((b"user", 5, 5000), (b"cart", 7, 2000))
    ]
    truth = sum(draw.memory_bytes for space in spaces for draw in space)
    hits = 0
    for _ in range(400):
        parts = [part_of(len(space), chance.choices(space, k=300)) for space in spaces]
        estimate = estimate_all(parts).memory_bytes
        hits += abs(estimate.value - truth) <= estimate.error

    assert 0.91 * 400 <= hits <= 0.985 * 400


@pytest.mark.parametrize("spread", [1.5, 2.0, 2.5])
def test_a_less_reliable_range_is_marked_skewed(spread):
    """Sizes of caches vary widely: 1,000 of 20,000 such keys contain the truth or report possible misses."""
    chance = random.Random(21)
    space = [
        SampledKey(b"%s:%d" % (chance.choice((b"a", b"b")), at), 50 + int(chance.lognormvariate(5, spread)))
        for at in range(20_000)
    ]
    truth = sum(draw.memory_bytes for draw in space if draw.key[:2] == b"a:")
    estimates = [
        estimate_groups([part_of(len(space), chance.choices(space, k=1000))], group)[b"a:"].memory_bytes
        for _ in range(200)
    ]

    missed = [abs(estimate.value - truth) > estimate.error for estimate in estimates]
    silently = [miss and not estimate.skewed for miss, estimate in zip(missed, estimates, strict=True)]
    assert sum(missed) > 0.05 * 200
    assert sum(silently) <= 0.05 * 200


def test_even_sizes_are_not_called_skewed_however_few_were_drawn():
    """Ten draws of a group are few, yet alike: its range holds the truth as often as it says."""
    chance = random.Random(3)
    space = [SampledKey(b"a:" if at % 50 == 0 else b"b:", chance.randint(60, 400)) for at in range(5000)]
    estimates = [
        estimate
        for _ in range(50)
        for estimate in estimate_groups([part_of(len(space), chance.choices(space, k=500))], group).values()
    ]

    assert not any(estimate.keys.skewed or estimate.memory_bytes.skewed for estimate in estimates)


def test_keys_that_were_all_measured_have_no_error():
    parts = [part_of(2, [SampledKey(b"a:1", 10), SampledKey(b"b:1", 30)], whole=True)]

    assert estimate_all(parts) == (Estimate(2.0, 0.0), Estimate(40.0, 0.0), 2)
    assert estimate_groups(parts, group)[b"b:"] == (Estimate(1.0, 0.0), Estimate(30.0, 0.0), 1)
    assert chance_of_a_key(parts) == 1.0


def test_a_single_draw_has_an_error_beyond_its_own_estimate():
    """A single key says nothing of how others differ."""
    estimate = estimate_all([part_of(1000, [SampledKey(b"a", 50)])])

    assert estimate.memory_bytes.value == 50_000
    assert estimate.memory_bytes.error >= 50_000


def test_an_empty_sample_estimates_nothing():
    assert estimate_groups([part_of(10, [])], group) == {}
    assert estimate_all([]).hits == 0


def test_the_biggest_and_the_most_used_keys_come_once_each():
    """Drawn twice, listed once; a key without an LFU counter is not among the used ones."""
    draws = [SampledKey(b"x", 10, 3), SampledKey(b"y", 99, 1), SampledKey(b"y", 99, 1), SampledKey(b"z", 5)]
    parts = [part_of(100, draws)]

    assert [draw.key for _, draw in biggest(parts, 2)] == [b"y", b"x"]
    assert [draw.key for _, draw in most_used(parts, 9)] == [b"x", b"y"]
    assert chance_of_a_key(parts) == pytest.approx(1 - 0.99**4)


def test_prefixes_end_in_separators_and_only_children_stand_for_their_parents():
    """``a:b:`` with all draws of ``a:`` says more than it."""
    groups = estimate_groups(
        [
            part_of(
                9, [SampledKey(b"a:b:1", 1), SampledKey(b"a:b:2", 1), SampledKey(b"c:d:1", 1), SampledKey(b"c:e:1", 1)]
            )
        ],
        lambda draw: prefixes(draw.key, b":", 2),
    )

    assert sorted(without_only_children(groups)) == [b"a:b:", b"c:", b"c:d:", b"c:e:"]
    assert list(prefixes(b"x" * PREFIX_BYTES_MAX + b":", b":", 3)) == []
