"""An audit on a terminal: what was promised, what was measured, what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from cluster_core.rebalance.audit import LOAD, MOVED, TIME, Finding
from cluster_core.rebalance.stored_plan import StoredPlan
from slotscope.reports.ink import Cell, Ink
from slotscope.reports.rebalance.words import amount, duration, factor, resource_words
from slotscope.reports.unread import partial_lines
from slotscope.runtime import text

DETAIL_LENGTH_MAX = 400
_STYLES = {True: "green", False: "bold red", None: "dim"}
_WORDS = {True: "kept", False: "BROKEN", None: "not compared"}
UNKNOWN = "unknown"


def print_audit(stored: StoredPlan, findings: Sequence[Finding], console: Console) -> None:
    """Print *findings* as a table, then how each was measured; what is broken comes first."""
    ink = Ink(console)
    broken = sum(finding.kept is False for finding in findings)
    ink.title(f"audit of plan {stored.plan_id}")
    for line in partial_lines(stored.unread):
        ink.line(ink.words(text.printable(line, DETAIL_LENGTH_MAX), "bold red"))
    unknown = [finding for finding in findings if finding.is_unknown]
    if broken:
        verb = "is" if broken == 1 else "are"
        ink.line(ink.words(f"{text.plural(broken, 'promise')} of the plan {verb} broken.", "bold red"))
    elif unknown:
        named = ", ".join(f"{_name(one)} {_measured(one)}, {factor(one.allowed)} allowed" for one in unknown)
        ink.line(ink.words(f"Unknown whether the plan kept its promise: {named}.", "bold yellow"))
    else:
        ink.line(ink.words("The plan kept what it promised.", "bold green"))
    ink.console.print()
    rows: list[list[Cell]] = [
        [
            _name(finding),
            _figure(finding, finding.promised),
            ink.words(_measured(finding), "bold"),
            ink.words(UNKNOWN if finding.is_unknown else _WORDS[finding.kept], _STYLES[finding.kept]),
        ]
        for finding in findings
    ]
    ink.table(("What", ">Promised", ">Measured", ""), rows)
    ordered = sorted(findings, key=lambda finding: finding.kept is not False)
    ink.heading("How, and why")
    details = [text.printable(finding.detail, DETAIL_LENGTH_MAX) for finding in ordered]
    names = [ink.words(_name(finding), _STYLES[finding.kept]) for finding in ordered]
    ink.labelled(list(zip(names, map(ink.words, details), strict=True)))


def _name(finding: Finding) -> str:
    return resource_words(finding.resource) if finding.aspect == LOAD else finding.aspect


def _measured(finding: Finding) -> str:
    """The measured figure with its error: ``1.040× ±0.030``."""
    figure = _figure(finding, finding.measured)
    if not finding.error:
        return figure
    return (
        f"{figure} ±{finding.error:.3f}" if finding.aspect == LOAD else f"{figure} ±{_figure(finding, finding.error)}"
    )


def _figure(finding: Finding, value: float | None) -> str:
    if value is None:
        return text.NOTHING
    if finding.aspect == LOAD:
        return factor(value)
    if finding.aspect == TIME:
        return duration(value)
    return amount(finding.resource, value) if finding.aspect == MOVED else text.count(round(value))
