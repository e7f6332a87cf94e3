"""From the tables of a replay to gold/incidents, gold/incident_steps and gold/findings.

Messages are read once, one node after the other in Spark tasks, which keep one span of speech and one row for each
connection of the node; what they return is small.  It goes with the silver rows of the snapshot, which are changes and
not messages, to `cluster_core.incidents` on the driver.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import SparkSession

from cluster_core.incidents.catalogue import find_findings, find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, Incident
from cluster_core.incidents.rows import (
    FindingRow,
    IncidentRow,
    StepRow,
    finding_row,
    incident_row,
    step_rows,
)
from cluster_core.incidents.story import name_all, step_text, summary_of
from schemas.history import REPLAYS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from slotscope.pipelines.bus_notes import Basis, collect_notes, history_of
from slotscope.runtime import tables
from slotscope.runtime.errors import InputError
from slotscope.runtime.row_tables import rows_table, with_snapshot


class GoldCounts(NamedTuple):
    """How many rows were written, findings by severity."""

    incidents: int
    steps: int
    findings: dict[str, int]


def write_gold(spark: SparkSession, root: str, snapshot_id: str, basis: Basis | None = None) -> GoldCounts:
    """Replace the snapshot in gold/incidents, gold/incident_steps and gold/findings.

    *basis* is read from silver/replays when it is not given (a running replay writes that table last).
    """
    basis = basis or _read_basis(spark, root, snapshot_id)
    notes = collect_notes(spark, root, snapshot_id, basis)
    history = history_of(notes, basis)
    incidents = find_incidents(history)
    findings = find_findings(history, notes.breaches, notes.costs)
    _write(root, snapshot_id, history, incidents, findings)
    severities: dict[str, int] = {}
    for finding in findings:
        severities[finding.severity] = severities.get(finding.severity, 0) + 1
    return GoldCounts(len(incidents), sum(len(one.steps) for one in incidents), severities)


def _read_basis(spark: SparkSession, root: str, snapshot_id: str) -> Basis:
    row = tables.read_snapshot(spark, REPLAYS, root, snapshot_id).first()
    if row is None:
        raise InputError(f"{root}: no finished replay {snapshot_id!r}; run the bus-replay job for it")
    return Basis(int(row["node_timeout_ms"]), int(row["first_ns"] or 0), int(row["last_ns"] or 0))


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(
    root: str,
    snapshot_id: str,
    history: History,
    incidents: list[Incident],
    findings: list[Finding],
) -> None:
    names = name_all(history.nodes, history.addresses)
    numbered = list(enumerate(incidents, 1))
    found = [incident_row(number, one, summary_of(one, names), history.addresses) for number, one in numbered]
    steps = [
        row for number, one in numbered for row in step_rows(number, one, lambda step: step_text(step, names), names)
    ]
    told = [finding_row(number, one) for number, one in enumerate(findings, 1)]
    changes = []
    for rows, row, table in (
        (found, IncidentRow, INCIDENTS),
        (steps, StepRow, INCIDENT_STEPS),
        (told, FindingRow, FINDINGS),
    ):
        changes.append(tables.Change(with_snapshot(rows_table(rows, row, table), table, snapshot_id), table))
    tables.apply_changes(changes, root, snapshot_id)
