"""The tables of a replay as one `HistoryReport`: bounded reads, nothing computed that is not in a table."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cluster_core.incidents.incident import FIGURES
from cluster_core.incidents.story import name_all
from schemas.caveats import Caveat
from schemas.history import LINKS, NODE_VIEWS, REPLAYS
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from schemas.table import Table
from slotscope.reports.history.report import (
    FindingLine,
    HistoryNode,
    HistoryReport,
    IncidentLine,
    Lane,
    OwnBelief,
    StepLine,
    health_spans,
    role_spans,
)
from slotscope.reports.records import record
from slotscope.runtime import tables
from slotscope.runtime.errors import InputError

STEPS_SHOWN = 20_000
"""Steps of all stories; those of the first incidents go first."""
FINDINGS_SHOWN = 5_000
BELIEFS_SHOWN = 200_000
SILENCES_SHOWN = 40_000


def load_incidents(spark: SparkSession, root: str, snapshot_id: str, number: int | None = None) -> list[IncidentLine]:
    """All incidents without their steps, or the one with *number* and all of them; raises InputError if it is not
    there.
    """
    rows = tables.read_snapshot(spark, INCIDENTS, root, snapshot_id)
    if number is None:
        return [_incident(row, ()) for row in rows.orderBy("incident").collect()]
    found = rows.where(F.col("incident") == number).collect()
    if not found:
        count = rows.count()
        there = f"there are {count}, from 1" if count else "there are none"
        raise InputError(f"{root}: snapshot {snapshot_id!r} has no incident {number}: {there}")
    steps = tables.read_snapshot(spark, INCIDENT_STEPS, root, snapshot_id).where(F.col("incident") == number)
    return [_incident(found[0], [record(StepLine, row) for row in steps.orderBy("step").limit(STEPS_SHOWN).collect()])]


def load_history(spark: SparkSession, root: str, snapshot_id: str) -> HistoryReport:
    """Read what the tables under *root* say of a replay; raises InputError if it is not there, or was not finished."""

    def rows(table: Table) -> DataFrame:
        return tables.read_snapshot(spark, table, root, snapshot_id)

    replay = rows(REPLAYS).first()
    if replay is None:
        raise InputError(f"{root}: no finished replay {snapshot_id!r}; run the bus-replay job for it")
    first_ns, last_ns = int(replay["first_ns"] or 0), int(replay["last_ns"] or 0)
    nodes = _nodes(rows(NODE_VIEWS))
    steps: dict[int, list[StepLine]] = {}
    for row in rows(INCIDENT_STEPS).orderBy("incident", "step").limit(STEPS_SHOWN).collect():
        steps.setdefault(row["incident"], []).append(record(StepLine, row))
    found = rows(INCIDENTS).orderBy("incident").collect()
    return record(
        HistoryReport,
        replay,
        first_ns=first_ns,
        last_ns=last_ns,
        warnings=[Caveat.of(*row) for row in replay["warnings"]],
        nodes=nodes,
        incidents=[_incident(row, steps.get(row["incident"], [])) for row in found],
        findings=[
            record(FindingLine, row, number=row["finding"])
            for row in rows(FINDINGS).orderBy("finding").limit(FINDINGS_SHOWN).collect()
        ],
        lanes=_lanes(rows(NODE_VIEWS), nodes, first_ns, last_ns),
        silences={
            (row["target_id"], row["source_id"]): row["longest_silence_ms"]
            for row in rows(LINKS)
            .select("source_id", "target_id", "longest_silence_ms")
            .orderBy(F.col("longest_silence_ms").desc(), "source_id", "target_id")
            .limit(SILENCES_SHOWN)
            .collect()
        },
    )


def _nodes(views: DataFrame) -> list[HistoryNode]:
    """Every node with the last address that anybody knew."""
    latest = F.max_by(F.concat_ws(":", "ip", "port"), "valid_from_ns")
    known = views.groupBy("node_id").agg(latest.alias("address"), F.max("ip").alias("ip")).collect()
    addresses = {row["node_id"]: row["address"] if row["ip"] else "" for row in known}
    names = name_all(sorted(addresses), {})
    return [
        HistoryNode(node, names[node], address)
        for node, address in sorted(addresses.items(), key=lambda item: (_address_key(item[1]), item[0]))
    ]


def _address_key(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdigit() else 0


def _lanes(views: DataFrame, nodes: list[HistoryNode], first_ns: int, last_ns: int) -> list[Lane]:
    own: dict[str, list[OwnBelief]] = {}
    columns = ("node_id", "valid_from_ns", "valid_to_ns", "flags", "master_id", "config_epoch", "slots")
    mine = views.where(F.col("observer") == F.col("node_id")).select(*columns)
    for row in mine.orderBy("node_id", "valid_from_ns").limit(BELIEFS_SHOWN).collect():
        belief = OwnBelief(
            row["valid_from_ns"], row["valid_to_ns"], row["flags"], row["master_id"], int(row["config_epoch"]),
            row["slots"],
        )  # fmt: skip
        own.setdefault(row["node_id"], []).append(belief)
    doubts: dict[str, list[tuple[int, int | None, bool]]] = {}
    words = F.split("flags", ",")
    failing = F.array_contains(words, "fail")
    doubted = views.where((F.col("observer") != F.col("node_id")) & (failing | F.array_contains(words, "fail?")))
    for row in (
        doubted.select(*columns[:3], failing.alias("failed")).orderBy(*columns[:2]).limit(BELIEFS_SHOWN).collect()
    ):
        doubts.setdefault(row["node_id"], []).append((row["valid_from_ns"], row["valid_to_ns"], row["failed"]))
    return [
        Lane(
            node,
            role_spans(own.get(node.node_id, []), last_ns),
            health_spans(doubts.get(node.node_id, []), first_ns, last_ns),
        )
        for node in nodes
    ]


def _incident(row: Row, steps: Any) -> IncidentLine:
    epoch = None if row["epoch"] is None else int(row["epoch"])
    figures = {name: row[name] for name in FIGURES}
    return record(
        IncidentLine, row, number=row["incident"], epoch=epoch, figures=figures, step_count=row["steps"], steps=steps
    )
