"""Delta tables under ``ROOT/{bronze,silver,gold}``: no job spells a path, a format or a write mode.

Rows are appended, stamped with the run that writes them, and count when it is complete (`slotscope.runtime.storage.runs`): a job that is run
twice, or killed and run again, leaves the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial as bind
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
from delta import exceptions
from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType

from schemas.runs import RUNS
from schemas.table import Table
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.session import is_one_process, running_session
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage import delta_files, stores
from slotscope.runtime.storage.delta_files import OLDER, commit_mark, counted_runs, holds, location, missing, tried
from slotscope.runtime.storage.row_tables import table_arrow
from slotscope.runtime.storage.runs import Run, State
from slotscope.runtime.storage.stamps import LASTING, Lasting, Stamp

WRITE_THREADS = 3
"""Tables that are written at a time: half of a small Delta write is waiting for the log."""
SMALL_ROWS_MAX = 50_000
"""Rows that the driver commits itself, in some 10 ms where Spark's own writer takes a second; three such tables are held at a time."""
COMMIT_ROWS = 200_000
"""Rows of a commit of a task that writes them itself: as many as a file should have, and few enough to hold."""
CONFLICTS = (
    exceptions.DeltaConcurrentModificationException,
    exceptions.ConcurrentWriteException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentTransactionException,
)
"""What Delta says where another writer was first: the classes have no common base that is only theirs."""


def exists(spark: SparkSession, table: Table, root: str) -> bool:
    """Whether *table* was ever written under *root*."""
    if _is_at_hand(root):
        return delta_files.exists(root, table)
    return bool(DeltaTable.isDeltaTable(spark, _place(root, table)))


def _is_at_hand(root: str) -> bool:
    """Whether a look at a table, or a commit of few rows, needs no Spark: *root* is a store, or a folder, which a driver commits to anyway."""
    return stores.is_store(root) or "://" not in root


def writes_in_tasks(spark: SparkSession, root: str) -> bool:
    """Whether a task may add rows itself: where driver and tasks are one process, it writes where the driver does."""
    return _is_at_hand(root) and is_one_process(str(spark.conf.get("spark.master")))


def _place(root: str, table: Table) -> str:
    """Where *table* lies, as Spark names it."""
    return stores.spark_uri(location(root, table))


def read(spark: SparkSession, table: Table, root: str) -> DataFrame:
    """Rows of *table* that count, columns in the order of its schema, null where it was written before they were added.

    Raises `InputError` if it is not there.
    """
    rows = _stored(spark, table, root)
    if not table.of_runs:
        return rows
    complete = _stored(spark, RUNS, root).where(F.col("state") == F.lit(str(State.COMPLETE)))
    return rows.join(complete.select(F.explode("counted").alias("run_id")), "run_id", "left_semi").select(
        *table.columns
    )


def read_snapshot(
    spark: SparkSession, table: Table, root: str, snapshot_id: str, runs: Sequence[str] | None = None
) -> DataFrame:
    """Rows of one snapshot of *table*: those that count, or those of *runs*."""
    ids = counted_runs(root, snapshot_id) if runs is None else runs
    mine = (F.col(table.named_by) == F.lit(snapshot_id)) & F.col("run_id").isin(list(ids))
    return _stored(spark, table, root).where(mine)


def _stored(spark: SparkSession, table: Table, root: str) -> DataFrame:
    if not exists(spark, table, root):
        raise InputError(missing(root, table))
    rows = spark.read.format("delta").load(_place(root, table))
    known = {field.name: field.dataType for field in rows.schema.fields}
    declared = spark_schema(table.schema).fields
    for field in declared:
        if field.name in table.labels and field.name not in known:
            raise InputError(OLDER.format(location(root, table)))
        if isinstance(field.dataType, ArrayType) and not _is_array_of(field.dataType, known.get(field.name)):
            raise InputError(OLDER.format(location(root, table)))
    return rows.select(
        *(F.col(f.name) if f.name in known else F.lit(None).cast(f.dataType).alias(f.name) for f in declared)
    )


class Made(NamedTuple):
    """Rows that a task makes, *by* a function, of Arrow batches of *source*; it may as well write them."""

    source: DataFrame
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def frame(self, table: Table) -> DataFrame:
        """The rows, which have the columns of *table* without what a run stamps."""
        return self.source.mapInArrow(self.by, spark_schema(table_arrow(table)))


