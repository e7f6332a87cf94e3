"""The tables and views of a root in a Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from schemas.catalogue import TABLES
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import exists
from slotscope.sql.view import View
from slotscope.sql.views import VIEWS, sql_name


def register_views(spark: SparkSession, root: str) -> None:
    """Let SQL of *spark* name the tables and views below *root*; a table that no job has written is there without rows.

    They are temporary: of this session, and of the root that was registered last.
    """
    for table in TABLES:
        there = exists(root, table)
        rows = tables.read(spark, table, root) if there else spark.createDataFrame([], spark_schema(table.schema))
        rows.createOrReplaceTempView(sql_name(table))
    for view in VIEWS:
        spark.sql(_created(view))


def _created(view: View) -> str:
    if view.parameter is None:
        return f"CREATE OR REPLACE TEMPORARY VIEW {view.name} AS {view.query}"
    name, kind = view.parameter
    return f"CREATE OR REPLACE TEMPORARY FUNCTION {view.name}({name} {kind}) RETURNS TABLE RETURN {view.query}"
