"""Two drawings as coordinates: what moves at which tolerance, and the loads of many masters side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from slotscope.reports.line_chart import ticks_between

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 14, 44
TICK_GAP_MIN = 44
"""Labels nearer to each other than this would touch."""
PROFILE_WIDTH, PROFILE_HEIGHT = 1000, 160
PROFILE_POINTS_MAX = 250
PROFILE_LIMITS_MAX = 3.0
"""A profile ends at so many times the limit; what is above is said in words."""
LOG_SPAN_MIN = 4.0
Y_TICKS = 4


class Tick(NamedTuple):
    """A mark of an axis with its label."""

    at: str
    label: str


class Point(NamedTuple):
    """One tolerance that was tried."""

    x: str
    y: str
    bound_y: str
    words: str
    chosen: bool


class Curve(NamedTuple):
    """Moved bytes against tolerance: *line* of the plans, *bound* below it, *between* the area of what is not proven."""

    line: str
    bound: str
    between: str
    points: Sequence[Point]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    words: str
    logarithmic: bool


class Profile(NamedTuple):
    """Loads over fair shares, from the heaviest master to the lightest, as points of two lines."""

    resource: str
    before: str
    after: str
    fair_y: str
    limit_y: str
    peak: float
    highest: float
    words: str


def curve(
    tolerances: Sequence[float],
    moved: Sequence[float],
    bounds: Sequence[float],
    missed: Sequence[str],
    *,
    chosen: float | None,
    amount: Callable[[float], str],
) -> Curve:
    """Return the drawing of *moved* and *bounds* at *tolerances*, which ascend; *amount* writes a value of the y axis.

    *missed* says what is wrong with the limits of each, if anything.
    """
    logarithmic = tolerances[0] > 0 and tolerances[-1] / tolerances[0] >= LOG_SPAN_MIN
    ticks = ticks_between(0.0, max(moved), Y_TICKS)
    top = max(ticks[-1], max(moved), max(bounds)) or 1.0
    xs = [_across(value, tolerances[0], tolerances[-1], logarithmic) for value in tolerances]
    ys = [_up(value, top) for value in moved]
    lows = [_up(value, top) for value in bounds]
    line = _points(xs, ys)
    points = [
        Point(
            f"{x:.1f}",
            f"{y:.1f}",
            f"{low:.1f}",
            f"tolerance {_per_cent(value)}: {amount(plan)} moves, at least {amount(bound)} must"
            + (f" ({words})" if words else ""),
            chosen is not None and math.isclose(value, chosen),
        )
        for x, y, low, value, plan, bound, words in zip(xs, ys, lows, tolerances, moved, bounds, missed, strict=True)
    ]
    return Curve(
        line,
        _points(xs, lows),
        line + " " + _points(xs[::-1], lows[::-1]),
        points,
        _spaced([Tick(f"{x:.1f}", _per_cent(value)) for x, value in zip(xs, tolerances, strict=True)]),
        [Tick(f"{_up(value, top):.1f}", amount(value)) for value in ticks],
        "; ".join(point.words for point in points),
        logarithmic,
    )


def profile(resource: str, before: Sequence[float], after: Sequence[float], limit: float) -> Profile:
    """Return the drawing of the loads over fair shares *before* and *after*, each sorted on its own."""
    highest = max((*before, *after, limit), default=limit)
    peak = max(min(highest, PROFILE_LIMITS_MAX * limit), limit) * 1.02
    falling = sorted(before, reverse=True), sorted(after, reverse=True)
    lines = [_profile_line(values, peak) for values in falling]
    within = [sum(value <= limit * (1 + 1e-9) for value in values) for values in falling]
    words = (
        f"{len(before)} masters; {within[0]} within the limit before, {within[1]} after;"
        f" heaviest {max(before, default=0):.3f} before, {max(after, default=0):.3f} after, limit {limit:.3f} times the fair share"
    )
    fair_y, limit_y = (f"{PROFILE_HEIGHT * (1 - value / peak):.1f}" for value in (1.0, limit))
    return Profile(resource, lines[0], lines[1], fair_y, limit_y, peak, highest, words)


def _profile_line(values: Sequence[float], peak: float) -> str:
    """Steps, one a master, or fewer where there are more masters than the eye can tell apart."""
    count = len(values)
    if not count:
        return ""
    places = list(range(count))
    if count > PROFILE_POINTS_MAX:
        places = sorted({i * (count - 1) // (PROFILE_POINTS_MAX - 1) for i in range(PROFILE_POINTS_MAX)})
    points = []
    for place, following in zip(places, [*places[1:], count], strict=True):
        y = f"{PROFILE_HEIGHT * (1 - min(values[place], peak) / peak):.1f}"
        for x in (PROFILE_WIDTH * place / count, PROFILE_WIDTH * following / count):
            points.append(f"{x:.1f},{y}")
    return " ".join(points)


def _across(value: float, first: float, last: float, logarithmic: bool) -> float:
    if first == last:
        return LEFT
    share = math.log(value / first) / math.log(last / first) if logarithmic else (value - first) / (last - first)
    return LEFT + 20 + share * (WIDTH - LEFT - RIGHT - 40)


def _up(value: float, top: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _points(xs: Sequence[float], ys: Sequence[float]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))


def _spaced(ticks: Sequence[Tick]) -> list[Tick]:
    """Drop the ticks that stand too near to the one before."""
    kept: list[Tick] = []
    for tick in ticks:
        if not kept or float(tick.at) - float(kept[-1].at) >= TICK_GAP_MIN:
            kept.append(tick)
    return kept


def _per_cent(value: float) -> str:
    return f"{100 * value:.3g} %"
