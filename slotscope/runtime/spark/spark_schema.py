"""Columns as Spark has them, from what `schemas` declares, and Arrow tables as frames."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType


def spark_schema(columns: Iterable[pa.Field]) -> StructType:
    """*columns* (a schema, a struct, or some fields of one) with their comments."""
    return StructType([_field(column) for column in columns])


def spark_type(kind: pa.DataType) -> DataType:
    """The type of one column."""
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type), kind.value_field.nullable)
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type), kind.item_field.nullable)
    if pa.types.is_struct(kind):
        return spark_schema(kind)
    return from_arrow_type(kind)


def spark_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """*rows* as Spark's; in one piece, since of several it reads those before the first empty one, and of none it makes no column."""
    return spark.createDataFrame(rows.combine_chunks() if len(rows) else rows.schema.empty_table())


def _field(column: pa.Field) -> StructField:
    metadata = {name.decode(): text.decode() for name, text in (column.metadata or {}).items()}
    return StructField(column.name, spark_type(column.type), column.nullable, metadata)
