"""Logs against packets: clocks, time zones, events that only one side tells."""

from __future__ import annotations

import pytest

from benchmarks.fidelity import compare_events
from cluster_core.replay.log_clock import SourceEvent, compare_clocks

A, B = "a" * 40, "b" * 40
S = 1_000_000_000
CAPTURED = [
    SourceEvent(10 * S, "fail-decided", A, 3),
    SourceEvent(11 * S, "election-started", A, 4),
    SourceEvent(11 * S + 5_000_000, "vote", B, 4),
    SourceEvent(50 * S, "fail-decided", A, 9),
    SourceEvent(60 * S, "state-ok", A),
]


def logged(ahead_ns: int) -> list[SourceEvent]:
    """The same events as a log tells them: without some subjects and epochs."""
    return [
        SourceEvent(10 * S + ahead_ns + 2_000_000, "fail-decided", A),
        SourceEvent(11 * S + ahead_ns + 1_000_000, "election-started", "", 4),
        SourceEvent(11 * S + ahead_ns + 5_000_000, "vote", B, 4),
        SourceEvent(50 * S + ahead_ns, "fail-decided", A),
    ]


def test_clocks_that_agree_need_no_warning():
    """A few milliseconds lie between a message and its line."""
    difference = compare_clocks(logged(0), CAPTURED)

    assert difference is not None
    assert (difference.pairs, difference.ahead_ns, difference.spread_ns) == (4, 0, 2_000_000)
    assert difference.warning == ""


@pytest.mark.parametrize(
    ("ahead_ns", "text"),
    [
        (3600 * S, "3600.000 s ahead of packets: the logs are in time zone +01:00"),
        (-19800 * S, "19800.000 s behind packets: the logs are in time zone -05:30"),
        (7 * S, "7.000 s ahead of packets (4 events"),
    ],
)
def test_a_clock_that_is_off_is_named(ahead_ns, text):
    """Quarters of an hour look like a time zone; anything else is a clock."""
    difference = compare_clocks(logged(ahead_ns), CAPTURED)

    assert difference is not None
    assert text in difference.warning


def test_events_that_one_side_repeats_are_not_paired():
    """A capture that begins late lacks some: pairing by order would pair the wrong ones."""
    assert compare_clocks([SourceEvent(1, "fail-decided", A)], CAPTURED) is None
    assert compare_clocks([], []) is None


def test_events_are_paired_one_to_one_within_the_slack():
    """R160 against the wire: both, only the log, only the packets."""
    extra = [*logged(0), SourceEvent(12 * S, "vote", A, 5)]

    agreements = compare_events(extra, [*CAPTURED, SourceEvent(10 * S + 3, "fail-decided", B)])

    assert (agreements["fail-decided"].both, agreements["fail-decided"].log_only) == (2, ())
    assert len(agreements["fail-decided"].bus_only) == 1
    assert (agreements["vote"].both, agreements["vote"].log_only) == (1, (SourceEvent(12 * S, "vote", A, 5),))
