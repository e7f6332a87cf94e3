"""Partial sums as tasks return them, as Arrow tables written down in a test, and what a test says of a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from chispa import assert_df_equality
from pyspark.sql import SparkSession

from schemas.interim import PARTIAL
from slotscope.runtime.spark.spark_schema import spark_frame


def partial_table(*rows: dict[str, Any]) -> pa.Table:
    """Partial sums; what a row does not say is null, its source ``a.rdb`` and its part 0."""
    return pa.Table.from_pylist([{"source": "a.rdb", "part": 0, **row} for row in rows], PARTIAL)


def assert_rows(found: pa.Table, columns: str, *rows: tuple[Any, ...]) -> None:
    """Assert that the *columns* (names with commas between them) of *found* hold exactly *rows*, in whatever order; as frames where Spark runs."""
    names = columns.split(", ")
    told = found.select(names)
    spark = SparkSession.getActiveSession()
    if spark is None:
        assert Counter(tuple(row[name] for name in names) for row in told.to_pylist()) == Counter(rows)
        return
    expected = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], told.schema)
    assert_df_equality(spark_frame(spark, told), spark_frame(spark, expected), ignore_row_order=True)
