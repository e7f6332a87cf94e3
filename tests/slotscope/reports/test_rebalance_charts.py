"""The drawings of a plan as coordinates: inside their frame, in order, cut where a giant would flatten all others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slotscope.reports.line_chart import ticks_between
from slotscope.reports.rebalance.charts import (
    HEIGHT,
    PROFILE_HEIGHT,
    PROFILE_LIMITS_MAX,
    PROFILE_POINTS_MAX,
    PROFILE_WIDTH,
    WIDTH,
    curve,
    profile,
)


def places(points: str) -> list[tuple[float, float]]:
    """Coordinates of the points of a line."""
    return [(float(x), float(y)) for x, y in (point.split(",") for point in points.split())]


@given(st.floats(min_value=1e-3, max_value=1e18))
def test_ticks_are_round_few_and_reach_the_highest(highest: float) -> None:
    """From 0, evenly, the last one at or above the highest, the one before below it."""
    ticks = ticks_between(0.0, highest, 4)

    assert ticks[0] == 0
    assert 2 <= len(ticks) <= 7
    assert ticks[-1] >= highest * (1 - 1e-6)
    assert ticks[-2] < highest * (1 + 1e-6)


@given(st.lists(st.floats(min_value=0, max_value=50), min_size=1, max_size=1200))
def test_a_profile_falls_and_stays_in_its_frame(loads: list[float]) -> None:
    """One step a master from left to right, never more points than the eye can tell apart."""
    drawn = profile("keys", loads, loads[::-1], 1.02)
    line = places(drawn.before)

    assert drawn.before == drawn.after
    assert line[0][0] == 0
    assert line[-1][0] == PROFILE_WIDTH
    assert [y for _, y in line] == sorted(y for _, y in line)
    assert all(0 <= y <= PROFILE_HEIGHT for _, y in line)
    assert len(line) <= 2 * PROFILE_POINTS_MAX


def test_a_giant_does_not_flatten_the_others() -> None:
    """The drawing ends at some times the limit and says what the heaviest is."""
    drawn = profile("ops", [46.0, 1.0, 0.9], [46.0, 1.0, 0.9], 1.02)

    assert drawn.highest == 46
    assert drawn.peak <= PROFILE_LIMITS_MAX * 1.02 * 1.03
    assert "heaviest 46.000 before" in drawn.words


def test_a_tolerance_of_nothing_keeps_the_axis_even() -> None:
    """A logarithm of 0 is nowhere."""
    drawn = curve([0.0, 0.02, 0.1], [90.0, 60.0, 10.0], [80.0, 50.0, 0.0], ["", "", ""], chosen=0.02, amount=str)

    assert not drawn.logarithmic
    assert [point.chosen for point in drawn.points] == [False, True, False]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in places(drawn.between))


def test_nothing_moved_at_any_tolerance_is_a_line_at_the_bottom() -> None:
    """No division by nothing."""
    drawn = curve([0.01, 0.1], [0.0, 0.0], [0.0, 0.0], ["", ""], chosen=None, amount=str)

    assert len({y for _, y in places(drawn.line)}) == 1
