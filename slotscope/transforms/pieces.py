"""One function for rows that the driver holds and for rows that Spark keeps: it takes and returns an Arrow table, all rows or a piece of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as bind

import pyarrow as pa
from pyspark.sql import DataFrame

from slotscope.runtime.spark.spark_schema import spark_schema

Batches = Iterator[pa.RecordBatch]
Step = Callable[[pa.Table], pa.Table]


def stepped(rows: DataFrame, step: Step, before: pa.Schema) -> DataFrame:
    """*step* over each partition of *rows*, which have the columns *before*."""
    after = step(before.empty_table()).schema
    return rows.mapInArrow(bind(_step_piece, step=step, before=before, after=after), spark_schema(after))


def _step_piece(batches: Batches, step: Step, before: pa.Schema, after: pa.Schema) -> Batches:
    read = list(batches)
    piece = pa.Table.from_batches(read) if read else before.empty_table()
    yield from step(piece).cast(after).to_batches()
