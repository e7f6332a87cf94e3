"""Replication on a terminal: every resync in one sentence, and who follows whom at the end."""

from __future__ import annotations

from rich.console import Console

from slotscope.reports.ink import Ink
from slotscope.reports.replication.report import ReplicationReport
from slotscope.runtime.text import printable


def render_replication_terminal(report: ReplicationReport, console: Console, *, html_path: str | None = None) -> None:
    """Print *report* on *console*; *html_path* is where the page was written, if it was."""
    ink = Ink(console)
    for line in replication_lines(report):
        console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)
    ink.page("All of it on a time axis", html_path)


def replication_lines(report: ReplicationReport) -> list[str]:
    """Return the report: a sentence a resync with its time, what was unexpected, and who follows whom at the end."""
    if not report.resyncs and not report.pieces:
        return ["no replication in these captures"]
    lines = [report.verdict, _foreseen(report)]
    start_ns = min((one.ts_ns for one in report.resyncs), default=0)
    for one in report.resyncs:
        mark = "" if one.as_foreseen in (True, None) else "  (not as foreseen)"
        lines.append(f"{(one.ts_ns - start_ns) / 1e9:>10.3f} s  {one.why}{mark}")
    lines += ["", "at the end:", *(_last_lines(report) or ["  nobody follows anybody"])]
    return [printable(line) for line in lines]


def _foreseen(report: ReplicationReport) -> str:
    answered = [one for one in report.resyncs if one.as_foreseen is not None]
    return f"{sum(bool(one.as_foreseen) for one in answered)} of {len(answered)} as foreseen"


def _last_lines(report: ReplicationReport) -> list[str]:
    return [
        f"  {one.replica} follows {one.master}: {one.state}, {one.link_status}"
        + (f", offset {one.offset:,}" if one.offset is not None else "")
        for one in report.last_pieces
    ]
