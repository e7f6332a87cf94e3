"""A simulation as one HTML file: distributions, shards without a new master, what is modelled and what is not."""

from __future__ import annotations

from typing import Final, NamedTuple

from slotscope.reports.line_chart import Chart, Series, line_chart, ticks_between
from slotscope.reports.page import render_page
from slotscope.reports.simulation import report as said

SHARE_TOP: Final = 1.0
STRIP_WIDTH: Final = 1000
TIMES: Final = ("detected_ms", "elected_ms", "converged_ms")
"""Figures that are drawn beside each other, on one axis."""


class Strip(NamedTuple):
    """How one figure of a case is spread, on an axis that all of them share: places of 0 to 1000; None where no run has one."""

    p10: str
    p50: str
    p90: str
    worst: str
    words: str


def render_simulation(report: said.SimulationReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    recovered = sum(case.spreads["elected_ms"].known for case in report.cases)
    context = {
        "report": report,
        "recovered": recovered,
        "figures": said.FIGURE_WORDS,
        "figure_text": said.figure_text,
        "unknown_text": said.unknown_text,
        "chart": _chart(report),
        "cases_drawn": sum(bool(case.curve) for case in report.cases),
        "strips": _strips(report),
        "axis": _axis(report),
        "modelled": said.MODELLED,
        "not_modelled": said.NOT_MODELLED,
    }
    return render_page("simulation.html", context)


def _chart(report: said.SimulationReport) -> Chart | None:
    """The share of the runs that had a new master by then, a line a case."""
    drawn = [case for case in report.cases if case.curve]
    last_ms = max((case.curve[-1][0] for case in drawn), default=0.0)
    return line_chart(
        [Series(report.words(case), _steps(case, last_ms)) for case in drawn],
        x_words=lambda value: f"{value / 1000:g} s",
        y_words=lambda value: f"{100 * value:.0f} %",
        words=f"Share of runs with a new master over time. {report.verdict} The table of cases has the figures.",
        y_top=SHARE_TOP,
    )


def _steps(case: said.Case, last_ms: float) -> list[tuple[float, float]]:
    """The curve from no run to the last one, and on to the right end of the drawing."""
    return [(case.curve[0][0], 0.0), *case.curve, (last_ms, case.curve[-1][1])]


def _axis(report: said.SimulationReport) -> tuple[float, float] | None:
    """From which to which time the strips go, in ms; None where there is none."""
    known = [case.spreads[name] for case in report.cases for name in TIMES if case.spreads[name].known]
    lows = [spread.p10 for spread in known if spread.p10 is not None]
    highs = [spread.worst for spread in known if spread.worst is not None]
    if not lows or not highs:
        return None
    ticks = ticks_between(min(lows), max(highs))
    return ticks[0], max(ticks[-1], ticks[0] + 1)


def _strips(report: said.SimulationReport) -> list[tuple[said.Case, str, Strip]]:
    """Every time of every case that any run has: those of one figure stand below each other."""
    axis = _axis(report)
    found = []
    for name in TIMES if axis else ():
        for case in report.cases:
            spread = case.spreads[name]
            if axis is not None and spread.known:
                places = [spread.p10, spread.p50, spread.p90, spread.worst]
                p10, p50, p90, top = (
                    f"{STRIP_WIDTH * ((value or 0.0) - axis[0]) / (axis[1] - axis[0]):.1f}" for value in places
                )
                half, nine, worst = (said.figure_text(name, value) for value in places[1:])
                found.append((case, name, Strip(p10, p50, p90, top, f"half {half}, nine of ten {nine}, worst {worst}")))
    return found
