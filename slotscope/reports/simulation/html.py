"""A simulation as one HTML file: distributions, shards without a new master, what is modelled and what is not."""

from __future__ import annotations

from typing import Final, NamedTuple

from slotscope.reports.page import render_page
from slotscope.reports.simulation.report import (
    CASES_DRAWN,
    FIGURE_WORDS,
    MODELLED,
    NOT_MODELLED,
    Case,
    SimulationReport,
    figure_text,
    unknown_text,
)

WIDTH: Final = 720
HEIGHT: Final = 240
MARGIN: Final = 36
TICKS: Final = 6
DASHES: Final = ("", "6 3", "2 3", "10 3 2 3", "1 2", "12 4", "4 1", "8 2 1 2")
"""How the curves of the cases differ, without colours."""


class Curve(NamedTuple):
    """A curve of the drawing: its points as SVG has them, its dashes, its words."""

    points: str
    dashes: str
    words: str


def render_simulation(report: SimulationReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    drawn = [case for case in report.cases if case.curve][:CASES_DRAWN]
    longest_ms = max((point[0] for case in drawn for point in case.curve), default=0.0) or 1.0
    recovered = sum(case.spreads["elected_ms"].known for case in report.cases)
    context = {
        "report": report,
        "recovered": recovered,
        "figures": FIGURE_WORDS,
        "figure_text": figure_text,
        "unknown_text": unknown_text,
        "curves": [Curve(_points(case, longest_ms), DASHES[at], report.words(case)) for at, case in enumerate(drawn)],
        "ticks": [
            (f"{_x(longest_ms * at / TICKS, longest_ms):.1f}", f"{longest_ms * at / TICKS / 1000:.1f}")
            for at in range(TICKS + 1)
        ],
        "width": WIDTH,
        "height": HEIGHT,
        "margin": MARGIN,
        "cases_drawn": CASES_DRAWN,
        "modelled": MODELLED,
        "not_modelled": NOT_MODELLED,
    }
    return render_page("simulation.html", context)


def _x(value_ms: float, longest_ms: float) -> float:
    return MARGIN + (WIDTH - 2 * MARGIN) * value_ms / longest_ms


def _points(case: Case, longest_ms: float) -> str:
    """The curve from its left end, at no run, to the right end of the drawing."""
    end = case.curve[-1][1]
    places = [(case.curve[0][0], 0.0), *case.curve, (longest_ms, end)]
    return " ".join(
        f"{_x(value_ms, longest_ms):.1f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * share:.1f}"
        for value_ms, share in places
    )
