"""Writes a hand-written history into the tables of a replay, as history would."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from cluster_core.incidents.finders.failovers import ATTEMPTS
from cluster_core.incidents.history import OffsetSeen
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, VoteRow
from cluster_core.slots.slot_set import slot_bits
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
from schemas.table import UNSIGNED, Table, rows_table
from slotscope.pipelines.bus.findings import write_gold
from slotscope.pipelines.bus.headers import Basis, read_headers
from slotscope.runtime.storage.runs import running
from tests.builders.history_builder import NODES, T0, TIMEOUT_MS, Tale, ns

ROWS = {
    NodeViewRow: NODE_VIEWS,
    EventRow: EVENTS,
    VoteRow: VOTES,
    EpochRow: EPOCHS,
    FailureReportRow: FAILURE_REPORTS,
}
EMPTY = {pa.string(): "", pa.int32(): 0, pa.int64(): 0, pa.bool_(): False, UNSIGNED: 0}
LOGGED = (*ATTEMPTS, "vote-refused", "manual-failover-forced")
"""Events that only logs tell."""
SILENCE_MS = 700
"""The longest silence of every pair, but for those with the first node: 10,500 ms."""


def write_tale(root: str, snapshot_id: str, tale: Tale) -> None:
    """Write the rows and headers of *tale*, and the incidents and findings that they tell of."""
    rows = {kind: [row for row in tale.rows if type(row) is kind] for kind in ROWS}
    logged = [row for row in rows[EventRow] if row.kind in LOGGED]
    rows[EventRow] = [row for row in rows[EventRow] if row.kind not in LOGGED]
    written = {table: rows_table(rows[kind], kind, table).to_pylist() for kind, table in ROWS.items()}
    written |= {
        LOG_EVENTS: [*map(_logged, logged), *(_asked(seen) for seen in tale.offsets if seen.is_last)],
        NODE_POLLS: [_polled(seen) for seen in tale.offsets if not seen.is_last],
        BUS_MESSAGES: _messages(tale),
        SLOT_BITMAPS: [_bitmap(text, number) for text, number in tale.bitmaps.items()],
        LINKS: _links(),
        REPLAYS: [_replay(tale)],
    }
    with running(root, "history", snapshot_id) as run:
        for table, own in written.items():
            run.append(table, [_filled(table, row) for row in own])
        basis = Basis(TIMEOUT_MS, True, T0, ns(tale.end_s))
        write_gold(run, basis, read_headers(run, basis))


def _filled(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """*row* with times from their ns, and an empty value in each other column that must have one."""
    given = {name: value for name, value in row.items() if value is not None}
    times = {name.removesuffix("_ns"): ns // 1000 for name, ns in given.items() if name.endswith("_ns")}
    empty = {field.name: EMPTY.get(field.type, []) for field in table.unlabelled if not field.nullable}
    return {**empty, **times, **given}


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


def _logged(row: EventRow) -> dict[str, Any]:
    """What only a log tells."""
    return {"observer": row.observer, "ts_ns": row.ts_ns, "kind": row.kind, "subject": row.subject, "text": row.detail}


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
    return {"bitmap_id": number, "slots": text, "slot_count": slot_bits(text).bit_count()}


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
