"""Incidents on a terminal: a table of all, or the story of one with times relative to its start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cluster_core.incidents.rows import FindingRow
from cluster_core.incidents.story import RANGE_MS, seconds
from cluster_core.instants import write_instant
from cluster_core.kinds import EventKind, IncidentKind, Severity
from schemas.caveats import Caveat
from slotscope.reports.history.report import HistoryReport, IncidentLine
from slotscope.reports.ink import WHOLE, Ink
from slotscope.reports.terminal import print_counts, print_graded
from slotscope.runtime import text

SUMMARY_LENGTH_MAX = 1000
STEP_LENGTH_MAX = 600
FINDINGS_SHOWN = 8
CLOCK_CELLS = 9
MINUTE_MS = 60_000
VAGUE = 5
"""Ratio of the longest to the shortest time above which the list shows only the shortest."""
NODES_NAMED = 2
"""Nodes that are named in a line of the list."""
_NAMED = re.compile(r"([^()\s]+:\d+) \([0-9a-f]{8,40}\)")

FIGURE_LABELS = {
    "silence_to_pfail_ms": "last sign of life to first PFAIL",
    "silence_to_fail_ms": "last sign of life to FAIL",
    "fail_to_election_ms": "FAIL to first election",
    "election_ms": "election",
    "outage_min_ms": "time without service, at least",
    "outage_ms": "time without service, at most",
    "adoption_ms": "win until all adopted it",
    "offset_gap_bytes": "writes lost at least",
    "unheard_ms": "old master not heard while it could write",
    "votes": "votes",
    "refusals": "refusals",
}
"""Labels of an incident's figures."""


def figure_text(name: str, value: int) -> str:
    """A figure of an incident with its unit."""
    if name.endswith("_ms"):
        return seconds(value)
    return text.size(value) if name.endswith("_bytes") else text.count(value)


def moment(ts_ns: int) -> str:
    """A time of the capture, to the millisecond."""
    return write_instant(ts_ns)[:-4].replace("T", " ") + "Z"


def clock(offset_ms: int) -> str:
    """A time relative to the start, as the stories write it.

    >>> clock(0), clock(2457), clock(-3)
    ('+0.000 s', '+2.457 s', '-0.003 s')
    """
    return f"{offset_ms / 1000:+.3f} s"


def print_incidents(report: HistoryReport, console: Console, *, html_path: str | None = None) -> None:
    """Print the headline, the evidence, warnings, then all incidents, one line each, and notes."""
    ink = Ink(console)
    headline, details = report.verdict
    ink.line(ink.safe(text.printable(headline, SUMMARY_LENGTH_MAX), "bold"))
    if details:
        ink.line(ink.safe(text.printable(details, SUMMARY_LENGTH_MAX)))
    if report.seen_by:
        ink.line(ink.safe(f"Evidence: {report.seen_by}. {report.missing_evidence}".rstrip(), "dim"))
    if report.set_up and report.incidents:
        ink.line(ink.safe(f"{report.set_up}.", "dim"))
    notes = [finding for finding in report.findings if finding.severity == Severity.NOTE]
    graver = [finding for finding in report.findings if finding.severity != Severity.NOTE]
    _print_warnings(ink, [warning for warning in report.warnings if warning.severity != Severity.NOTE], graver)
    if report.incidents:
        day = moment(report.incidents[0].started_ns)[:10]
        is_one_day = all(moment(incident.started_ns)[:10] == day for incident in report.incidents)
        ink.heading("Incidents", f"{day}, UTC" if is_one_day else "UTC")
        names = _short_addresses(report)
        ink.table(
            (">#", "time", ">duration", "what", "who", f"{WHOLE}impact"),
            [
                (
                    str(incident.number),
                    moment(incident.started_ns)[11 if is_one_day else 5 : 19],
                    "open" if incident.duration_ms is None else seconds(incident.duration_ms),
                    INCIDENT_NAMES.get((incident.kind, incident.variant), incident.kind.replace("-", " ")),
                    _nodes(incident, names),
                    _impact(incident),
                )
                for incident in report.incidents
            ],
            wraps=True,
        )
        ink.note("Step by step: slotscope incidents NUMBER")
    _print_warnings(ink, [], notes)
    ink.page("All of it, with a timeline of each node", html_path)


INCIDENT_NAMES: dict[tuple[str, str], str] = {
    (IncidentKind.FAILOVER, "manual"): "manual failover",
    (IncidentKind.FAILOVER, "forced"): "forced failover",
    (IncidentKind.FAILOVER, "takeover"): "takeover",
    (IncidentKind.FAILURE, "not agreed"): "unreachable",
    (IncidentKind.OUTAGE, "whole cluster"): "cluster down",
    (IncidentKind.RESTART, "rolling"): "rolling restart",
    (IncidentKind.RESHARDING, "cut short"): "resharding cut",
    (IncidentKind.RESHARDING, "slot open"): "slot left open",
    (IncidentKind.MEMBERSHIP, "joined"): "node joined",
    (IncidentKind.MEMBERSHIP, "forgotten"): "node forgotten",
    (IncidentKind.MEMBERSHIP, "replaced"): "node replaced",
    (IncidentKind.MEMBERSHIP, "reset"): "node reset",
    (IncidentKind.MEMBERSHIP, "replicas changed"): "replica moved",
    (IncidentKind.SLOTS_ASSIGNED, "taken"): "slots taken",
    (IncidentKind.SLOTS_ASSIGNED, "given up"): "slots given up",
}
"""Names of incidents in the list by kind and variant; others have the name of their kind."""


