"""Makes small frames for tests of transforms: partial sums as tasks return them, and any frame from rows written down."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from schemas.interim import PARTIAL


def partial(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Partial sums; what a row does not say is null, its source ``a.rdb`` and its part 0."""
    return frame(spark, PARTIAL, *({"source": "a.rdb", "part": 0, **row} for row in rows))


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any] | tuple[Any, ...]) -> DataFrame:
    """A frame of one partition; columns that a row does not name are null."""
    empty = spark.createDataFrame([], schema)
    names = empty.columns
    told = [tuple(map(row.get, names)) if isinstance(row, dict) else row for row in rows]
    return spark.createDataFrame(told, empty.schema).coalesce(1)
