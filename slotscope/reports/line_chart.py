"""A chart of lines as coordinates: drawn by the macro ``line_chart`` of ``parts.html``, its words of one size on every screen.

The plot is 1000 by 200 units stretched to its place; labels stand outside it, in percent of the width and in pixels of the height.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

PLOT_WIDTH, PLOT_HEIGHT = 1000, 200
TICKS = 5
X_TICKS = 8
STYLES = 8
"""Lines that are told apart by colour and dashes."""


class Series(NamedTuple):
    """One line: what it is, and its points, in order of x."""

    words: str
    points: Sequence[tuple[float, float]]


class Line(NamedTuple):
    """One line, ready to be drawn: *style* 0 to 7; *dots* are its points, which alone show a line of one point."""

    words: str
    style: int
    points: str
    dots: Sequence[tuple[str, str]]


class Label(NamedTuple):
    """A value of an axis: *at* in percent of the width or pixels of the height, *anchor* as in SVG."""

    at: str
    words: str
    anchor: str


class Chart(NamedTuple):
    """The drawing, and what is on its axes."""

    lines: Sequence[Line]
    across: Sequence[Label]
    up: Sequence[Label]
    words: str


def line_chart(
    series: Sequence[Series],
    *,
    x_words: Callable[[float], str],
    y_words: Callable[[float], str],
    words: str,
    y_top: float | None = None,
    x_labels: Sequence[float] | None = None,
) -> Chart | None:
    """Draw *series*, the first `STYLES` of them, with the axis across where their data is and the other from 0; None without points."""
    drawn = [one for one in series if one.points][:STYLES]
    if not drawn:
        return None
    xs = [x for one in drawn for x, _ in one.points]
    first, last = min(xs), max(xs)
    ticks = ticks_between(0.0, y_top or max(y for one in drawn for _, y in one.points))
    top = y_top or ticks[-1] or 1.0

    def across(value: float) -> float:
        return (value - first) / (last - first) if last > first else 0.5

    def up(value: float) -> float:
        return 1 - value / top

    lines = [
        Line(
            one.words,
            style,
            " ".join(f"{PLOT_WIDTH * across(x):.1f},{PLOT_HEIGHT * up(y):.1f}" for x, y in one.points),
            [(f"{100 * across(x):.2f}", f"{PLOT_HEIGHT * up(y):.1f}") for x, y in one.points],
        )
        for style, one in enumerate(drawn)
    ]
    labels = (
        x_labels if x_labels is not None else [at for at in ticks_between(first, last, X_TICKS) if first <= at <= last]
    )
    return Chart(
        lines,
        [_label(across(at), x_words(at)) for at in labels or [first]],
        [Label(f"{PLOT_HEIGHT * up(at):.1f}", y_words(at), "end") for at in ticks if at <= top * (1 + 1e-9)],
        words,
    )


def _label(share: float, words: str) -> Label:
    anchor = "start" if share < 0.06 else "end" if share > 0.94 else "middle"
    return Label(f"{100 * share:.2f}", words, anchor)


def ticks_between(low: float, high: float, count: int = TICKS) -> list[float]:
    """Return round values from at most *low* up to at least *high*, about *count* of them.

    >>> ticks_between(0.0, 37.0, 4)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    >>> ticks_between(18.2, 19.9)
    [18.0, 18.5, 19.0, 19.5, 20.0]
    """
    if high <= low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * (1 - 1e-9))
    return [step * at for at in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]
