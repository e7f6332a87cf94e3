"""Loads from several windows and from counters that restart."""

from __future__ import annotations

import pytest

from cluster_core.errors import PlanError
from cluster_core.load.windows import CounterSample, Growth, combine, combine_windows, counter_deltas, rates

S = 1_000_000_000


def test_a_slot_that_moved_starts_at_nothing():
    """SLOT-STATS counters are 0 on the new owner: the new value is the growth, and not comparable."""
    polls = [
        CounterSample(1 * S, "a", 100),
        CounterSample(2 * S, "a", 130),
        CounterSample(3 * S, "b", 5),
        CounterSample(5 * S, "b", 9),
    ]

    assert counter_deltas(polls) == [
        Growth(2 * S, "a", 30, 1.0, False),
        Growth(3 * S, "b", 5, 1.0, True),
        Growth(5 * S, "b", 4, 2.0, False),
    ]


def test_a_counter_that_was_reset_counts_from_nothing():
    """CONFIG RESETSTAT sets CPU and network counters to 0."""
    assert counter_deltas([CounterSample(1 * S, "a", 100), CounterSample(2 * S, "a", 3)]) == [
        Growth(2 * S, "a", 3, 1.0, True)
    ]


def test_a_returning_slot_is_not_compared_with_its_earlier_counters():
    """What the counter did on the other node is lost."""
    polls = [CounterSample(1 * S, "a", 100), CounterSample(2 * S, "b", 5), CounterSample(3 * S, "a", 120)]

    assert [growth.restarted for growth in counter_deltas(polls)] == [True, True]


def test_rates_leave_out_windows_in_which_a_counter_restarted():
    """They are used where there is nothing else: a lower bound is better than nothing."""
    grown = [Growth(2 * S, "a", 30, 2.0, False), Growth(3 * S, "b", 5, 1.0, True)]

    assert rates(grown) == [15.0]
    assert rates(grown[1:]) == [5.0]
    assert rates([Growth(0, "a", 7, 0.0, False)]) == [7.0]


def test_a_negative_counter_is_refused():
    """Servers count up from 0."""
    with pytest.raises(PlanError, match="negative"):
        counter_deltas([CounterSample(1, "a", -1)])


@pytest.mark.parametrize(
    ("how", "expected"), [("last", [4.0, 0.0]), ("mean", [2.5, 3.0]), ("p95", [4.0, 6.0]), ("ewma", [3.125, 1.5])]
)
def test_windows_combine_as_asked(how, expected):
    assert combine_windows([[1, 6], [2, 6], [3, 0], [4, 0]], how, smoothing=0.5) == pytest.approx(expected)


def test_the_95th_percentile_is_that_of_the_nearest_rank():
    assert combine(list(range(1, 21)), "p95") == 19
    assert combine(list(range(100, 0, -1)), "p95") == 95


@pytest.mark.parametrize(
    ("windows", "how", "smoothing", "reason"),
    [
        ([[1, 2], [1]], "last", 0.3, "window 1 has 1 slots, the first 2"),
        ([], "last", 0.3, "no window"),
        ([[1]], "median", 0.3, "not median"),
        ([[1]], "ewma", 0.0, "smoothing"),
    ],
)
def test_windows_that_do_not_combine_are_refused(windows, how, smoothing, reason):
    """A window that misses slots is a mistake, not a load of 0."""
    with pytest.raises(PlanError, match=reason):
        combine_windows(windows, how, smoothing=smoothing)