@dataclass(frozen=True, slots=True)
class Change:
    """*rows* are what a run adds to *table*; of those some may be *lasting* (`Lasting`).

    Rows that the driver has made are an Arrow table, and no query; a function makes either when its turn comes, beside those of other
    tables: to make a query takes as long as to run it.  *files* is how many files the rows may take; None leaves their
    partitions as they are (tables with a row per key).
    """

    rows: DataFrame | pa.Table | Made | Callable[[], DataFrame | pa.Table]
    table: Table
    lasting: Lasting = None
    files: int | None = 1


def apply_change(change: Change, run: Run) -> None:
    """Make *change* in one commit; the table is created at first use."""
    spark = running_session()
    spark.sparkContext.setJobDescription(change.table.name)
    rows = change.rows() if callable(change.rows) else change.rows
    if isinstance(rows, Made):
        if writes_in_tasks(spark, run.root):
            _append_made(rows, change, run)
            return
        rows = rows.frame(change.table)
    if change.files is not None and isinstance(rows, DataFrame) and _is_at_hand(run.root):
        few = rows.coalesce(change.files).limit(SMALL_ROWS_MAX + 1).toArrow()
        rows = few if few.num_rows <= SMALL_ROWS_MAX else rows
    if isinstance(rows, pa.Table) and _is_at_hand(run.root):
        run.append(change.table, rows, change.lasting)
        return
    if isinstance(rows, pa.Table):
        rows = spark_frame(spark, run.stamp(change.table, change.lasting).on(rows))
    else:
        rows = _stamped(rows, change, run)
    _append(_as_declared(rows, change.table), change, run)


def _append_made(rows: Made, change: Change, run: Run) -> None:
    """Let the task that makes *rows* add them, in commits of many."""
    delta_files.create(run.root, change.table)
    writing = bind(_write_made, by=rows.by, root=run.root, stamp=run.stamp(change.table, change.lasting))
    counts = rows.source.coalesce(1).mapInArrow(writing, "rows BIGINT").collect()
    run.wrote(change.table, sum(row["rows"] for row in counts))


def _write_made(
    batches: Iterator[pa.RecordBatch],
    by: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    root: str,
    stamp: Stamp,
) -> Iterator[pa.RecordBatch]:
    """Add what *by* makes of *batches*; yield how many rows each commit has."""
    made: list[pa.RecordBatch] = []
    for batch in chain(by(batches), [None]):
        made += [batch] if batch is not None else []
        count = sum(map(len, made))
        if count and (batch is None or count >= COMMIT_ROWS):
            delta_files.append_table(root, stamp.table, stamp.on(pa.Table.from_batches(made)))
            made = []
            yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def _append(rows: DataFrame, change: Change, run: Run) -> None:
    """Add *rows* by Spark's own writer: once, also where its commit was taken and the answer was lost."""
    place, mark = _place(run.root, change.table), commit_mark()
    delta_files.create(run.root, change.table)

    def once() -> int:
        counted = Observation()
        seen = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        writer = (seen if change.files is None else seen.coalesce(change.files)).write.format("delta").mode("append")
        writer = writer.option("mergeSchema", "true").option("txnAppId", mark).option("txnVersion", 1)
        try:
            writer.save(place)
        except (*CONFLICTS, Py4JError):
            if not holds(location(run.root, change.table), mark):
                raise
            return delta_files.figures(run.root, change.table, run.own, rows="count(*)")["rows"] or 0
        return int(counted.get["rows"])

    try:
        run.wrote(change.table, tried(place, once, *CONFLICTS))
    except AnalysisException as error:
        if error.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS":
            raise InputError(OLDER.format(place)) from error
        raise


def _stamped(rows: DataFrame, change: Change, run: Run) -> DataFrame:
    """*rows* with the columns that say whose they are, as `Run.stamp` does it."""
    run_id = F.lit(run.run_id)
    if change.lasting is not None:
        run.lasts = True
        column, bound = change.lasting
        run_id = F.when(F.col(column) <= F.lit(bound), F.lit(f"{run.run_id}{LASTING}")).otherwise(run_id)
    labels = {change.table.named_by: F.lit(run.name), "cluster": F.lit(run.cluster), "run_id": run_id}
    return rows.withColumns(labels)


def apply_changes(changes: Iterable[Change], run: Run) -> None:
    """`apply_change` for several small tables, a few at a time; the first error is raised when all have
    ended.
    """
    with ThreadPoolExecutor(WRITE_THREADS, "tables") as pool:
        pending = [pool.submit(apply_change, change, run) for change in changes]
    for done in pending:
        done.result()


def _is_array_of(declared: ArrayType, found: DataType | None) -> bool:
    """Whether *found*, the type of a column as it was written, is read as the array *declared*; a column may not be there at all."""
    if found is None:
        return True
    return isinstance(found, ArrayType) and type(found.elementType) is type(declared.elementType)


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
