"""An audit as a document: promised and measured figures, broken promises."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.rebalance.audit import LOAD, Finding
from cluster_core.rebalance.stored_plan import StoredPlan
from slotscope.reports.document import Cell, Column, Document, Facts, Format, Section, Sentence, Table
from slotscope.reports.rebalance.words import factor, resource_words
from slotscope.reports.unread import partial_lines
from slotscope.runtime import text

_WORDS = {True: "kept", False: "BROKEN", None: "not compared"}
_STYLES = {True: "strong", False: "alarm", None: "quiet"}


def audit_document(stored: StoredPlan, findings: Sequence[Finding]) -> Document:
    """Return *findings* as a table, then how each was measured; broken promises come first."""
    columns = [
        Column("What", Format.TEXT, _name),
        Column("Promised", Format.COUNT, lambda finding: Cell(finding.promised, _figure(finding, finding.promised))),
        Column("Measured", Format.COUNT, lambda finding: Cell(finding.measured, _measured(finding), style="strong")),
        Column(
            "",
            Format.TEXT,
            lambda finding: Cell(
                "unknown" if finding.is_unknown else _WORDS[finding.kept], style=_STYLES[finding.kept]
            ),
        ),
    ]
    ordered = sorted(findings, key=lambda finding: finding.kept is not False)
    sections = [
        Section("partial", "Partial input", [Sentence(line) for line in partial_lines(stored.unread)]),
        Section("findings", "Promises", [Table("findings", "", columns, findings, on_terminal=len(findings))]),
        Section("reasons", "How it was measured", [Facts([(_name(finding), finding.detail) for finding in ordered])]),
    ]
    return Document("audit", f"audit of plan {stored.plan_id}", _verdict(findings), sections)


def _verdict(findings: Sequence[Finding]) -> str:
    broken = sum(finding.kept is False for finding in findings)
    if broken:
        return f"{text.plural(broken, 'promise')} of the plan {'is' if broken == 1 else 'are'} broken."
    unknown = [
        f"{_name(finding)} {_measured(finding)} (allowed: {factor(finding.allowed)})"
        for finding in findings
        if finding.is_unknown
    ]
    if unknown:
        return f"Unknown whether the plan kept its promise: {', '.join(unknown)}."
    skipped = [_name(finding) for finding in findings if finding.kept is None]
    if skipped:
        return f"The plan kept its promises as far as they were compared; not compared: {', '.join(skipped)}."
    return "The plan kept its promises."


def _name(finding: Finding) -> str:
    return resource_words(finding.resource) if finding.aspect == LOAD else finding.aspect


def _measured(finding: Finding) -> str:
    """The measured figure with its error: ``1.040× ±0.030``."""
    return _figure(finding, finding.measured) + (f" ±{finding.error:.3f}" if finding.error else "")


def _figure(finding: Finding, value: float | None) -> str:
    if value is None:
        return text.NOTHING
    return factor(value) if finding.aspect == LOAD else text.count(round(value))