def _short_addresses(report: HistoryReport) -> dict[str, str]:
    """The addresses of all nodes, as ports where all are on one host; the beginning of the id where no address is known."""
    known = {node.node_id: node.address or node.name for node in report.nodes}
    for incident in report.incidents:
        known |= {incident.subject or "": incident.subject_address} if incident.subject_address else {}
        known |= {incident.winner or "": incident.winner_address} if incident.winner_address else {}
    hosts = {address.rpartition(":")[0] for address in known.values()} - {""}
    return {
        node: address.removeprefix(next(iter(hosts))) if len(hosts) == 1 else address for node, address in known.items()
    }


def _nodes(incident: IncidentLine, names: dict[str, str]) -> str:
    """Return the subject and the promoted node, else the nodes that took part or their number."""
    subject, winner = (names.get(node, node[:8]) if node else "" for node in (incident.subject, incident.winner))
    if subject or winner:
        return f"{subject or 'unknown'} → {winner}" if winner else subject
    nodes = [names.get(node, node[:8]) for node in incident.nodes]
    return ", ".join(nodes) if len(nodes) <= NODES_NAMED else f"{len(nodes)} nodes"


def _impact(incident: IncidentLine) -> str:
    """Return the outage and its duration, or the slots that moved or lost data."""
    slots = "slots" if incident.slot_count is None else text.plural(incident.slot_count, "slot")
    if incident.kind == IncidentKind.DATA_LOSS:
        return "a shard" if incident.slot_count is None else slots
    if incident.figures.get("outage_min_ms") is not None or incident.figures.get("outage_ms") is not None:
        slots = "all slots" if incident.variant == "whole cluster" else slots
        least, most = incident.figures.get("outage_min_ms") or 0, incident.figures.get("outage_ms")
        if most is None:
            return f"{slots} not back"
        if incident.kind == IncidentKind.OUTAGE and incident.variant != "whole cluster" and len(incident.nodes) > 1:
            return f"{slots} ≤ {seconds(most)}"
        if most - least <= RANGE_MS:
            return f"{slots} {seconds(most)}"
        if least and most >= MINUTE_MS and most > VAGUE * least:
            return f"{slots} ≥ {seconds(least)}"
        shortest = "≤ " if not least else f"{least / 1000:.1f}-" if most < MINUTE_MS else f"{seconds(least)} to "
        return f"{slots} {shortest}{f'{most / 1000:.1f} s' if most < MINUTE_MS else seconds(most)}"
    if incident.kind in (IncidentKind.RESHARDING, IncidentKind.SLOTS_ASSIGNED):
        left = sum(step.kind == EventKind.SLOT_OPEN for step in incident.steps)
        if incident.variant == "slot open":
            return f"{slots} open"
        return f"{incident.slot_count} moved, {left} left open" if left else f"{slots} moved"
    return ""


def _print_warnings(ink: Ink, warnings: Sequence[Caveat], findings: Sequence[FindingRow]) -> None:
    """Print *warnings* of the replay and *findings*, the gravest first; notes are on the page only."""
    if not warnings and not findings:
        return
    print_counts(ink, [*warnings, *findings])
    messages: list[tuple[str, str]] = [(warning.severity, warning.text) for warning in warnings]
    messages += [(finding.severity, f"{finding.text} [{finding.rule}: {finding.rule_text}]") for finding in findings]
    messages.sort(key=lambda entry: list(Severity).index(Severity(entry[0])))
    print_graded(ink, messages, SUMMARY_LENGTH_MAX, FINDINGS_SHOWN)


def _named_once(sentence: str, known: set[str]) -> str:
    """Return *sentence* without the ids of nodes that are *known*, and add the others to these."""

    def name(match: re.Match[str]) -> str:
        again = match[0] in known
        known.add(match[0])
        return match[1] if again else match[0]

    return _NAMED.sub(name, sentence)


def print_story(incident: IncidentLine, console: Console) -> None:
    """Print one incident: its title, its figures, its steps in order."""
    ink = Ink(console)
    title = ink.safe(f"Incident {incident.number}", "bold")
    ink.line(title.append_text(ink.safe(f" · {incident.kind}, {incident.variant}")))
    ink.line(ink.safe(text.printable(incident.summary, SUMMARY_LENGTH_MAX)))
    ends = "open at the end" if incident.ended_ns is None else f"for {seconds(incident.duration_ms)}"
    ink.line(ink.safe(f"from {moment(incident.started_ns)}, {ends}", "dim"))
    figures = [
        f"{FIGURE_LABELS[name]} {figure_text(name, value)}"
        for name, value in incident.known_figures.items()
        if not (name.startswith("unheard_") and value == 0)
    ]
    if figures:
        ink.flow(figures)
    ink.heading("What happened", text.plural(incident.step_count, "step"))
    rows = []
    known: set[str] = set()
    for step in incident.steps:
        at, end = (
            clock(step.offset_ms),
            clock(step.offset_ms + ((step.until_ns or step.at_ns) - step.at_ns) // 1_000_000),
        )
        until = f" (until {end})" if end != at else ""
        message = "" if step.message_id is None else f" #{step.message_id}"
        line = ink.safe(text.printable(_named_once(step.text, known), STEP_LENGTH_MAX) + until)
        rows.append((Text(f"{at:>{CLOCK_CELLS}}"), line.append_text(ink.safe(message, "dim"))))
    ink.labelled(rows)
