"""A series of captures of client ports in one task: decoded, replayed, and out come the rows of the replication tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from cluster_core.formats.capture.resp_capture import CapturedResp
from cluster_core.replication.forecast import foresee_all
from cluster_core.replication.reconstruction import Reconstruction
from cluster_core.replication.rows import LinkSpan, OffsetMark, Resync
from cluster_core.replication.story import tell_resync
from cluster_core.routing.command_table import table_of
from schemas.bronze import BAD_RECORDS
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from schemas.table import Table
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.evidence import table_arrow
from slotscope.sources.bus.files import CaptureFile
from slotscope.sources.resp.rows import BadRecords, resp_rows

JOB: Final = "replication-replay"
LINKS, OFFSETS, ASKED, BAD, COUNTS = range(5)
"""Kinds of the task's rows."""
REPLAYED = StructType([StructField("kind", IntegerType(), False), StructField("blob", BinaryType(), False)])
ROWS_PER_BLOB: Final = 20_000
WRITES_OF: Final = "valkey-9.1"
"""The table of commands that says which are writes: the larger one."""


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    """What the task needs: the files, sizes of backlogs by server ("" for all), and whether damage is passed over."""

    files: tuple[CaptureFile, ...]
    backlog_bytes: Mapping[str, int]
    permissive: bool


def replication_task(batches: Iterator[pa.RecordBatch], options: ReplicationOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all tables as blobs; raises DecodeError in strict mode."""
    for _ in batches:
        pass
    bad = BadRecords(strict=not options.permissive)
    replayed, values = replay_captures(options.files, options.backlog_bytes, bad)
    yield from _blobs(LINKS, REPLICATION_LINKS, link_rows(replayed.spans))
    yield from _blobs(OFFSETS, REPLICATION_OFFSETS, offset_rows(replayed.marks))
    yield from _blobs(ASKED, RESYNCS, [resync_row(resync) for resync in replayed.resyncs])
    yield from _blobs(BAD, BAD_RECORDS, [{"job": JOB, **row} for row in bad.listed])
    yield _blob(COUNTS, f"{values} {bad.count}".encode())


def replay_captures(
    files: Sequence[CaptureFile], backlog_bytes: Mapping[str, int], bad: BadRecords
) -> tuple[Reconstruction, int]:
    """Replay a series: the history and how many values it was made of; raises DecodeError as *bad* says."""
    commands = table_of(WRITES_OF)
    known: dict[bytes, bool] = {}

    def is_write(words: Sequence[bytes]) -> bool:
        name = words[0].upper()[:64]
        if name not in known:
            found = commands.find(words)
            known[name] = found is not None and "write" in found.flags
        return known[name]

    replay, values = Reconstruction(is_write=is_write), 0
    for _, row in resp_rows(files, bad):
        values += isinstance(row, CapturedResp)
        replay.handle(row)
    replay.finish()
    foresee_all(replay.resyncs, replay.servers, backlog_bytes)
    return replay, values


def link_rows(spans: Sequence[LinkSpan]) -> list[dict[str, Any]]:
    """Rows of silver/replication_links."""
    pieces: dict[int, int] = {}
    rows = []
    for span in spans:
        piece = pieces.get(span.link, 0)
        pieces[span.link] = piece + 1
        rows.append({
            "link_id": span.link, "piece": piece, "replica": span.replica, "master": span.master, "state": span.state,
            "link_status": "up" if span.is_up else "down", **_times(since=span.since_ns, valid_from=span.from_ns),
            **_times(valid_to=span.to_ns), "replid": span.replid, "offset": span.last_offset,
            "first_offset": span.first_offset, "cause": span.cause,
            "connection": span.connection if span.connection >= 0 else None,
        })  # fmt: skip
    return rows


def offset_rows(marks: Sequence[OffsetMark]) -> list[dict[str, Any]]:
    """Rows of silver/replication_offsets."""
    ordered = sorted(marks, key=lambda mark: mark.ts_ns)
    return [
        {
            "mark_id": number, **_times(ts=mark.ts_ns), "link_id": mark.link, "replica": mark.replica,
            "master": mark.master, "replid": mark.replid, "sent_offset": mark.sent, "acked_offset": mark.acked,
            "lag_bytes": None if mark.acked is None or mark.sent is None else mark.sent - mark.acked,
        }
        for number, mark in enumerate(ordered)
    ]  # fmt: skip


def resync_row(resync: Resync) -> dict[str, Any]:
    """A row of gold/resyncs."""
    request, foreseen, explained = resync.request, resync.foreseen, resync.explained
    words = ["SYNC"] if request.is_sync else ["PSYNC", request.replid, str(request.offset)]
    done = resync.done_ns
    first, last = resync.backlog or (None, None)
    is_size_known = resync.size_known_by not in ("answers", "default")
    return {
        "resync_id": resync.number, **_times(ts=resync.ts_ns), "replica": resync.replica, "master": resync.master,
        "asked": " ".join([*words, *(["FAILOVER"] if request.failover else [])]), "asked_replid": request.replid,
        "asked_offset": request.offset, "is_failover": request.failover,
        "answered": resync.answered.value if resync.answered else None, "answer": resync.answer_text,
        **_times(answered_at=resync.answer_ns), "replid": resync.replid, "offset": resync.offset,
        "foreseen": foreseen.kind.value if foreseen else None,
        "foreseen_reason": foreseen.reason.value if foreseen else None, "as_foreseen": resync.is_foreseen,
        "is_certain": resync.is_certain, "reason": explained.reason.value if explained else None,
        "why": tell_resync(resync), "form": resync.form, "dump_bytes": resync.dump_bytes,
        "stream_bytes": resync.stream_bytes, "bytes": resync.dump_bytes + resync.stream_bytes,
        "duration_ms": None if done is None else (done - resync.ts_ns) / 1e6, "outcome": resync.outcome,
        "is_restart": resync.is_restart, "backlog_first": first if is_size_known else None, "backlog_last": last,
        "backlog_bytes": resync.backlog_bytes, "backlog_known_by": resync.size_known_by,
        "connection": resync.connection,
    }  # fmt: skip


def _times(**instants: int | None) -> dict[str, int | None]:
    """Each instant twice: as it is, and in microseconds."""
    found: dict[str, int | None] = {}
    for name, ts_ns in instants.items():
        found[name] = None if ts_ns is None else ts_ns // 1000
        found[f"{name}_ns"] = ts_ns
    return found


def _blobs(kind: int, table: Table, rows: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    schema = table_arrow(table)
    for start in range(0, len(rows), ROWS_PER_BLOB):
        part = pa.Table.from_pylist(list(rows[start : start + ROWS_PER_BLOB]), schema=schema)
        yield _blob(kind, packed_table(part))


def _blob(kind: int, blob: bytes) -> pa.RecordBatch:
    schema = pa.schema([("kind", pa.int32()), ("blob", pa.binary())])
    return pa.RecordBatch.from_pylist([{"kind": kind, "blob": blob}], schema=schema)
