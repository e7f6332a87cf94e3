"""Where reports go: the terminal and one HTML file."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TextIO

from rich.console import Console

from slotscope.reports.index import FLEET, SNAPSHOT, Card, shelve
from slotscope.reports.records import write_json
from slotscope.runtime.storage import stores
from slotscope.sources.files import is_uri, write_text

FILE_NAME_MAX = 120
DIGEST_DIGITS = 8


class Page(StrEnum):
    """Pages that are written beside the tables: how the names that they are about become the name of a file."""

    KEY_SPACE = "{}"
    COMPARISON = "{}-to-{}"
    PLAN = "plan-{}"
    SIMULATION = "simulation-{}"
    HISTORY = "{}-history"
    REPLICATION = "{}-replication"
    INCIDENT = "{}-incident-{}"
    FLEET = "fleet"


_MISTAKABLE = re.compile(
    rf"^$|^(index|fleet)$|^plan-|^simulation-|-to-|-incident-|-(history|replication)$|-[0-9a-f]{{{DIGEST_DIGITS}}}$"
)
"""Names that would read as another page, or as one with a digest."""


class Drawing(NamedTuple):
    """How one kind of report is delivered.

    The page, the names that it is about, what draws it as HTML and on a terminal; its kind, title and verdict for the list of pages,
    the snapshots that it tells of, and their time in ms.
    """

    page: Page
    names: Callable[[Any], tuple[str, ...]]
    html: Callable[[Any], str]
    terminal: Callable[..., None]
    kind: str
    title: Callable[[Any], str]
    verdict: Callable[[Any], str]
    about: Callable[[Any], tuple[str, ...]]
    of_ms: Callable[[Any], int | None]


def _snapshot(report: Any) -> tuple[str, ...]:
    return (report.snapshot_id,)


def _key_space() -> Drawing:
    from slotscope.reports.keyspace.html import render_html
    from slotscope.reports.keyspace.terminal import render_terminal
    from slotscope.reports.keyspace.verdict import verdict

    return Drawing(
        Page.KEY_SPACE,
        _snapshot,
        render_html,
        render_terminal,
        SNAPSHOT,
        lambda report: f"Snapshot {report.snapshot_id}",
        verdict,
        _snapshot,
        lambda report: report.taken_at_ms,
    )


def _comparison() -> Drawing:
    from slotscope.reports.keyspace.comparison_html import render_comparison_html
    from slotscope.reports.keyspace.comparison_terminal import render_comparison_terminal

    return Drawing(
        Page.COMPARISON,
        lambda report: (report.from_snapshot, report.to_snapshot),
        render_comparison_html,
        render_comparison_terminal,
        "comparison",
        lambda report: f"Growth from {report.from_snapshot} to {report.to_snapshot}",
        lambda report: report.verdict,
        lambda report: (report.from_snapshot, report.to_snapshot),
        lambda report: report.to_taken_at_ms,
    )


def _plan() -> Drawing:
    from slotscope.reports.rebalance.html import render_rebalance_html
    from slotscope.reports.rebalance.terminal import render_rebalance_terminal
    from slotscope.reports.rebalance.words import headline

    return Drawing(
        Page.PLAN,
        lambda report: (report.plan_id,),
        render_rebalance_html,
        render_rebalance_terminal,
        "plan",
        lambda report: f"Plan {report.plan_id}",
        headline,
        lambda report: (report.snapshot_id,) if report.snapshot_id else (),
        lambda report: report.created_at_ms,
    )


def _simulation() -> Drawing:
    from slotscope.reports.simulation.html import render_simulation
    from slotscope.reports.simulation.terminal import render_simulation_terminal

    return Drawing(
        Page.SIMULATION,
        _snapshot,
        render_simulation,
        render_simulation_terminal,
        "simulation",
        lambda report: report.title,
        lambda report: report.verdict,
        lambda report: (),
        lambda report: None,
    )


def _history() -> Drawing:
    from slotscope.reports.history.html import render_history
    from slotscope.reports.history.terminal import print_incidents

    return Drawing(
        Page.HISTORY,
        _snapshot,
        render_history,
        print_incidents,
        "history",
        lambda report: f"History of {report.snapshot_id}",
        lambda report: report.verdict[0],
        _snapshot,
        lambda report: report.last_ns // 1_000_000,
    )


def _replication() -> Drawing:
    from slotscope.reports.replication.html import render_replication
    from slotscope.reports.replication.terminal import render_replication_terminal

    return Drawing(
        Page.REPLICATION,
        _snapshot,
        render_replication,
        render_replication_terminal,
        "replication",
        lambda report: f"Replication of {report.snapshot_id}",
        lambda report: report.verdict,
        _snapshot,
        lambda report: report.last_ns // 1_000_000 or None,
    )


def _fleet() -> Drawing:
    from slotscope.reports.fleet.html import render_fleet
    from slotscope.reports.fleet.terminal import render_fleet_terminal

    return Drawing(
        Page.FLEET,
        lambda report: (),
        render_fleet,
        render_fleet_terminal,
        FLEET,
        lambda report: "Fleet",
        lambda report: report.verdict,
        lambda report: (),
        lambda report: report.now_ms,
    )


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "KeyspaceReport": _key_space,
    "ComparisonReport": _comparison,
    "RebalanceReport": _plan,
    "SimulationReport": _simulation,
    "HistoryReport": _history,
    "ReplicationReport": _replication,
    "FleetReport": _fleet,
}
"""By the name of the report's class, so that a command loads the code of its own report only."""


def deliver(report: object, *, root: str, html: str | None, stream: TextIO | None, as_json: bool = False) -> str:
    """Write the page of *report*, print its summary, or all of it as JSON, on *stream* if there is one; return where the page is.

    Without *html* the page goes beside the tables, and into the list of their pages.
    """
    drawing = DRAWINGS[type(report).__name__]()
    page = drawing.html(report)
    if html is None:
        path = report_path(root, *drawing.names(report), page=drawing.page)
        folder, _, file = path.rpartition("/")
        shelve(folder, _card(report, drawing, file), page)
    else:
        path = html
        write_text(path, page)
    if stream is not None and as_json:
        from slotscope.reports.run_summary import summaries

        runs = summaries(root, drawing.names(report))
        write_json({"page": path, "verdict": drawing.verdict(report), "runs": runs, "report": report}, stream)
    elif stream is not None:
        drawing.terminal(report, Console(file=stream), html_path=path)
    return path


def _card(report: object, drawing: Drawing, file: str) -> Card:
    return Card(
        file=file,
        kind=drawing.kind,
        title=drawing.title(report),
        verdict=drawing.verdict(report),
        about=drawing.about(report),
        of_ms=drawing.of_ms(report),
        written_ms=time.time_ns() // 1_000_000,
    )


def report_path(root: str, *names: str, page: Page = Page.KEY_SPACE) -> str:
    """Return ``ROOT/reports/NAME.html``: another file for other *names*, also where case does not tell files apart.

    Names of small letters, digits, ``.``, ``_`` and ``-`` stay as they are; where anything had to be replaced or cut, or the name
    could be that of another page, a digest of page and names is added.
    """
    whole = page.format(*names)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", whole).lstrip(".")[:FILE_NAME_MAX]
    if safe != whole or safe != safe.lower() or any(_MISTAKABLE.search(name) for name in names):
        digest = hashlib.sha256(ascii([page.name, *names]).encode()).hexdigest()
        safe = f"{safe or 'report'}-{digest[:DIGEST_DIGITS]}"
    path = f"{stores.plain(root).rstrip('/')}/reports/{safe}.html"
    return path if is_uri(path) else os.path.abspath(path)
