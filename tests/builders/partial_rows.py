"""Makes small frames for tests of transforms: partial sums as tasks return them, and any frame from rows written down."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from schemas.interim import PARTIAL
from slotscope.runtime.spark.spark_schema import spark_schema


def partial(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Partial sums with the nodes of their rows; defaults are null, source ``a.rdb`` and part 0."""
    return frame(
        spark,
        PARTIAL.append(pa.field("node_id", pa.string())),
        *({"source": "a.rdb", "part": 0, **row} for row in rows),
    )


def partial_table(*rows: dict[str, Any]) -> pa.Table:
    """Partial sums as a table; columns that a row does not name are null, its source is ``a.rdb`` and its part 0."""
    return pa.Table.from_pylist([{"source": "a.rdb", "part": 0, **row} for row in rows], PARTIAL)


def frame(spark: SparkSession, schema: Any, *rows: dict[str, Any] | tuple[Any, ...]) -> DataFrame:
    """A frame of one partition; columns that a row does not name are null."""
    declared = spark_schema(schema) if isinstance(schema, pa.Schema) else schema
    fields = spark.createDataFrame([], declared).schema.fields
    names = [field.name for field in fields]
    records = [tuple(map(row.get, names)) if isinstance(row, dict) else row for row in rows]
    return spark.createDataFrame(
        records, StructType([StructField(field.name, field.dataType) for field in fields])
    ).coalesce(1)


def assert_rows(actual: DataFrame, schema: Any, *rows: dict[str, Any] | tuple[Any, ...]) -> None:
    """Assert that the columns of *schema* of *found* hold exactly *rows*, in whatever order; comments on columns do not matter."""
    expected = frame(actual.sparkSession, schema, *rows)
    assert_df_equality(
        actual.select(*expected.columns), expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True
    )


def table(schema: str, *rows: tuple[Any, ...]) -> pa.Table:
    """A table with the columns of *schema*, as in DDL."""
    arrow = {"int": "int32", "long": "int64", "bigint": "int64"}
    columns = dict(column.split() for column in schema.split(","))
    types = pa.schema([(name, pa.type_for_alias(arrow.get(kind, kind))) for name, kind in columns.items()])
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], types)


def assert_table(actual: pa.Table, schema: str, *rows: tuple[Any, ...]) -> None:
    """Assert the same of a table, without Spark."""
    expected = table(schema, *rows)
    chosen = actual.select(expected.column_names)
    assert chosen.schema.types == expected.schema.types
    assert sorted(map(repr, chosen.to_pylist())) == sorted(map(repr, expected.to_pylist()))
