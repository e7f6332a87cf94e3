"""A series of captures of client ports in one task: decoded, replayed, and out come the rows of the replication tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from cluster_core.formats.capture.resp_capture import CapturedResp
from cluster_core.replication.forecast import foresee_all
from cluster_core.replication.reconstruction import Reconstruction, tell_resync
from cluster_core.replication.rows import LinkRow, LinkSpan, OffsetMark, OffsetRow, Resync, ResyncRow
from cluster_core.routing.key_positions import table_of
from schemas.bronze import BAD_RECORDS
from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from schemas.table import rows_table
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.files import CaptureFile
from slotscope.sources.resp.rows import BadRecords, resp_rows

JOB: Final = "replication-replay"
LINKS, OFFSETS, ASKED, BAD, COUNTS = range(5)
"""Kinds of the task's rows."""
REPLAYED = pa.schema([pa.field("row_kind", pa.int32(), False), pa.field("blob", pa.binary(), False)])
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
    yield from table_blobs(LINKS, rows_table(link_rows(replayed.spans), LinkRow, REPLICATION_LINKS))
    yield from table_blobs(OFFSETS, rows_table(offset_rows(replayed.marks), OffsetRow, REPLICATION_OFFSETS))
    yield from table_blobs(ASKED, rows_table([resync_row(one) for one in replayed.resyncs], ResyncRow, RESYNCS))
    listed = [{"job": JOB, **row} for row in bad.listed]
    yield from table_blobs(BAD, pa.Table.from_pylist(listed, schema=BAD_RECORDS.unlabelled))
    yield told_blob(COUNTS, f"{values} {bad.count}".encode())


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


def link_rows(spans: Sequence[LinkSpan]) -> list[LinkRow]:
    """Rows of silver/replication_links."""
    pieces: Counter[int] = Counter()
    rows = []
    for span in spans:
        row = LinkRow(
            span.link, pieces[span.link], span.replica, span.master, span.state, "up" if span.is_up else "down",
            span.since_ns, span.from_ns, span.to_ns, span.replid, span.last_offset, span.first_offset, span.cause,
            span.connection if span.connection >= 0 else None,
        )  # fmt: skip
        pieces[span.link] += 1
        rows.append(row)
    return rows


def offset_rows(marks: Sequence[OffsetMark]) -> list[OffsetRow]:
    """Rows of silver/replication_offsets."""
    return [
        OffsetRow(
            number, mark.ts_ns, mark.link, mark.replica, mark.master, mark.replid, mark.sent, mark.acked,
            None if mark.acked is None or mark.sent is None else mark.sent - mark.acked,
        )
        for number, mark in enumerate(sorted(marks, key=lambda mark: mark.ts_ns))
    ]  # fmt: skip


def resync_row(resync: Resync) -> ResyncRow:
    """A row of gold/resyncs."""
    request, foreseen, explained = resync.request, resync.foreseen, resync.explained
    words = ["SYNC"] if request.is_sync else ["PSYNC", request.replid, str(request.offset)]
    first, last = resync.backlog or (None, None)
    is_size_known = resync.size_known_by not in ("answers", "default")
    return ResyncRow(
        resync_id=resync.number,
        ts_ns=resync.ts_ns,
        replica=resync.replica,
        master=resync.master,
        asked=" ".join([*words, *(["FAILOVER"] if request.failover else [])]),
        asked_replid=request.replid,
        asked_offset=request.offset,
        is_failover=request.failover,
        answered=resync.answered.value if resync.answered else None,
        answer=resync.answer_text,
        answered_at_ns=resync.answer_ns,
        replid=resync.replid,
        offset=resync.offset,
        foreseen=foreseen.kind.value if foreseen else None,
        foreseen_reason=foreseen.reason.value if foreseen else None,
        as_foreseen=resync.is_foreseen,
        is_certain=resync.is_certain,
        reason=explained.reason.value if explained else None,
        why=tell_resync(resync),
        form=resync.form,
        dump_bytes=resync.dump_bytes,
        stream_bytes=resync.stream_bytes,
        bytes=resync.dump_bytes + resync.stream_bytes,
        duration_ms=None if resync.done_ns is None else (resync.done_ns - resync.ts_ns) / 1e6,
        outcome=resync.outcome,
        is_restart=resync.is_restart,
        backlog_first=first if is_size_known else None,
        backlog_last=last,
        backlog_bytes=resync.backlog_bytes,
        backlog_known_by=resync.size_known_by,
        connection=resync.connection,
    )


def table_blobs(kind: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table as blobs of one kind."""
    for start in range(0, table.num_rows, ROWS_PER_BLOB):
        yield told_blob(kind, packed_table(table.slice(start, ROWS_PER_BLOB)))


def told_blob(kind: int, blob: bytes) -> pa.RecordBatch:
    """One row of `REPLAYED`."""
    return pa.RecordBatch.from_pylist([{"row_kind": kind, "blob": blob}], schema=REPLAYED)
