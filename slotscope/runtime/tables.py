"""Delta tables under ``ROOT/{bronze,silver,gold}``: no job spells a path, a format or a write mode.

A snapshot is replaced as a whole and in one commit, so a job that is run twice, or killed and run again,
leaves the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType

from schemas.table import Table
from slotscope.runtime.errors import InputError

SNAPSHOT_COLUMN = "snapshot_id"
OLDER = "{}: written by an older version of the program, in another form: choose another --root, or remove the folder and make it anew"
WRITE_THREADS = 3
"""Tables that are written at a time: half of a small Delta write is waiting for the log."""
ATTEMPTS_MAX = 4
"""Writers of different snapshots meet only when both create the table; the second try finds it there."""


def location(table: Table, root: str) -> str:
    """Where *table* lies; *root* is a path or any URI that Spark writes to."""
    return f"{root.rstrip('/')}/{table.name}"


def exists(spark: SparkSession, table: Table, root: str) -> bool:
    """Whether *table* was ever written under *root*."""
    return bool(DeltaTable.isDeltaTable(spark, location(table, root)))


def read(spark: SparkSession, table: Table, root: str) -> DataFrame:
    """Rows of *table*, columns in the order of its schema, null where it was written before they were added.  Raises `InputError` if it
    is not there.
    """
    if not exists(spark, table, root):
        raise InputError(
            f"{location(table, root)}: no such table; is --root right, and did the job that writes it run?"
        )
    rows = spark.read.format("delta").load(location(table, root))
    known = {field.name: field.dataType for field in rows.schema.fields}
    for field in table.schema.fields:
        if isinstance(field.dataType, ArrayType) and not _is_array_of(field.dataType, known.get(field.name)):
            raise InputError(OLDER.format(location(table, root)))
    return rows.select(
        *(F.col(f.name) if f.name in known else F.lit(None).cast(f.dataType).alias(f.name) for f in table.schema.fields)
    )


def read_snapshot(spark: SparkSession, table: Table, root: str, snapshot_id: str) -> DataFrame:
    """Rows of one snapshot of *table*."""
    return read(spark, table, root).where(F.col(SNAPSHOT_COLUMN) == F.lit(snapshot_id))


@dataclass(frozen=True, slots=True)
class Change:
    """*rows* take the place of what *table* holds of a snapshot: of those rows for which the SQL condition *where* holds, or of all.

    *files* is how many files the rows may take; None leaves their partitions as they are (tables with a row per key).
    """

    rows: DataFrame
    table: Table
    where: str | None = None
    files: int | None = 1


def replace_snapshot(df: DataFrame, table: Table, root: str, snapshot_id: str, *, files: int | None = 1) -> None:
    """Put *df* in the place of what *table* holds of *snapshot_id*; rows of another snapshot in *df* are an
    error of Delta's.
    """
    apply_change(Change(df, table, files=files), root, snapshot_id)


def apply_change(change: Change, root: str, snapshot_id: str) -> None:
    """Make *change* in one commit; the table is created at first use."""
    rows = _as_declared(change.rows, change.table)
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
            writer.save(location(change.table, root))
            return
        except DeltaConcurrentModificationException:
            if attempt == ATTEMPTS_MAX:
                raise
        except AnalysisException as error:
            if error.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS":
                raise InputError(OLDER.format(location(change.table, root))) from error
            raise


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
        rows.limit(0).write.format("delta").mode("ignore").partitionBy(*table.partition_by).save(location(table, root))
    same = " AND ".join(f"old.`{name}` <=> new.`{name}`" for name in table.key)
    (
        DeltaTable.forPath(spark, location(table, root))
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
            for field in table.schema.fields
        )
    )
