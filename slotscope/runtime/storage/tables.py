"""Delta tables under ``ROOT/{bronze,silver,gold}`` in Spark: how DataFrames are read from them, and staged for them.

Spark never commits: tasks stage rows, and the run replaces its snapshot's rows when it is complete (`slotscope.runtime.storage.runs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from functools import reduce
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage.delta_files import Part, is_written, location
from slotscope.runtime.storage.runs import HELD_ROWS_MAX, Run, Stage

WRITE_THREADS = 3
"""Tables that are made at a time: half of a small query is planning."""
STAGED_ROWS = 200_000
"""Rows of one commit of a task to a staged table."""


def read(spark: SparkSession, table: Table, root: str) -> DataFrame:
    """The rows of *table*, columns in the order of its schema, null where it was written before they were added.

    Raises `InputError` where the root has no tables.
    """
    return read_parts(spark, table, [Part(location(root, table))] if is_written(root, table) else [])


def read_parts(spark: SparkSession, table: Table, parts: Sequence[Part]) -> DataFrame:
    """The rows of several *parts*, see `Run.parts`."""
    fields = spark_schema(table.schema).fields
    frames = [spark.createDataFrame([], spark_schema(table.schema))] if not parts else []
    for part in parts:
        if isinstance(part.place, str):
            where = part.where.replace("\\", "\\\\").replace("''", "\\'")  # Spark escapes quotes by backslashes
            stored = spark.read.format("delta").load(stores.spark_uri(part.place)).where(where)
        else:
            stored = spark_frame(spark, part.place)
        known = set(stored.columns)
        columns = (F.col(f.name) if f.name in known else F.lit(None).cast(f.dataType).alias(f.name) for f in fields)
        frames.append(stored.select(*columns))
    return reduce(DataFrame.unionByName, frames)


class Made(NamedTuple):
    """Rows that a task makes, *by* a function of Arrow batches of *source*, and may stage itself."""

    source: DataFrame
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def frame(self, table: Table) -> DataFrame:
        """The rows, in the columns of *table* without the labels of a run."""
        return self.source.mapInArrow(self.by, spark_schema(table.unlabelled))


@dataclass(frozen=True, slots=True)
class Change:
    """*rows* of a run for *table*; a function makes them when their turn comes, beside those of other tables.

    *tail* is the condition of the stored rows that they replace where the run continues an earlier one.  *large* rows (a row a key or
    message) are staged by tasks; others are collected where they are few.
    """

    rows: DataFrame | pa.Table | Made | Callable[[], DataFrame | pa.Table]
    table: Table
    tail: str = "TRUE"
    large: bool = False


def apply_change(change: Change, run: Run) -> None:
    """Stage the rows of *change*."""
    rows = change.rows() if callable(change.rows) else change.rows
    if isinstance(rows, pa.Table):
        run.append(change.table, rows, change.tail)
        return
    if isinstance(rows, DataFrame):
        fields = spark_schema(change.table.unlabelled).fields
        rows = rows.select(*(F.col(f.name).cast(f.dataType.simpleString()).alias(f.name) for f in fields))
    made = rows if isinstance(rows, Made) else Made(rows, iter)
    if isinstance(rows, DataFrame) and not change.large:
        few = rows.coalesce(1).limit(HELD_ROWS_MAX + 1).toArrow()
        if few.num_rows <= HELD_ROWS_MAX:
            run.append(change.table, few, change.tail)
            return
    staging = bind(_stage_made, by=made.by, stage=run.stage(change.table, change.tail))
    counts = made.source.mapInArrow(staging, "rows BIGINT").collect()
    run.wrote(change.table, sum(row["rows"] for row in counts))


def _stage_made(
    batches: Iterator[pa.RecordBatch],
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    stage: Stage,
) -> Iterator[pa.RecordBatch]:
    """Stage the rows that *by* makes of *batches*; yield the number of rows of each commit."""
    made: list[pa.RecordBatch] = []
    for batch in chain(by(batches), [None]):
        made += [batch] if batch is not None else []
        count = sum(map(len, made))
        if count and (batch is None or count >= STAGED_ROWS):
            stage.add(pa.Table.from_batches(made))
            made = []
            yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def apply_changes(changes: Iterable[Change], run: Run) -> None:
    """`apply_change` for several tables, queries a few at a time; the first error is raised when all have ended."""
    queries = []
    for change in changes:
        if isinstance(change.rows, pa.Table):
            apply_change(change, run)
        else:
            queries.append(change)
    if not queries:
        return
    with ThreadPoolExecutor(WRITE_THREADS, "tables") as pool:
        pending = [pool.submit(apply_change, change, run) for change in queries]
    for done in pending:
        done.result()
