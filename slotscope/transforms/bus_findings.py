"""From the tables of a replay to gold/incidents, gold/incident_steps and gold/findings.

Messages are read once, one node after the other in Spark tasks, which keep one span of speech and one row for each
connection of the node; what they return is small.  It goes with the silver rows of the snapshot, which are changes and
not messages, to `cluster_core.incidents` on the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from cluster_core.incidents.catalogue import find_findings, find_incidents
from cluster_core.incidents.history import History
from cluster_core.incidents.incident import FIGURES, Finding, Incident
from cluster_core.incidents.story import name_all, step_text, summary_of
from cluster_core.rules import sentence
from schemas.history import REPLAYS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from schemas.table import Table
from slotscope.runtime import tables
from slotscope.runtime.errors import InputError
from slotscope.transforms.bus_notes import Basis, breaches_of, collect_notes, costs_of, history_of

MESSAGE_IDS_MAX = 200
"""Evidence kept with a row; the steps have all."""


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
    findings = find_findings(history, breaches_of(notes), costs_of(notes))
    _write(spark, root, snapshot_id, history, incidents, findings)
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
    spark: SparkSession,
    root: str,
    snapshot_id: str,
    history: History,
    incidents: list[Incident],
    findings: list[Finding],
) -> None:
    names = name_all(history.nodes, history.addresses)
    found = [_incident_row(number, one, history, names) for number, one in enumerate(incidents, 1)]
    steps = [row for number, one in enumerate(incidents, 1) for row in _step_rows(number, one, names)]
    told = [_finding_row(number, one) for number, one in enumerate(findings, 1)]
    changes = [
        tables.Change(_frame(spark, rows, table, snapshot_id), table)
        for rows, table in ((found, INCIDENTS), (steps, INCIDENT_STEPS), (told, FINDINGS))
    ]
    tables.apply_changes(changes, root, snapshot_id)


def _frame(spark: SparkSession, rows: list[dict[str, Any]], table: Table, snapshot_id: str) -> DataFrame:
    """Rows without their timestamps, which follow from the ns."""
    times = {name.removesuffix("_at") for name in table.schema.names if name.endswith("_at")}
    given = StructType(
        [
            StructField(field.name, field.dataType)
            for field in table.schema.fields
            if field.name not in ("snapshot_id", "at", *(f"{name}_at" for name in times))
        ]
    )
    df = spark.createDataFrame([tuple(row.get(name) for name in given.names) for row in rows], given)
    stamps = {f"{name}_at": f"{name}_ns" for name in times} | ({"at": "at_ns"} if "at" in table.schema.names else {})
    columns = {name: F.timestamp_micros(F.expr(f"{source} div 1000")) for name, source in stamps.items()}
    return df.withColumns({"snapshot_id": F.lit(snapshot_id), **columns}).select(*table.schema.names)


def _incident_row(number: int, one: Incident, history: History, names: dict[str, str]) -> dict[str, Any]:
    refs = sorted({step.ref for step in one.steps if step.ref >= 0})
    return {
        "incident": number,
        "incident_id": one.incident_id,
        "kind": one.kind,
        "variant": one.variant,
        "subject": one.subject or None,
        "subject_address": history.addresses.get(one.subject),
        "winner": one.winner or None,
        "winner_address": history.addresses.get(one.winner),
        "nodes": list(one.nodes),
        "epoch": None if one.epoch is None else Decimal(one.epoch),
        "slots": one.slots or None,
        "started_ns": one.started_ns,
        "ended_ns": one.ended_ns,
        "duration_ms": None if one.ended_ns is None else (one.ended_ns - one.started_ns) // 1_000_000,
        **{name: getattr(one, name) for name in (*FIGURES, "slot_count")},
        "steps": len(one.steps),
        "summary": summary_of(one, names),
        "message_ids": refs[:MESSAGE_IDS_MAX],
        "rests_on_gap": one.rests_on_gap,
    }


def _step_rows(number: int, one: Incident, names: dict[str, str]) -> Iterator[dict[str, Any]]:
    for place, step in enumerate(one.steps, 1):
        yield {
            "incident": number,
            "step": place,
            "at_ns": step.ts_ns,
            "until_ns": step.until_ns,
            "offset_ms": (step.ts_ns - one.started_ns) // 1_000_000,
            "kind": step.kind,
            "actor": step.actor,
            "subject": step.subject or None,
            "epoch": None if step.epoch is None else Decimal(step.epoch),
            "amount": step.actors if step.actors > 1 else step.amount,
            "detail": step.detail,
            "message_id": None if step.ref < 0 else step.ref,
            "text": step_text(step, names),
            "rests_on_gap": step.rests_on_gap,
        }


def _finding_row(number: int, one: Finding) -> dict[str, Any]:
    return {
        "finding": number,
        "severity": one.severity,
        "code": one.code,
        "rule": one.rule,
        "rule_text": sentence(one.rule) or None,
        "node_id": one.node or None,
        "other": one.other or None,
        "first_ns": one.first_ns,
        "last_ns": one.last_ns,
        "times": one.times,
        "amount": one.amount,
        "text": one.text,
        "message_ids": [ref for ref in one.refs if ref >= 0][:MESSAGE_IDS_MAX],
    }
