"""Rows in tables as jobs leave them: of a run that is complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from schemas.catalogue import WRITTEN_BY
from schemas.table import Table
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.delta_files import all_equal, commit_rows, exists
from slotscope.runtime.storage.runs import running


def store_rows(root: str, table: Table, rows: Iterable[Mapping[str, Any]], **more: Any) -> None:
    """Put *rows* into *table*, one run per snapshot or plan, without replacement; *more* describes the run."""
    by_name = lambda row: str(row[table.named_by])  # noqa: E731
    for name, own in groupby(sorted(rows, key=by_name), by_name):
        store(root, name, {table: list(own)}, **more)


def store(root: str, name: str, rows: Mapping[Table, Iterable[Mapping[str, Any]]], **more: Any) -> None:
    """Put *rows* into their tables by one run of the snapshot or plan *name*; *more* describes the run."""
    first = next(iter(rows))
    job = more.pop("job", None) or next((job for job, tables in WRITTEN_BY.items() if first in tables), "test")
    with running(root, job, name, **more) as run:
        for table, own in rows.items():
            run.append(table, own)


def replace_rows(root: str, table: Table, rows: Sequence[Mapping[str, Any]], **equal: str) -> None:
    """Put *rows* in the place of those that equal *equal*, in one commit of no run."""
    commit_rows(root, table, rows, all_equal(equal))


def stored_frame(spark: SparkSession, table: Table, root: str) -> DataFrame:
    """The rows of *table* as Spark reads them; none where the table was never written."""
    if not exists(root, table):
        return spark.createDataFrame([], spark_schema(table.schema))
    return spark.read.format("delta").load(f"{root}/{table.name}").select(*table.columns)


def without_run(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """*rows* without what differs from run to run."""
    return [{name: value for name, value in row.items() if name != "run_id"} for row in rows]
