"""The tables of a root by name in a catalog of Spark (its own, Hive's, Unity): registered where they lie, with a view of the rows that count.

Table ``stored_NAME`` has all rows, also those of runs that failed or are at work; view ``NAME`` those that count, as all readers of this
program show them.
"""

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
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import stores
from slotscope.runtime.storage.delta_files import existing_table, location
from slotscope.sql.views import sql_name

STORED: Final = "stored_"
_SCHEMA: Final = re.compile(r"\w+(\.\w+)?", re.ASCII)
_COUNTED: Final = "SELECT id FROM {} LATERAL VIEW explode(counted) AS id WHERE state = 'complete'"
_one_at_a_time = threading.Lock()


def check_catalog(name: str) -> str:
    """*name*, a schema or a catalog and a schema; raises InputError for other words."""
    if not _SCHEMA.fullmatch(name):
        raise InputError(f"--catalog {name}: write SCHEMA, or CATALOG.SCHEMA: letters, digits and _")
    return name


def register_tables(spark: SparkSession, root: str, schema: str, written: Iterable[Table]) -> None:
    """Let *schema* name the tables *written* below *root*; raises InputError where it cannot, or has them of another root."""
    try:
        with _one_at_a_time:
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            # Spark lists the session's own views beside those of any schema.
            shown = spark.sql(f"SHOW TABLES IN {schema}").where("NOT isTemporary").select("tableName").collect()
            named = {row.tableName for row in shown}
            # Whose runs a schema names, his are its tables: Delta reads a whole log to tell where one lies.
            looked_at = [RUNS] if sql_name(RUNS) in named else written
            for table in looked_at:
                if _stored(table) in named:
                    _check_place(spark, root, schema, table)
            for table in dict.fromkeys((RUNS, *written)):
                _register(spark, root, schema, table, named)
    except (PySparkException, Py4JError) as error:
        raise InputError(
            f"--catalog {schema}: what was written to {root} is complete, but not registered: {stores.reason(error)}"
        ) from error


def _stored(table: Table) -> str:
    return f"{STORED if table.of_runs else ''}{sql_name(table)}"


def _check_place(spark: SparkSession, root: str, schema: str, table: Table) -> None:
    stored = f"{schema}.{_stored(table)}"
    (found,) = spark.sql(f"DESCRIBE DETAIL {stored}").select("location").first() or ("",)
    if found.removeprefix("file:").rstrip("/") != stores.spark_uri(location(root, table)):
        raise InputError(f"--catalog {schema}: {stored} is that of another root: {found}: choose another schema")


def _register(spark: SparkSession, root: str, schema: str, table: Table, named: set[str]) -> None:
    name, stored = sql_name(table), _stored(table)
    if stored not in named:
        place = stores.spark_uri(location(root, table)).replace("'", "\\'")
        spark.sql(f"CREATE TABLE {schema}.{stored} USING DELTA LOCATION '{place}'")
    if table.of_runs and name not in named:
        there = {field.name for field in existing_table(root, table).schema().fields}
        columns = ", ".join(f"`{column}`" for column in table.columns if column in there)
        counted = _COUNTED.format(f"{schema}.{sql_name(RUNS)}")
        spark.sql(f"CREATE VIEW {schema}.{name} AS SELECT {columns} FROM {schema}.{stored} WHERE run_id IN ({counted})")
