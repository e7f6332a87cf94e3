"""Loads from several windows and from counters that restart."""

from __future__ import annotations

import pytest

from cluster_core.errors import PlanError
from cluster_core.rebalance.loads import SlotCounter, SlotDelta, combine_windows, counter_deltas, merge_rates


def test_a_slot_that_moved_starts_at_nothing():
    """SLOT-STATS counters are 0 on the new owner: the new value is the growth."""
    polls = [
        SlotCounter(1, 7, "a", 100),
        SlotCounter(2, 7, "a", 130),
        SlotCounter(3, 7, "b", 5),
        SlotCounter(4, 7, "b", 9),
    ]

    assert counter_deltas(polls) == [
        SlotDelta(2, 7, "a", 30, False),
        SlotDelta(3, 7, "b", 5, True),
        SlotDelta(4, 7, "b", 4, False),
    ]


def test_a_counter_that_was_reset_counts_from_nothing():
    """CONFIG RESETSTAT sets CPU and network counters to 0."""
    polls = [SlotCounter(1, 7, "a", 100), SlotCounter(2, 7, "a", 3)]

    assert counter_deltas(polls) == [SlotDelta(2, 7, "a", 3, True)]


def test_windows_after_a_move_can_be_left_out():
    """A window in which a slot moved is no rate."""
    deltas = [SlotDelta(2, 0, "a", 30, False), SlotDelta(2, 1, "b", 5, True)]

    assert merge_rates(deltas, 2) == {2: [30.0, 0.0]}
    assert merge_rates(deltas, 2, restarted=True) == {2: [30.0, 5.0]}


@pytest.mark.parametrize(
    ("how", "expected"), [("last", [4.0, 0.0]), ("mean", [2.5, 3.0]), ("p95", [4.0, 6.0]), ("ewma", [2.5, 2.25])]
)
def test_windows_combine_as_asked(how, expected):
    """Windows are oldest first."""
    assert combine_windows([[1, 6], [2, 6], [3, 0], [4, 0]], how, smoothing=0.5)[0] == pytest.approx(
        {"ewma": 3.125}.get(how, expected[0])
    )
    assert combine_windows([[1, 6], [2, 6], [3, 0], [4, 0]], how, smoothing=0.5)[1] == pytest.approx(
        {"ewma": 1.5}.get(how, expected[1])
    )


def test_windows_of_different_length_are_refused():
    """A window that misses slots is a mistake, not a load of 0."""
    with pytest.raises(PlanError, match="window 1 has 1 slots, the first 2"):
        combine_windows([[1, 2], [1]])
