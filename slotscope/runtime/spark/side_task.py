"""Work of the driver that a Spark task does: a process of its own, while threads of one process only take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial as bind

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType


def made_by_task(spark: SparkSession, make: Callable[[], Iterator[pa.RecordBatch]], schema: StructType) -> pa.Table:
    """What *make* yields, made by a task."""
    return spark.range(0, 1, 1, 1).mapInArrow(bind(_made, make=make), schema).toArrow()


def _made(batches: Iterator[pa.RecordBatch], make: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    if sum(batch.num_rows for batch in batches):
        yield from make()
