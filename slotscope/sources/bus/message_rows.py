"""Rows of bronze/bus_messages on their way out of the task that reads: as blobs, or, where they are many and it may, in commits of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial as bind
from typing import Any

import pyarrow as pa

from slotscope.runtime.storage.runs import Stage
from slotscope.sources.bus.blobs import packed_table
from slotscope.sources.bus.captured import MESSAGE, NOTES, STORED, blob_row, message_table
from slotscope.sources.bus.side_threads import SideWork

_Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class MessageTable:
    """The *stage* to which a task may add rows, in commits of *commit_rows*, where there are more than *few*.

    The task also returns the result of *noted*, given its facts.
    """

    stage: Stage
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
        """Take so many messages."""
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
        """What is noted of rows that were stored, when all are there."""
        if self._table is not None and self._is_storing:
            for batch in self._table.noted(facts):
                yield blob_row(NOTES, 0, packed_table(batch))

    def _pack(self) -> None:
        for columns in self._waiting:
            self._side.give(bind(_packed, columns))
        self._waiting, self._count = [], 0

    def _store(self, table: MessageTable) -> None:
        if self._waiting:
            self._side.give(bind(_stored, self._waiting, table.stage))
        self._waiting, self._count, self._is_storing = [], 0, True


def _packed(columns: _Columns) -> Iterator[pa.RecordBatch]:
    yield blob_row(MESSAGE, 0, packed_table(message_table(columns)))


def _stored(waiting: list[_Columns], stage: Stage) -> Iterator[pa.RecordBatch]:
    """Stage the rows; yield their number."""
    rows = pa.concat_tables([message_table(columns) for columns in waiting])
    stage.add(rows)
    yield blob_row(STORED, 0, b"", number=len(rows))
