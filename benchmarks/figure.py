"""A figure as text, for a page that is read in a terminal as often as in a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, log10

COLUMNS = 48
ROWS = 14


def log_plot(title: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw points (x, y), all above 0, on two logarithmic axes in a fenced block; a series is shown by its name's first
    letter, and where several meet, by that of the first.
    """
    points = [point for line in series.values() for point in line]
    left, right = (pick(log10(x) for x, _ in points) for pick in (min, max))
    top = max(1, ceil(max(log10(y) for _, y in points)))
    rows = [[" "] * (COLUMNS + 1) for _ in range(ROWS + 1)]
    for name, line in reversed(list(series.items())):
        for x, y in _between(line):
            column = round((log10(x) - left) / ((right - left) or 1) * COLUMNS)
            rows[ROWS - round(max(0.0, log10(y)) / top * ROWS)][column] = "."
        for x, y in line:
            column = round((log10(x) - left) / ((right - left) or 1) * COLUMNS)
            rows[ROWS - round(max(0.0, log10(y)) / top * ROWS)][column] = name[0]
    marks = {ROWS - round(power / top * ROWS): f"{10**power:,}" for power in range(top + 1)}
    lines = [f"{marks.get(number, ''):>8} |{''.join(row).rstrip()}" for number, row in enumerate(rows)]
    axis = f"{'':>8} +{'-' * (COLUMNS + 1)}"
    ends = f"{'':>8}  {10**left:<{COLUMNS // 2}.0f}{10**right:>{COLUMNS // 2 + 1}.0f}"
    legend = "  ".join(f"{name[0]} = {name}" for name in series)
    return "\n".join(("```text", title, *lines, axis, ends, legend, "```"))


def _between(line: Sequence[tuple[float, float]], steps: int = 24) -> list[tuple[float, float]]:
    """Points on the straight lines between those of *line*, as they look on these axes."""
    found = []
    for (x, y), (next_x, next_y) in pairwise(line):
        for step in range(1, steps):
            part = step / steps
            found.append((x ** (1 - part) * next_x**part, y ** (1 - part) * next_y**part))
    return found
