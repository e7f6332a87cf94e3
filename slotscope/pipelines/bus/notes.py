"""The tables of a replay as values of the core: rows, and what the messages of each node come to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cluster_core.columns import Column, Kind, columns_of
from cluster_core.incidents import logged_rows
from cluster_core.incidents.checks.connections import Breach
from cluster_core.incidents.finders.failovers import ATTEMPTS
from cluster_core.incidents.gaps import GapSeen
from cluster_core.incidents.history import History, OffsetSeen
from cluster_core.incidents.logged_rows import LoggedLine, with_logs
from cluster_core.incidents.speech import Speech
from cluster_core.incidents.traffic import Cost
from cluster_core.kinds import EventKind
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow
from cluster_core.slots.slot_set import SlotSet
from schemas.history import (
    EPOCHS,
    EVENTS,
    FAILURE_REPORTS,
    GAPS,
    LINKS,
    LOG_EVENTS,
    NODE_POLLS,
    NODE_VIEWS,
    SLOT_BITMAPS,
    VOTES,
)
from schemas.replication import REPLICATION_OFFSETS, RESYNCS
from schemas.table import Table
from slotscope.pipelines.bus.headers import LARGEST, Basis, Headers
from slotscope.runtime.storage import delta_files
from slotscope.runtime.storage.runs import Run

# -- rows of the replay ------------------------------------------------------------------------------------------------

ROWS: tuple[tuple[Table, type], ...] = (
    (NODE_VIEWS, NodeViewRow),
    (EVENTS, EventRow),
    (VOTES, VoteRow),
    (EPOCHS, EpochRow),
    (FAILURE_REPORTS, FailureReportRow),
)
"""Tables that are rows of a replay, and the row."""
LOGGED = (*ATTEMPTS, "vote-refused", "manual-failover-forced")
"""Lines of logs that tell what the bus does not show."""
RESYNC_ASKED = "resync-asked"
_ASKED_OFFSET = re.compile(r":([0-9]{1,18})\)")


class Notes(NamedTuple):
    """All that the core is told of a snapshot; the nodes of *offsets* go by id or by address."""

    rows: list[ReplayRow]
    lines: list[LoggedLine]
    speech: list[Speech]
    breaches: list[Breach]
    costs: list[Cost]
    slots_of: dict[int, int]
    gaps: list[GapSeen]
    offsets: list[OffsetSeen]


def collect_notes(run: Run, headers: Headers) -> Notes:
    """All rows that the core needs; the silver ones are changes and not messages, and are read without Spark."""

    def read(table: Table, *columns: str, where: str | None = None) -> list[dict[str, Any]]:
        return delta_files.read_rows(run.root, table, columns=columns, where=where, parts=run.parts(table))

    logged = read(
        LOG_EVENTS, "observer", "address", "kind", "subject", "text", "ts_ns", "epoch",
        where=f"observer IS NOT NULL AND kind IN ({', '.join(repr(str(kind)) for kind in _LOG_KINDS)})",
    )  # fmt: skip
    rows = [row for table, kind in ROWS for row in _replay_rows(kind, read(table, *_names(kind)))]
    gaps = read(GAPS, "source_id", "target_id", "valid_from_ns", "valid_to_ns")
    return Notes(
        rows=[*rows, *(_event(line) for line in logged if line["kind"] in LOGGED)],
        lines=[_logged_line(line) for line in logged if line["kind"] in logged_rows.KINDS],
        speech=headers.spans,
        breaches=sorted(headers.breaches),
        costs=_costs(read(LINKS, "source_id", "messages_by_type", "bytes_by_type")),
        slots_of={row["bitmap_id"]: _slot_bits(row["slots"]) for row in read(SLOT_BITMAPS, "bitmap_id", "slots")},
        gaps=[GapSeen(*row.values()) for row in gaps],
        offsets=[
            *_asked_in_logs(logged),
            *(OffsetSeen(*row.values()) for row in read(
                NODE_POLLS, "observer", "ts_ns", "master_offset", where="master_offset IS NOT NULL AND observer IS NOT NULL"
            )),
            *(OffsetSeen(*row.values()) for row in read(
                REPLICATION_OFFSETS, "master", "ts_ns", "sent_offset", where="sent_offset IS NOT NULL"
            )),
            *(OffsetSeen(row["replica"], row["ts_ns"], row["asked_offset"] - 1, is_last=True) for row in read(
                RESYNCS, "replica", "ts_ns", "asked_offset", where="asked_offset > 0"
            )),
        ],
    )  # fmt: skip


_LOG_KINDS = tuple(dict.fromkeys((*LOGGED, *logged_rows.KINDS, RESYNC_ASKED)))


def _names(row: type) -> list[str]:
    return [column.name for column in columns_of(row)]


def _replay_rows(row: type, values: list[dict[str, Any]]) -> Iterator[ReplayRow]:
    readers = [(column.name, _reader(column)) for column in columns_of(row)]
    return (row(*(read(value[name]) for name, read in readers)) for value in values)


def _reader(column: Column) -> Callable[[Any], Any]:
    """How a column comes back: as the enum or the truth value that it was; a message that is not there as -1."""
    if column.kind is Kind.MESSAGE:
        return lambda value: -1 if value is None else value
    if column.kind is Kind.UNSIGNED:
        return _signed
    return (lambda value: value) if column.type in (str, int) else column.type


def _signed(value: Any) -> int:
    """A number of unsigned 64 bits, 0 where there is none."""
    return min(int(value or 0), LARGEST)


def _event(line: dict[str, Any]) -> EventRow:
    """What a log adds to the events."""
    (event,) = _replay_rows(
        EventRow, [{**line, "subject": line["subject"] or "", "detail": line["text"], "message_id": None}]
    )
    assert isinstance(event, EventRow)
    return event


def _logged_line(line: dict[str, Any]) -> LoggedLine:
    """What a log tells of a process of which no capture tells."""
    ip, _, port = (line["address"] or "").rpartition(":")
    number = int(port) if port.isdigit() else 0
    return LoggedLine(
        line["observer"],
        ip,
        number,
        line["ts_ns"],
        EventKind(line["kind"]),
        line["subject"] or "",
        _signed(line["epoch"]),
        line["text"] or "",
    )


def _asked_in_logs(lines: list[dict[str, Any]]) -> Iterator[OffsetSeen]:
    """A master that was deposed asks for the byte behind its own stream."""
    for line in lines:
        asked = _ASKED_OFFSET.search(line["text"] or "") if line["kind"] == RESYNC_ASKED else None
        if asked:
            yield OffsetSeen(line["observer"], line["ts_ns"], int(asked[1]) - 1, is_last=True)


def _costs(links: list[dict[str, Any]]) -> list[Cost]:
    """Messages and bytes by sender and type (R172)."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for link in links:
        for kind, size in (link["bytes_by_type"] or {}).items():
            messages, total = sums.get((link["source_id"], kind), (0, 0))
            sums[link["source_id"], kind] = messages + link["messages_by_type"].get(kind, 0), total + size
    return sorted(Cost(node, kind, *both) for (node, kind), both in sums.items())


def history_of(notes: Notes, basis: Basis) -> History:
    """The index that the core asks."""
    views = [row for row in notes.rows if isinstance(row, NodeViewRow)]
    times = [] if views else [line.ts_ns for line in notes.lines]
    ids = {f"{view.ip}:{view.port}": view.node_id for view in sorted(views, key=lambda view: view.valid_from_ns)}
    return History(
        with_logs(notes.rows, notes.lines),
        notes.speech,
        notes.slots_of,
        node_timeout_ms=basis.node_timeout_ms,
        first_ns=min([basis.first_ns or LARGEST, *times]),
        last_ns=max([basis.last_ns, *times]),
        offsets=[seen._replace(node=ids.get(seen.node, seen.node)) for seen in notes.offsets],
        gaps=notes.gaps,
    )


def _slot_bits(text: str) -> int:
    return int.from_bytes(SlotSet.parse(text).to_wire(), "little") if text else 0
