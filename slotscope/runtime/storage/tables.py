"""How DataFrames of Spark are staged for Delta tables.

Spark never commits: tasks stage rows, and the run replaces its snapshot's rows when it is complete (`slotscope.runtime.storage.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.table import Table
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.runs import HELD_ROWS_MAX, THREADS, Run

STAGED_ROWS = 200_000
"""Rows of one commit of a task to a staged table."""


@dataclass(frozen=True, slots=True)
class Change:
    """*rows* of a run for *table*; a function makes them when their turn comes, beside those of other tables.

    *tail* is the condition of the stored rows that they replace where the run continues an earlier one.  Many rows (one a key or
    message) are made *by* a function of Arrow batches of *rows* in tasks, which stage them; others are collected where they are few.
    """

    rows: DataFrame | pa.Table | Callable[[], DataFrame | pa.Table]
    table: Table
    tail: str = "TRUE"
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]] | None = None


def apply_change(change: Change, run: Run) -> None:
    """Stage the rows of *change*."""
    rows = change.rows() if callable(change.rows) else change.rows
    if isinstance(rows, DataFrame) and change.by is None:
        fields = spark_schema(change.table.unlabelled).fields
        rows = rows.select(*(F.col(f.name).cast(f.dataType.simpleString()).alias(f.name) for f in fields))
        few = rows.coalesce(1).limit(HELD_ROWS_MAX + 1).toArrow()
        rows = few if few.num_rows <= HELD_ROWS_MAX else rows
    if isinstance(rows, pa.Table):
        run.append(change.table, rows, change.tail)
        return
    staging = bind(_stage_made, by=change.by or iter, run=run.for_tasks(change.table, change.tail), table=change.table)
    run.wrote(change.table, sum(row["rows"] for row in rows.mapInArrow(staging, "rows BIGINT").collect()))


def _stage_made(
    batches: Iterator[pa.RecordBatch],
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    run: Run,
    table: Table,
) -> Iterator[pa.RecordBatch]:
    """Stage the rows that *by* makes of *batches*; yield the number of rows of each commit."""
    made: list[pa.RecordBatch] = []
    for batch in chain(by(batches), [None]):
        made += [batch] if batch is not None else []
        count = sum(map(len, made))
        if count and (batch is None or count >= STAGED_ROWS):
            run.stage(table, pa.Table.from_batches(made))
            made = []
            yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def apply_changes(changes: Iterable[Change], run: Run) -> None:
    """`apply_change` for several tables, a few at a time; the first error is raised when all have ended."""
    with ThreadPoolExecutor(THREADS, "tables") as pool:
        list(pool.map(bind(apply_change, run=run), changes))
