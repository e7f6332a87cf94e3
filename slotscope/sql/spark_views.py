"""Tables and views of a root in a Spark session."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from schemas.catalogue import TABLES
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import exists
from slotscope.sql.views import VIEWS

NO_DELTA: Final = (
    "this Spark session cannot read Delta tables: build it with delta.configure_spark_with_delta_pip(SparkSession.builder"
    ".config('spark.sql.extensions', 'io.delta.sql.DeltaSparkSessionExtension')"
    ".config('spark.sql.catalog.spark_catalog', 'org.apache.spark.sql.delta.catalog.DeltaCatalog')).getOrCreate(), "
    "or read the tables without Spark: slotscope.connect(root)"
)


def register_views(spark: SparkSession, root: str) -> None:
    """Register the tables and views of *root* as temporary views of *spark*; tables without rows are empty.

    A later call with another root replaces them.  Raises InputError for a session without Delta.
    """
    try:
        _register_all(spark, root)
    except (PySparkException, Py4JError) as error:
        if "DATA_SOURCE_NOT_FOUND" not in str(error):
            raise
        raise InputError(NO_DELTA) from error


def _register_all(spark: SparkSession, root: str) -> None:
    for table in TABLES:
        there = exists(root, table)
        rows = tables.read(spark, table, root) if there else spark.createDataFrame([], spark_schema(table.schema))
        rows.createOrReplaceTempView(table.sql_name)
    for view in VIEWS:
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.query}")
