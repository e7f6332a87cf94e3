"""Accesses a second from LFU counters, beside a server's own arithmetic."""

from __future__ import annotations

import random

import pytest

from cluster_core.load.key_use import NEW_KEY_COUNTER, LfuSettings, accesses_per_s


@pytest.mark.parametrize(("rate_per_min", "within"), [(8, 0.3), (20, 0.1), (100, 0.1)])
def test_rates_of_many_keys_are_right_on_average(rate_per_min, within):
    """A counter is read above its level: the estimate was that rate, three times the rate of keys used twice a minute."""
    rates = accesses_per_s(LfuSettings())
    assert rates is not None
    chance, counter, touched, at, mean = random.Random(8), 10, 0, 0.0, 0.0
    for _ in range(60_000):
        at += chance.expovariate(rate_per_min)
        counter = max(counter - int(at) + touched, 0)
        touched = int(at)
        mean += rates[counter] * 60 / 60_000 if counter > NEW_KEY_COUNTER else 0
        if chance.random() < 1 / (max(counter - NEW_KEY_COUNTER, 0) * 10 + 1):
            counter += 1

    assert mean == pytest.approx(rate_per_min, rel=within)


def test_counters_up_to_that_of_a_new_key_give_the_same_rate():
    rates = accesses_per_s(LfuSettings())

    assert rates is not None
    assert rates[0] == rates[NEW_KEY_COUNTER] == pytest.approx(1 / 60)
    assert all(
        lower < higher for lower, higher in zip(rates[NEW_KEY_COUNTER:], rates[NEW_KEY_COUNTER + 1 :], strict=False)
    )
    assert rates[255] == pytest.approx((2501 + 2491) / 2 / 60)


def test_counters_that_never_fall_give_no_rate():
    assert accesses_per_s(LfuSettings(decay_minutes=0)) is None
