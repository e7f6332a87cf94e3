"""Columns of `schemas` as Spark has them, and Arrow tables as frames."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(columns: Iterable[pa.Field]) -> StructType:
    """*columns* with their comments."""
    return from_arrow_schema(pa.schema(list(columns)))


def spark_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """*rows* as Spark's; in one piece, since of several it reads those before the first empty one, and of none it makes no column."""
    return spark.createDataFrame(rows.combine_chunks() if len(rows) else rows.schema.empty_table())
