"""A fleet on a terminal: a line a cluster, the worst first, and what is wrong with those that have trouble."""

from __future__ import annotations

from functools import partial

from rich.console import Console

from slotscope.reports.fleet.report import ClusterState, FleetReport, age, troubles
from slotscope.reports.ink import FIGURES, Cell, Ink
from slotscope.runtime import text

SHOWN_MAX = 100
TROUBLES_MAX = 20
HEADINGS = (
    "cluster",
    *(f"{FIGURES}{name}" for name in ("max/mean", "masters", "keys", "size", "dumps", "bus")),
    "incidents",
)


def render_fleet_terminal(report: FleetReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*; *html_path* is where the page was written, if it was."""
    ink = Ink(console)
    ink.title("Fleet", f" · {text.moment(report.now_ms)}")
    ink.line(ink.words(report.verdict))
    if report.clusters:
        ink.heading("Clusters", "the worst first; dumps and bus: how old their data is")
        ink.table(HEADINGS, [_row(ink, one, report.now_ms) for one in report.clusters[:SHOWN_MAX]])
        ink.rest(len(report.clusters), SHOWN_MAX)
    told = [(one, trouble) for one in report.clusters for trouble in troubles(one, report.now_ms)]
    if told:
        ink.heading("Trouble")
        ink.labelled([(ink.words(one.cluster), ink.words(trouble)) for one, trouble in told[:TROUBLES_MAX]])
        ink.rest(len(told), TROUBLES_MAX)
    ink.page("All of it as a page", html_path)


def _row(ink: Ink, one: ClusterState, now_ms: int) -> list[Cell]:
    open_ = f"{one.open_incidents} open of " if one.open_incidents else ""
    return [
        partial(ink.key, one.cluster.encode("utf-8", "surrogateescape")),
        text.ratio(one.skew),
        text.count(one.masters),
        text.count(one.keys),
        text.size(one.size_bytes),
        age(one.taken_at_ms, now_ms),
        age(one.recorded_until_ms, now_ms),
        text.NOTHING if one.history is None else f"{open_}{one.incidents}",
    ]
