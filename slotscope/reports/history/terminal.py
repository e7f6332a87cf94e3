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
from slotscope.reports.ink import Ink
from slotscope.reports.terminal import print_counts, print_graded
from slotscope.runtime import text

SUMMARY_LENGTH_MAX = 1000
STEP_LENGTH_MAX = 600
FINDINGS_SHOWN = 8
CLOCK_CELLS = 9
MINUTE_MS = 60_000
NODES_NAMED = 3
"""Nodes that are named in a line of the list."""
_NAMED = re.compile(r"([^()\s]+:\d+) \([0-9a-f]{8,40}\)")

FIGURE_WORDS = {
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
"""What the figures of an incident are called."""


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
    ink.line(ink.words(text.printable(report.verdict[0], SUMMARY_LENGTH_MAX), "bold"))
    if report.seen_by:
        ink.line(ink.words(f"Evidence: {report.seen_by}. {report.missing_evidence}", "dim"))
    if report.set_up and report.incidents:
        ink.line(ink.words(f"{report.set_up}.", "dim"))
    notes = [one for one in report.findings if one.severity == Severity.NOTE]
    graver = [one for one in report.findings if one.severity != Severity.NOTE]
    _print_doubts(ink, [one for one in report.warnings if one.severity != Severity.NOTE], graver)
    if report.incidents:
        day = moment(report.incidents[0].started_ns)[:10]
        is_one_day = all(moment(one.started_ns)[:10] == day for one in report.incidents)
        ink.heading("Incidents", f"{day}, UTC" if is_one_day else "UTC")
        names = _short_addresses(report)
        ink.table(
            (">#", "time", ">duration", "what", "who", "impact"),
            [
                (
                    str(one.number),
                    moment(one.started_ns)[11 if is_one_day else 5 : 19],
                    "open" if one.duration_ms is None else seconds(one.duration_ms),
                    _what(one),
                    _who(one, names),
                    _impact(one),
                )
                for one in report.incidents
            ],
        )
        ink.note("Step by step: slotscope incidents NUMBER")
    _print_doubts(ink, [], notes)
    ink.page("All of it, with a timeline of each node", html_path)


WHAT: dict[tuple[str, str], str] = {
    (IncidentKind.FAILOVER, "manual"): "manual failover",
    (IncidentKind.FAILOVER, "forced"): "forced failover",
    (IncidentKind.FAILOVER, "takeover"): "takeover",
    (IncidentKind.FAILURE, "not agreed"): "suspected failure",
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
"""What incidents of a kind and variant are called in the list; others by their kind."""


def _what(one: IncidentLine) -> str:
    return WHAT.get((one.kind, one.variant), one.kind.replace("-", " "))


def _short_addresses(report: HistoryReport) -> dict[str, str]:
    """The addresses of all nodes, as ports where all are on one host; the beginning of the id where no address is known."""
    known = {node.node_id: node.address or node.name for node in report.nodes}
    for one in report.incidents:
        known |= {one.subject or "": one.subject_address} if one.subject_address else {}
        known |= {one.winner or "": one.winner_address} if one.winner_address else {}
    hosts = {address.rpartition(":")[0] for address in known.values()} - {""}
    return {
        node: address.removeprefix(next(iter(hosts))) if len(hosts) == 1 else address for node, address in known.items()
    }


def _who(one: IncidentLine, names: dict[str, str]) -> str:
    """The node that it is about, and the one that took over; else how many took part."""
    subject, winner = (names.get(node, node[:8]) if node else "" for node in (one.subject, one.winner))
    if subject or winner:
        return f"{subject or 'unknown'} → {winner}" if winner else subject
    nodes = [names.get(node, node[:8]) for node in one.nodes]
    return ", ".join(nodes) if len(nodes) <= NODES_NAMED else f"{len(nodes)} nodes"


def _impact(one: IncidentLine) -> str:
    """What was not served and for how long, or which slots moved or lost their data."""
    slots = "slots" if one.slot_count is None else text.plural(one.slot_count, "slot")
    if one.kind == IncidentKind.DATA_LOSS:
        return f"data of {'a shard' if one.slot_count is None else slots} lost"
    if one.figures.get("outage_min_ms") is not None or one.figures.get("outage_ms") is not None:
        slots = "all slots" if one.variant == "whole cluster" else slots
        least, most = one.figures.get("outage_min_ms") or 0, one.figures.get("outage_ms")
        if most is None:
            return f"{slots} not back"
        if most - least <= RANGE_MS:
            return f"{slots} {seconds(most)}"
        shortest = "up to " if not least else f"{least / 1000:.1f}-" if most < MINUTE_MS else f"{seconds(least)} to "
        return f"{slots} {shortest}{f'{most / 1000:.1f} s' if most < MINUTE_MS else seconds(most)}"
    if one.kind in (IncidentKind.RESHARDING, IncidentKind.SLOTS_ASSIGNED):
        left = sum(step.kind == EventKind.SLOT_OPEN for step in one.steps)
        if one.variant == "slot open":
            return f"{slots} open"
        return f"{one.slot_count} moved, {left} left open" if left else f"{slots} moved"
    return ""


def _print_doubts(ink: Ink, warnings: Sequence[Caveat], findings: Sequence[FindingRow]) -> None:
    """Print *warnings* of the replay, whose notes are on the page, and *findings*, the gravest first."""
    if not warnings and not findings:
        return
    print_counts(ink, [*warnings, *findings])
    told: list[tuple[str, str]] = [(one.severity, one.text) for one in warnings]
    told += [(one.severity, f"{one.text} [{one.rule}: {one.rule_text}]") for one in findings]
    told.sort(key=lambda one: list(Severity).index(Severity(one[0])))
    print_graded(ink, told, SUMMARY_LENGTH_MAX, FINDINGS_SHOWN)


def _named_once(words: str, known: set[str]) -> str:
    """Return *words* without the ids of nodes that are *known*, and add the others to these."""

    def name(found: re.Match[str]) -> str:
        again = found[0] in known
        known.add(found[0])
        return found[1] if again else found[0]

    return _NAMED.sub(name, words)


def print_story(incident: IncidentLine, console: Console) -> None:
    """Print one incident: what it was, its figures, its steps in order."""
    ink = Ink(console)
    title = ink.words(f"Incident {incident.number}", "bold")
    ink.line(title.append_text(ink.words(f" · {incident.kind}, {incident.variant}")))
    ink.line(ink.words(text.printable(incident.summary, SUMMARY_LENGTH_MAX)))
    ends = "open at the end" if incident.ended_ns is None else f"for {seconds(incident.duration_ms)}"
    ink.line(ink.words(f"from {moment(incident.started_ns)}, {ends}", "dim"))
    figures = [
        f"{FIGURE_WORDS[name]} {figure_text(name, value)}"
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
        words = ink.words(text.printable(_named_once(step.text, known), STEP_LENGTH_MAX) + until)
        rows.append((Text(f"{at:>{CLOCK_CELLS}}"), words.append_text(ink.words(message, "dim"))))
    ink.labelled(rows)
