"""Hours in which slots may move."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slotscope.plans.maintenance import read_window
from slotscope.runtime.errors import InputError


def at(words: str) -> datetime:
    return datetime.fromisoformat(words).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("window", "zone", "now", "left_s"),
    [
        ("01:00-05:00", "UTC", "2026-03-01 04:59:30", 30),
        ("01:00-05:00", "UTC", "2026-03-01 05:00:00", 0),
        ("01:00-05:00", "UTC", "2026-03-01 00:59:59", 0),
        ("23:00-02:00", "UTC", "2026-03-01 23:30:00", 9000),
        ("23:00-02:00", "UTC", "2026-03-02 01:30:00", 1800),
        ("23:00-02:00", "UTC", "2026-03-02 02:30:00", 0),
        ("01:00-05:00", "+02:00", "2026-02-28 23:30:00", 12600),
        ("01:00-05:00", "Europe/Berlin", "2026-07-01 23:30:00", 12600),
        ("01:00-05:00", "Europe/Berlin", "2026-03-29 00:30:00", 9000),
    ],
)
def test_a_window_is_open_until_it_closes_in_its_zone(window, zone, now, left_s):
    """Over midnight, in other zones, and in the night in which clocks are put forward (01:30 to 05:00 is an hour less)."""
    assert read_window(window, zone).left_s(at(now)) == left_s


def test_it_says_when_it_opens_next():
    window = read_window("01:00-05:00", "Europe/Berlin")

    assert window.next_opening(at("2026-07-01 12:00")).isoformat() == "2026-07-02T01:00:00+02:00"
    assert window.next_opening(at("2026-07-01 22:30")).isoformat() == "2026-07-02T01:00:00+02:00"


def test_its_length_is_known_over_midnight_too():
    assert [read_window(words, "UTC").length_s / 3600 for words in ("01:00-05:30", "23:00-02:00")] == [4.5, 3]


@pytest.mark.parametrize("words", ["", "1-5", "25:00-05:00", "01:00-01:00", "01:60-05:00", "night"])
def test_what_is_no_window_is_refused(words):
    with pytest.raises(InputError, match="write it as 01:00-05:00"):
        read_window(words, "UTC")


def test_a_zone_that_nobody_knows_is_refused():
    with pytest.raises(InputError, match="unknown time zone"):
        read_window("01:00-05:00", "Mars/Olympus")
