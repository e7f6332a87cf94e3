"""Where reports go: the terminal and one HTML file."""

from __future__ import annotations

import os
import re
from typing import TextIO

from rich.console import Console

from jobs.reports.comparison import ComparisonReport, render_comparison_html, render_comparison_terminal
from jobs.reports.html import render_html
from jobs.reports.keyspace import KeyspaceReport
from jobs.reports.rebalance import RebalanceReport
from jobs.reports.rebalance_html import render_rebalance_html
from jobs.reports.rebalance_terminal import render_rebalance_terminal
from jobs.reports.simulation import SimulationReport
from jobs.reports.simulation_html import render_simulation
from jobs.reports.simulation_terminal import render_simulation_terminal
from jobs.reports.terminal import render_terminal
from jobs.sources.files import is_uri, write_text


def deliver_keyspace(report: KeyspaceReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML report, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, report.snapshot_id)
    write_text(path, render_html(report))
    render_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_comparison(report: ComparisonReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML comparison, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, f"{report.from_snapshot}-to-{report.to_snapshot}")
    write_text(path, render_comparison_html(report))
    render_comparison_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_rebalance(report: RebalanceReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML page of a plan, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, f"plan-{report.plan_id}")
    write_text(path, render_rebalance_html(report))
    render_rebalance_terminal(report, Console(file=stream), html_path=path)
    return path


def deliver_simulation(report: SimulationReport, *, root: str, html: str | None, stream: TextIO) -> str:
    """Write the HTML page of a simulation, print the summary on *stream*, and return where the HTML is."""
    path = html or report_path(root, f"simulation-{report.snapshot_id}")
    write_text(path, render_simulation(report))
    render_simulation_terminal(report, Console(file=stream), html_path=path)
    return path


def report_path(root: str, name: str) -> str:
    """Return ``ROOT/reports/NAME.html`` with what no file name should hold replaced."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).lstrip(".") or "report"
    path = f"{root.rstrip('/')}/reports/{safe[:120]}.html"
    return path if is_uri(path) else os.path.abspath(path)
