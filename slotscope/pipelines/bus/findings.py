"""From the tables of a replay to gold/incidents, gold/incident_steps and gold/findings.

What headers came to is small (`slotscope.pipelines.bus.headers`).  It goes with the silver rows of the snapshot, which are changes and
not messages, to `cluster_core.incidents` on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cluster_core.incidents.catalogue import find_findings, find_story
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import SEVERITY_ORDER, Finding, Incident
from cluster_core.incidents.rows import (
    FindingRow,
    IncidentRow,
    StepRow,
    finding_row,
    incident_row,
    step_rows,
)
from cluster_core.incidents.story import name_all, set_up_text, step_text, summary_of
from cluster_core.kinds import Source
from cluster_core.replay.rows import NodeViewRow, ReplayRow
from schemas.caveats import Caveat, Code
from schemas.history import BUS_MESSAGES, NODE_VIEWS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from schemas.table import Table, rows_table
from slotscope.pipelines.bus.headers import Basis, Headers
from slotscope.pipelines.bus.notes import collect_notes, history_of
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import as_table
from slotscope.runtime.storage.runs import Run


class Gold(NamedTuple):
    """The number of written steps, the state of the headers of each node, the nodes of each cluster (`clusters_in`), *views* that logs
    and metrics add to those of the replay, and notes for the reader.
    """

    steps: int
    states: dict[str, bytes]
    clusters: list[list[str]]
    views: pa.Table
    notes: Sequence[Caveat] = ()


RECENT_NS: Final = 600_000_000_000
"""A batch reads the polls of so much recorded time again."""
BEFORE_NS: Final = 120_000_000_000
"""Polls of so much time before an incident belong to it."""


def recent_since(incidents: Iterable[Mapping[str, Any]], last_ns: int, lateness_ns: int) -> int:
    """Return the time from which a batch finds incidents again; earlier batches ended at *last_ns*, and no incident spans the time.

    *incidents* are the stored ones.  An open incident keeps the start before it.
    """
    since_ns = last_ns - RECENT_NS - lateness_ns
    for row in sorted(incidents, key=lambda row: row["started_ns"], reverse=True):
        if row["started_ns"] < since_ns and (row["ended_ns"] is None or row["ended_ns"] >= since_ns):
            since_ns = row["started_ns"]
    return since_ns


def polls_since(since_ns: int) -> int:
    """Start of the polls that a batch needs to find incidents since *since_ns*."""
    return max(0, since_ns - BEFORE_NS)


def write_gold(run: Run, basis: Basis, headers: Headers, since_ns: int = 0) -> Gold:
    """Write gold/incidents, gold/incident_steps and gold/findings from what *run* has written and kept of its snapshot.

    Stored incidents and findings of the time before *since_ns* stay.
    """
    notes = collect_notes(run, headers, polls_since(since_ns))
    history, added = history_of(notes, basis)
    set_up, incidents = find_story(history)
    findings = find_findings(history)
    recent = [incident for incident in incidents if incident.started_ns >= since_ns]
    _write(run, history, recent, findings, since_ns)
    caveats = [] if set_up is None else [Caveat.note(Code.SET_UP, set_up_text(set_up))]
    views = rows_table(added, NodeViewRow, NODE_VIEWS)
    return Gold(
        sum(len(incident.steps) for incident in recent), headers.states, clusters_in(notes.rows), views, caveats
    )


def clusters_in(rows: Iterable[ReplayRow]) -> list[list[str]]:
    """The nodes of each cluster: those that know each other, directly or through others, by captures or polls; single nodes left out."""
    group: dict[str, set[str]] = {}
    for row in rows:
        if isinstance(row, NodeViewRow) and row.evidence in (Source.CAPTURE, Source.POLL):
            small, large = sorted((group.get(node) or {node} for node in (row.observer, row.node_id)), key=len)
            if small is not large:
                large |= small
                group |= dict.fromkeys(large, large)
    return sorted(sorted(nodes) for nodes in {id(nodes): nodes for nodes in group.values()}.values() if len(nodes) > 1)


def check_figures(run: Run, facts: Mapping[str, Any], known_messages: int, found_steps: int) -> None:
    """Compare the figures of *run* with its staged rows; raises InputError where they contradict each other.

    *facts* are those of the capture task, of which *known_messages* were settled by earlier runs.
    """
    sql = """SELECT count(*) AS rows, count(type) AS types, count(file) AS files,
      max(message_id) - min(message_id) + 1 AS numbers FROM bus_messages"""
    (stored,) = run.query(sql, BUS_MESSAGES, stored=False).to_pylist()
    by = {f"{BUS_MESSAGES.name}, {name}": count or 0 for name, count in stored.items()}
    run.check("messages", {"read": facts["messages"] - known_messages, **by})
    sql = "SELECT sum(steps) AS steps FROM incidents"
    (counted,) = run.query(sql, INCIDENTS, stored=False).to_pylist()
    steps = {"found": found_steps, INCIDENTS.name: counted["steps"] or 0}
    run.check("steps", {**steps, INCIDENT_STEPS.name: run.rows[INCIDENT_STEPS]})


def _write(run: Run, history: History, incidents: list[Incident], findings: list[Finding], since_ns: int) -> None:
    names = name_all(history.nodes, history.addresses)
    kept = len(_stored(run, INCIDENTS, f"started_ns < {since_ns}", "incident"))
    numbered = list(enumerate(incidents, kept + 1))
    incident_rows = [incident_row(number, one, summary_of(one, names), history.addresses) for number, one in numbered]
    steps = [row for number, one in numbered for row in step_rows(number, one, lambda step: step_text(step, names))]
    kinds = ((incident_rows, IncidentRow, INCIDENTS), (steps, StepRow, INCIDENT_STEPS))
    changes = [tables.Change(rows_table(rows, row, table), table, f"incident > {kept}") for rows, row, table in kinds]
    finding_rows = [
        finding_row(0, finding) for finding in findings if finding.last_ns is None or finding.last_ns >= since_ns
    ]
    rows = rows_table(finding_rows, FindingRow, FINDINGS).to_pylist()
    first_ns = {_about(row): row["first_ns"] or 0 for row in rows}
    before = _stored(run, FINDINGS, f"last_ns < {since_ns}", *FINDINGS.unlabelled.names)
    rows += [row for row in before if first_ns.get(_about(row), since_ns) > row["first_ns"]]
    rows.sort(key=lambda row: (SEVERITY_ORDER.index(row["severity"]), row["first_ns"] or 0, *_about(row)))
    by_number = [row | {"finding": number} for number, row in enumerate(rows, 1)]
    tables.apply_changes([*changes, tables.Change(as_table(FINDINGS, by_number), FINDINGS)], run)


def _about(finding: Mapping[str, Any]) -> tuple[str, str, str]:
    return finding["code"], finding["node_id"] or "", finding["other"] or ""


def _stored(run: Run, table: Table, where: str, *columns: str) -> list[dict[str, Any]]:
    """The rows of *table* that earlier batches left."""
    return run.read(table, columns, where, staged=False) if run.continues else []
