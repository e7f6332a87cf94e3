"""Makes history reports for tests: the failover of `tests.builders.history_builder`, nothing at all, or one with hostile names."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.incidents.catalogue import find_findings, find_incidents
from cluster_core.incidents.incident import FIGURES, Finding
from cluster_core.incidents.rows import finding_row
from cluster_core.incidents.story import name_all, step_text, summary_of
from cluster_core.kinds import FindingCode, Severity
from schemas.caveats import Caveat
from slotscope.reports.history.report import (
    HistoryNode,
    HistoryReport,
    IncidentLine,
    Lane,
    StepLine,
    health_spans,
    role_spans,
)
from tests.builders.history_builder import NODES, T0, TIMEOUT_MS, B, C, R, failover_tale, ns, quiet_tale
from tests.builders.rebalance_report import HOSTILE


def history_report(*, hostile: bool = False, quiet: bool = False) -> HistoryReport:
    """What `load_history` would read, without Spark."""
    tale = quiet_tale() if quiet else failover_tale()
    if not quiet:
        tale.says(R, 29.9, slots="0-99", epoch=4, current=4, flags=0x2000)
    history = tale.history()
    names = name_all(history.nodes, history.addresses)
    result = [finding for finding in find_findings(history) if not quiet or finding.code != "one-host"]
    if not quiet:
        text = f"{names[B]} and {names[C]} both claimed 50 slots for 9000 ms: 150-199"
        result = [Finding(Severity.WARNING, FindingCode.SPLIT_CLAIM, B, C, T0, ns(9), 1, 9000, text, (3, 4)), *result]
    incidents = [
        IncidentLine(
            number, incident.kind, incident.variant, incident.subject or None, incident.winner or None, incident.nodes, incident.epoch,
            incident.slot_count, incident.started_ns, incident.ended_ns,
            None if incident.ended_ns is None else (incident.ended_ns - incident.started_ns) // 1_000_000,
            {name: getattr(incident, name) for name in FIGURES}, summary_of(incident, names), len(incident.steps),
            [
                StepLine(step.ts_ns, step.until_ns, (step.ts_ns - incident.started_ns) // 1_000_000, step.kind,
                         step_text(step, names), step.ref if step.ref >= 0 else None,
                         step.actor, step.subject or None)
                for step in incident.steps
            ],
        )
        for number, incident in enumerate(find_incidents(history), 1)
    ]  # fmt: skip
    nodes = [HistoryNode(node, names[node][:8], history.addresses[node]) for node in NODES]
    report = HistoryReport(
        snapshot_id="tale",
        first_ns=T0,
        last_ns=ns(30),
        messages=len(tale.headers),
        observers=len(NODES),
        node_timeout_ms=TIMEOUT_MS,
        node_timeout_from="given",
        profile="redis-7.0",
        bad_records=0,
        nodes=nodes,
        incidents=incidents,
        findings=[finding_row(number, incident) for number, incident in enumerate(result, 1)],
        lanes=[
            Lane(
                node,
                role_spans(history.views.get((node.node_id, node.node_id), []), ns(30)),
                health_spans(
                    [
                        row
                        for (observer, subject), rows in history.views.items()
                        for row in rows
                        if subject == node.node_id and observer != subject and "fail" in row.flags
                    ],
                    T0,
                    ns(30),
                ),
            )
            for node in nodes
        ],
    )  # fmt: skip
    return _hostile(report) if hostile else report


def _hostile(report: HistoryReport) -> HistoryReport:
    """Every text that may come from outside is one of `HOSTILE`."""
    everything = " ".join(HOSTILE)
    return replace(
        report,
        snapshot_id=HOSTILE[0],
        bad_records=3,
        warnings=[Caveat("warning", HOSTILE[1], everything)],
        nodes=[replace(node, address=HOSTILE[0], name=HOSTILE[1]) for node in report.nodes],
        lanes=[replace(lane, node=replace(lane.node, address=HOSTILE[2])) for lane in report.lanes],
        incidents=[
            replace(
                incident,
                variant=HOSTILE[0],
                summary=everything,
                steps=[replace(step, text=everything, kind=HOSTILE[1]) for step in incident.steps],
            )
            for incident in report.incidents
        ],
        findings=[finding._replace(text=everything, code=HOSTILE[0]) for finding in report.findings],
    )
