"""Rows that the first task of a replay returns: blobs of many rows of one kind, made by threads beside the task.

Results of the threads come in the order of the work.  Kernels and compression run without the GIL.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from types import TracebackType
from typing import Any, Final, TypeVar

import pyarrow as pa

from cluster_core.kernels.bus.link_meter import LinkMeter
from schemas.history import BUS_MESSAGES
from schemas.table import BYTES, INTEGER, LONG, TEXT
from slotscope.runtime.priority import step_back
from slotscope.runtime.storage.runs import Run
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.polls_and_logs import times
from slotscope.sources.keys.text import key_texts

(
    MESSAGE, EVIDENCE, BITMAPS, BAD, LINK_ROWS, POLLS, LOGS, META, STATE, GAP_ROWS, UNRECORDED_ROWS, BEGIN,
    STORED, BELIEFS, NOTES, METRICS,
) = range(16)  # fmt: skip
"""Kinds of rows of `CAPTURED`; `BELIEFS` come from machines (`slotscope.sources.bus.observers`), `NOTES` summarize rows that the task has `STORED`."""
BULK = (MESSAGE, EVIDENCE, BELIEFS)
"""Those that grow with the captures."""
CAPTURED = pa.schema(
    [
        pa.field("row_kind", INTEGER, nullable=False),
        pa.field("phase", INTEGER, nullable=False),
        pa.field("part", TEXT),
        pa.field("number", LONG),
        pa.field("blob", BYTES),
    ]
)
"""Rows that the task returns: blobs of every kind."""
_MESSAGES = BUS_MESSAGES.unlabelled


def link_rows(links: LinkMeter, end_ns: int) -> list[dict[str, Any]]:
    """Rows of silver/links, silence up to *end_ns* included."""
    return [
        {
            "source_id": row.source,
            "target_id": row.target,
            "connections": row.connections,
            "messages": row.messages,
            "bytes": row.bytes,
            "gossip_bytes": row.gossip_bytes,
            "messages_by_type": list(row.messages_by_type.items()),
            "bytes_by_type": list(row.bytes_by_type.items()),
            **times("first_seen", row.first_ns),
            **times("last_seen", row.last_ns),
            "longest_silence_ms": row.longest_silence_ns // 1_000_000,
            "silences": [{"from_ns": start, "to_ns": end} for start, end in row.silences],
        }
        for row in links.rows(end_ns)
    ]


def message_table(columns: dict[str, pa.Array]) -> pa.Table:
    """Columns of messages as `BUS_MESSAGES` has them."""
    texts = key_texts(columns["channel"].cast(pa.binary()))
    return pa.table({**columns, "channel_text": texts}).select(_MESSAGES.names).cast(_MESSAGES)


def blob_row(kind: int, phase: int, blob: bytes, part: str = "", number: int = 0) -> pa.RecordBatch:
    """One row of `CAPTURED`."""
    return pa.RecordBatch.from_pylist(
        [{"row_kind": kind, "phase": phase, "part": part, "number": number, "blob": blob}], schema=CAPTURED
    )


_Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class MessageTable:
    """The *run* for which a task may stage rows, in commits of *commit_rows*, where there are more than *few*.

    The task also returns the result of *noted*, given its facts.
    """

    run: Run
    few: int
    commit_rows: int
    noted: Callable[[dict[str, Any]], Iterator[pa.RecordBatch]]


class MessageRows:
    """Rows that wait; threads of *side* pack them, or store them in *table*."""

    def __init__(self, table: MessageTable | None, side: SideWork) -> None:
        self._table = table
        self._side = side
        self._waiting: list[_Columns] = []
        self._count = 0
        self._is_storing = False

    def add(self, columns: _Columns, count: int) -> None:
        """Add *count* messages."""
        self._waiting.append(columns)
        self._count += count
        if self._table is None:
            self._pack()
        elif self._count >= self._table.commit_rows:
            self._store(self._table)

    def finish(self) -> None:
        """No more come."""
        if self._table is not None and (self._is_storing or self._count > self._table.few):
            self._store(self._table)
        else:
            self._pack()

    def notes(self, facts: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the notes on stored rows; call it after the last row."""
        if self._table is not None and self._is_storing:
            for batch in self._table.noted(facts):
                yield blob_row(NOTES, 0, packed_table(batch))

    def _pack(self) -> None:
        for columns in self._waiting:
            self._side.give(bind(_packed, columns))
        self._waiting, self._count = [], 0

    def _store(self, table: MessageTable) -> None:
        if self._waiting:
            self._side.give(bind(_stored, self._waiting, table.run))
        self._waiting, self._count, self._is_storing = [], 0, True


def _packed(columns: _Columns) -> Iterator[pa.RecordBatch]:
    yield blob_row(MESSAGE, 0, packed_table(message_table(columns)))


def _stored(waiting: list[_Columns], run: Run) -> Iterator[pa.RecordBatch]:
    """Stage the rows; yield their number."""
    rows = pa.concat_tables([message_table(columns) for columns in waiting])
    run.stage(BUS_MESSAGES, rows)
    yield blob_row(STORED, 0, b"", number=len(rows))


T = TypeVar("T")
AHEAD: Final = 2
"""Number of items that are made in advance."""
WAITING_MAX: Final = 4
"""Largest number of waiting work items; each holds memory."""
_END: Final = object()


def ahead(items: Iterator[T], count: int = AHEAD, prepare: Callable[[], None] | None = None) -> Iterator[T]:
    """Yield *items* while a thread makes the next *count*; its errors are raised in the order of the items."""
    with ThreadPoolExecutor(1, "ahead", prepare) as thread:
        made: deque[Future[Any]] = deque(thread.submit(next, items, _END) for _ in range(count))
        try:
            while (item := made.popleft().result()) is not _END:
                made.append(thread.submit(next, items, _END))
                yield item
        finally:
            for future in made:
                future.cancel()


class SideWork:
    """Runs iterators in threads and yields their items in the order of submission."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "side", step_back)
        self._given: deque[Future[list[Any]]] = deque()

    def __enter__(self) -> SideWork:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def give(self, work: Callable[[], Iterator[Any]]) -> None:
        """Let a thread do *work*."""
        self._given.append(self._threads.submit(lambda: list(work())))

    def done(self) -> Iterator[Any]:
        """Yield items of finished work in order; wait for the next work when too much is queued."""
        while self._given and (self._given[0].done() or len(self._given) > WAITING_MAX):
            yield from self._given.popleft().result()

    def rest(self) -> Iterator[Any]:
        """All that was given."""
        while self._given:
            yield from self._given.popleft().result()
