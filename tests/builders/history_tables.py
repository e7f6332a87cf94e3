"""Writes a hand-written history into the tables of a replay, as history would."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
)

from cluster_core.incidents.finders.failovers import ATTEMPTS
from cluster_core.incidents.history import OffsetSeen
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, VoteRow
from schemas.history import (
    BUS_MESSAGES,
    EPOCHS,
    EVENTS,
    FAILURE_REPORTS,
    LINKS,
    LOG_EVENTS,
    NODE_POLLS,
    NODE_VIEWS,
    REPLAYS,
    SLOT_BITMAPS,
    VOTES,
)
from schemas.table import Table
from slotscope.pipelines.bus.findings import write_gold
from slotscope.pipelines.bus.headers import Basis, read_headers
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.runs import running
from tests.builders.history_builder import NODES, T0, TIMEOUT_MS, Tale, bits, ns

EMPTY = {
    StringType: "",
    IntegerType: 0,
    LongType: 0,
    BooleanType: False,
    DecimalType: Decimal(0),
    ArrayType: [],
    MapType: {},
}
LOGGED = (*ATTEMPTS, "vote-refused", "manual-failover-forced")
"""Events that only logs tell."""
SILENCE_MS = 700
"""The longest silence of every pair, but for those with the first node: 10,500 ms."""


def write_tale(spark: SparkSession, root: str, snapshot_id: str, tale: Tale) -> None:
    """Write the rows and headers of *tale*, and the incidents and findings that they tell of."""
    writes = [
        (NODE_VIEWS, [_view(row) for row in tale.rows if isinstance(row, NodeViewRow)]),
        (EVENTS, [_event(row) for row in tale.rows if isinstance(row, EventRow) and row.kind not in LOGGED]),
        (
            LOG_EVENTS,
            [_logged(row) for row in tale.rows if isinstance(row, EventRow) and row.kind in LOGGED]
            + [_asked(seen) for seen in tale.offsets if seen.is_last],
        ),
        (NODE_POLLS, [_polled(seen) for seen in tale.offsets if not seen.is_last]),
        (VOTES, [_vote(row) for row in tale.rows if isinstance(row, VoteRow)]),
        (EPOCHS, [_epoch(row) for row in tale.rows if isinstance(row, EpochRow)]),
        (FAILURE_REPORTS, [_report(row) for row in tale.rows if isinstance(row, FailureReportRow)]),
        (BUS_MESSAGES, _messages(tale)),
        (SLOT_BITMAPS, [_bitmap(text, number) for text, number in tale.bitmaps.items()]),
        (LINKS, _links()),
        (REPLAYS, [_replay(tale)]),
    ]
    changes = [tables.Change(_frame(spark, table, rows), table) for table, rows in writes]
    with running(root, "history", snapshot_id) as run:
        tables.apply_changes(changes, run)
        basis = Basis(TIMEOUT_MS, True, T0, ns(tale.end_s))
        write_gold(run, basis, read_headers(run, basis))


def _frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows with what they lack: times from their ns, and nothing of the right type."""
    declared = spark_schema(table.unlabelled)
    filled = [tuple(_value(field, row) for field in declared) for row in rows]
    return spark.createDataFrame(filled, declared)


def _value(field: StructField, row: dict[str, Any]) -> Any:
    if field.name in row:
        value = row[field.name]
        value = value.value if isinstance(value, Enum) else value
        return Decimal(value) if isinstance(field.dataType, DecimalType) and value is not None else value
    ts_ns = row.get(f"{field.name}_ns")
    if ts_ns is not None:
        return datetime.fromtimestamp(ts_ns / 1e9, UTC)
    return None if field.nullable else EMPTY[type(field.dataType)]


def _asked(seen: OffsetSeen) -> dict[str, Any]:
    """A line of the log of a master that was deposed."""
    text = f"Trying a partial resynchronization (request {'0' * 40}:{seen.offset + 1})."
    return {
        "observer": seen.node,
        "ts_ns": seen.ts_ns,
        "kind": "resync-asked",
        "text": text,
        "detail": str(seen.offset + 1),
    }


def _polled(seen: OffsetSeen) -> dict[str, Any]:
    """A poll with the offset of INFO."""
    return {"observer": seen.node, "ts_ns": seen.ts_ns, "master_offset": seen.offset}


def _message_id(ref: int) -> int | None:
    return None if ref < 0 else ref


def _view(row: NodeViewRow) -> dict[str, Any]:
    return {**row._asdict(), "message_id": _message_id(row.ref)}


def _event(row: EventRow) -> dict[str, Any]:
    return {**row._asdict(), "message_id": _message_id(row.ref)}


def _logged(row: EventRow) -> dict[str, Any]:
    """What only a log tells."""
    return {"observer": row.observer, "ts_ns": row.ts_ns, "kind": row.kind, "subject": row.subject, "text": row.detail}


def _vote(row: VoteRow) -> dict[str, Any]:
    return {**row._asdict(), "message_id": _message_id(row.ref)}


def _epoch(row: EpochRow) -> dict[str, Any]:
    return {**row._asdict(), "message_id": _message_id(row.ref)}


def _report(row: FailureReportRow) -> dict[str, Any]:
    return {**row._asdict(), "message_id": _message_id(row.ref)}


def _messages(tale: Tale) -> list[dict[str, Any]]:
    return [
        {
            "message_id": header.ref,
            "ts_ns": header.ts_ns,
            "connection": way,
            "from_opener": True,
            "type": "ping",
            "sender": node,
            "current_epoch": header.current_epoch,
            "config_epoch": header.config_epoch,
            "repl_offset": header.offset,
            "bitmap_id": header.slots,
            "replicaof": header.replicaof or None,
            "node_flags": header.flags,
            "state": header.state,
            "mflags": 0,
            "understood": True,
        }
        for node, way, header in tale.headers
    ]


def _bitmap(text: str, number: int) -> dict[str, Any]:
    return {"bitmap_id": number, "slots": text, "slot_count": bits(text).bit_count()}


def _links() -> list[dict[str, Any]]:
    return [
        {
            "source_id": source,
            "target_id": target,
            "messages": 12,
            "bytes": 30_000,
            "messages_by_type": {"ping": 10, "fail": 2},
            "bytes_by_type": {"ping": 25_000, "fail": 5_000},
            "first_seen_ns": T0,
            "last_seen_ns": T0,
            "longest_silence_ms": 10_500 if source == NODES[0] else SILENCE_MS,
        }
        for source in NODES
        for target in NODES
        if source != target
    ]


def _replay(tale: Tale) -> dict[str, Any]:
    return {
        "first_ns": T0,
        "last_ns": ns(tale.end_s),
        "messages": len(tale.headers),
        "observers": len(NODES),
        "node_timeout_ms": TIMEOUT_MS,
        "node_timeout_from": "given",
        "profile": "redis-7.0",
    }
