"""Delta tables under ``ROOT/{bronze,silver,gold}``: no job spells a path, a format or a write mode.

A snapshot is replaced as a whole and in one commit, so a job that is run twice, or killed and run again,
leaves the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType

from schemas.table import Table
from slotscope.runtime import delta_files
from slotscope.runtime.delta_files import ATTEMPTS_MAX, OLDER, location, missing
from slotscope.runtime.errors import InputError
from slotscope.runtime.session import is_one_process, running_session
from slotscope.runtime.spark_schema import spark_schema

SNAPSHOT_COLUMN = "snapshot_id"
WRITE_THREADS = 3
"""Tables that are written at a time: half of a small Delta write is waiting for the log."""
SMALL_ROWS_MAX = 50_000
"""Rows that the driver commits itself, in some 10 ms where Spark's own writer takes a second; three such tables are held at a time."""


def exists(spark: SparkSession, table: Table, root: str) -> bool:
    """Whether *table* was ever written under *root*."""
    if _is_at_hand(spark, root):
        return delta_files.exists(root, table)
    return bool(DeltaTable.isDeltaTable(spark, location(root, table)))


def _is_at_hand(spark: SparkSession, root: str) -> bool:
    """Whether *root* is a folder of this machine to Spark, too: then a look at a table, or a commit of few rows, needs no Spark."""
    return "://" not in root and is_one_process(str(spark.conf.get("spark.master")))


def read(spark: SparkSession, table: Table, root: str) -> DataFrame:
    """Rows of *table*, columns in the order of its schema, null where it was written before they were added.  Raises `InputError` if it
    is not there.
    """
    if not exists(spark, table, root):
        raise InputError(missing(root, table))
    rows = spark.read.format("delta").load(location(root, table))
    known = {field.name: field.dataType for field in rows.schema.fields}
    declared = spark_schema(table.schema).fields
    for field in declared:
        if isinstance(field.dataType, ArrayType) and not _is_array_of(field.dataType, known.get(field.name)):
            raise InputError(OLDER.format(location(root, table)))
    return rows.select(
        *(F.col(f.name) if f.name in known else F.lit(None).cast(f.dataType).alias(f.name) for f in declared)
    )


def read_snapshot(spark: SparkSession, table: Table, root: str, snapshot_id: str) -> DataFrame:
    """Rows of one snapshot of *table*."""
    return read(spark, table, root).where(F.col(SNAPSHOT_COLUMN) == F.lit(snapshot_id))


@dataclass(frozen=True, slots=True)
class Change:
    """*rows* take the place of what *table* holds of a snapshot: of those rows for which the SQL condition *where* holds, or of all.

    Rows that the driver has made are an Arrow table, and no query; a function makes a query when its turn comes, beside those of other
    tables: that takes as long as to run it.  *files* is how many files the rows may take; None leaves their
    partitions as they are (tables with a row per key).
    """

    rows: DataFrame | pa.Table | Callable[[], DataFrame]
    table: Table
    where: str | None = None
    files: int | None = 1


def rows_of(table: Table, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """*rows*, by the names of their columns, as *table* has them; what a row lacks is null."""
    return pa.Table.from_pylist(list(rows), schema=delta_files.arrow_schema(table))


def replace_snapshot(
    df: DataFrame | pa.Table, table: Table, root: str, snapshot_id: str, *, files: int | None = 1
) -> None:
    """Put *df* in the place of what *table* holds of *snapshot_id*; rows of another snapshot in *df* are an
    error of Delta's.
    """
    apply_change(Change(df, table, files=files), root, snapshot_id)


def apply_change(change: Change, root: str, snapshot_id: str) -> None:
    """Make *change* in one commit; the table is created at first use."""
    spark = running_session()
    made = change.rows() if callable(change.rows) else change.rows
    rows = made if isinstance(made, pa.Table) else _as_declared(made, change.table)
    if _commit_small(spark, rows, change, root, snapshot_id):
        return
    if isinstance(rows, pa.Table):
        rows = _as_declared(spark.createDataFrame(rows), change.table)
    own = f"{SNAPSHOT_COLUMN} = {sql_string(snapshot_id)}"
    writer = (
        (rows if change.files is None else rows.coalesce(change.files))
        .write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", own if change.where is None else f"{own} AND ({change.where})")
        .option("mergeSchema", "true")
        .partitionBy(*change.table.partition_by)
    )
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            writer.save(location(root, change.table))
            return
        except DeltaConcurrentModificationException:
            if attempt == ATTEMPTS_MAX:
                raise
        except AnalysisException as error:
            if error.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS":
                raise InputError(OLDER.format(location(root, change.table))) from error
            raise


def _commit_small(spark: SparkSession, rows: DataFrame | pa.Table, change: Change, root: str, snapshot_id: str) -> bool:
    """Commit *rows* without Spark's writer where they are few; False where they are not, or who commits must be Spark.

    The condition of a change is Spark's SQL; one with an escape sign in it means something else elsewhere.
    """
    if change.files is None or "\\" in (change.where or "") or not _is_at_hand(spark, root):
        return False
    found = rows if isinstance(rows, pa.Table) else rows.coalesce(change.files).limit(SMALL_ROWS_MAX + 1).toArrow()
    if found.num_rows > SMALL_ROWS_MAX:
        return False
    own = delta_files.all_equal({SNAPSHOT_COLUMN: snapshot_id})
    delta_files.replace_table(root, change.table, found, own if change.where is None else f"{own} AND ({change.where})")
    return True


def apply_changes(changes: Iterable[Change], root: str, snapshot_id: str) -> None:
    """`apply_change` for several small tables, a few at a time; the first error is raised when all have
    ended.
    """
    with ThreadPoolExecutor(WRITE_THREADS, "tables") as pool:
        pending = [pool.submit(apply_change, change, root, snapshot_id) for change in changes]
    for done in pending:
        done.result()


def merge(df: DataFrame, table: Table, root: str) -> None:
    """Update the rows of *table* that have the key of a row in *df*, insert the others.  Null equals null in
    a key.
    """
    spark = df.sparkSession
    rows = _as_declared(df, table)
    if not exists(spark, table, root):
        rows.limit(0).write.format("delta").mode("ignore").partitionBy(*table.partition_by).save(location(root, table))
    same = " AND ".join(f"old.`{name}` <=> new.`{name}`" for name in table.key)
    (
        DeltaTable.forPath(spark, location(root, table))
        .alias("old")
        .merge(rows.alias("new"), same)
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )


def _is_array_of(declared: ArrayType, found: DataType | None) -> bool:
    """Whether *found*, the type of a column as it was written, is read as the array *declared*; a column may not be there at all."""
    if found is None:
        return True
    return isinstance(found, ArrayType) and type(found.elementType) is type(declared.elementType)


def sql_string(text: str) -> str:
    """*text* as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _as_declared(df: DataFrame, table: Table) -> DataFrame:
    """The columns that *table* declares, in its order, types and words; Spark names a column that *df* lacks.

    A type goes by its name because Spark refuses the cast to elements that are never null; Delta tables do
    not keep that anyway.
    """
    return df.select(
        *(
            F.col(field.name).cast(field.dataType.simpleString()).alias(field.name, metadata=field.metadata)
            for field in spark_schema(table.schema).fields
        )
    )
