"""Where reports go: the terminal and one HTML file."""

from __future__ import annotations

import hashlib
import os
import re
from enum import StrEnum
from typing import TextIO

from rich.console import Console

from slotscope.reports.keyspace.comparison import ComparisonReport, render_comparison_html, render_comparison_terminal
from slotscope.reports.keyspace.html import render_html
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.reports.keyspace.terminal import render_terminal
from slotscope.reports.rebalance.html import render_rebalance_html
from slotscope.reports.rebalance.report import RebalanceReport
from slotscope.reports.rebalance.terminal import render_rebalance_terminal
from slotscope.reports.simulation.html import render_simulation
from slotscope.reports.simulation.report import SimulationReport
from slotscope.reports.simulation.terminal import render_simulation_terminal
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


_MISTAKABLE = re.compile(rf"^$|^plan-|^simulation-|-to-|-history$|-[0-9a-f]{{{DIGEST_DIGITS}}}$")
"""Names that would read as another page, or as one with a digest."""


def deliver_keyspace(report: KeyspaceReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML report, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, report.snapshot_id)
    write_text(path, render_html(report))
    render_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_comparison(report: ComparisonReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML comparison, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, report.from_snapshot, report.to_snapshot, page=Page.COMPARISON)
    write_text(path, render_comparison_html(report))
    render_comparison_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_rebalance(report: RebalanceReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML page of a plan, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, report.plan_id, page=Page.PLAN)
    write_text(path, render_rebalance_html(report))
    render_rebalance_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_simulation(report: SimulationReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML page of a simulation, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, report.snapshot_id, page=Page.SIMULATION)
    write_text(path, render_simulation(report))
    render_simulation_terminal(report, Console(file=stream), html_path=path)
    return path


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
    path = f"{root.rstrip('/')}/reports/{safe}.html"
    return path if is_uri(path) else os.path.abspath(path)
