"""Registration of tables as external tables in a Spark catalog (Spark, Hive, Unity)."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from schemas.runs import RUNS
from schemas.table import Table
from slotscope.runtime import stores
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, location

_SCHEMA: Final = re.compile(r"\w+(\.\w+)?", re.ASCII)
_one_at_a_time = threading.Lock()


def check_catalog(name: str) -> str:
    """Return *name* (SCHEMA or CATALOG.SCHEMA); raises InputError for other forms."""
    if not _SCHEMA.fullmatch(name):
        raise InputError(f"--catalog {name}: write SCHEMA, or CATALOG.SCHEMA: letters, digits and _")
    return name


def register_tables(spark: SparkSession, root: str, schema: str, written: Iterable[Table]) -> None:
    """Register the tables *written* below *root* in *schema*; raises InputError on failure or tables of another root."""
    try:
        with _one_at_a_time:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            # Spark lists the session's own views beside those of any schema.
            shown = spark.sql(f"SHOW TABLES IN {schema}").where("NOT isTemporary").select("tableName").collect()
            named = {row.tableName for row in shown}
            # A schema belongs to the root of its table of runs; checking one place is enough, as Delta reads a whole log for each.
            checked = [RUNS] if RUNS.sql_name in named else written
            for table in checked:
                if table.sql_name in named:
                    _check_place(spark, root, schema, table)
            for table in dict.fromkeys((RUNS, *written)):
                if table.sql_name not in named and exists(root, table):
                    place = stores.spark_uri(location(root, table)).replace("'", "\\'")
                    spark.sql(f"CREATE TABLE {schema}.{table.sql_name} USING DELTA LOCATION '{place}'")
    except (PySparkException, Py4JError) as error:
        raise InputError(
            f"--catalog {schema}: what was written to {root} is complete, but not registered: {stores.reason(error)}"
        ) from error


def _check_place(spark: SparkSession, root: str, schema: str, table: Table) -> None:
    name = f"{schema}.{table.sql_name}"
    (place,) = spark.sql(f"DESCRIBE DETAIL {name}").select("location").first() or ("",)
    if place.removeprefix("file:").rstrip("/") != stores.spark_uri(location(root, table)):
        raise InputError(f"--catalog {schema}: {name} is a table of another root: {place}: choose another schema")
