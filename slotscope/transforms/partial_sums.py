"""Partial sums of units, each read by a Spark task; ranges of a file without an index are guesses.

The driver adds up the sums of small inputs in milliseconds, where a Spark query takes a second.  For others the same functions run in
tasks over pieces of them, and over the results of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial as bind

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.kernels.keys.slot_tally import USES
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.interim import PARTIAL, UNIT, UnitFacts
from slotscope.runtime.spark.session import parallelism
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.sources.inputs import Inputs
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.keys.tally import Unit, tally_units

_NARROW = pa.schema([field for field in PARTIAL if field.name != "facts"])
"""The columns of rows that are no `UNIT`."""
ROWS_HERE_MAX = 1 << 20
"""Largest number of partial rows on the driver, some 600 bytes each."""
LOADS = ("keys", "serialized_bytes", "memory_bytes", "expires", "ops")
Batches = Iterator[pa.RecordBatch]
Step = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Rows of the tasks (`PARTIAL`): on the driver, or, where they may be many, in *pieces* persisted by Spark.

    *units* are the rows of kind `UNIT`.
    """

    rows: pa.Table | DataFrame
    units: pa.Table
    pieces: int = 1

    def of(self, *kinds: int, step: Step, by: str) -> pa.Table:
        """Return the result of *step* on the rows of *kinds*; rows with the same *by* are in one piece."""
        if isinstance(self.rows, pa.Table):
            return step(_of_kinds(self.rows, kinds).drop_columns(["facts"]))
        rows = self.rows.where(F.col("kind").isin(*kinds)).drop("facts").repartition(self.pieces, by)
        return stepped(rows, step, _NARROW).toArrow()

    def frame(self, spark: SparkSession, nodes: Mapping[str, str | None] | None, *kinds: int) -> DataFrame:
        """The rows of *kinds* with their ``node_id`` (`with_node`)."""
        add = bind(with_node, nodes=nodes)
        if isinstance(self.rows, pa.Table):
            return spark_frame(spark, add(_of_kinds(self.rows, kinds)))
        return stepped(self.rows.where(F.col("kind").isin(*kinds)), add, PARTIAL)

    def without(self, spark: SparkSession, sources: Sequence[str]) -> DataFrame:
        """The rows of other inputs than *sources*."""
        rows = spark_frame(spark, self.rows) if isinstance(self.rows, pa.Table) else self.rows
        return rows.where(~F.col("source").isin(list(sources)))

    def release(self) -> None:
        """Unpersist the rows."""
        if isinstance(self.rows, DataFrame):
            self.rows.unpersist()


def _of_kinds(rows: pa.Table, kinds: tuple[int, ...]) -> pa.Table:
    return rows.filter(pc.is_in(rows["kind"], pa.array(kinds, pa.int32())))


def tally(spark: SparkSession, options: TallyOptions, units: list[Unit]) -> DataFrame:
    """Return the partial sums (`schemas.interim.PARTIAL`) of *units*; nothing is read before an action asks for it."""
    numbers = spark.range(0, len(units), 1, max(len(units), 1))  # one Spark task a unit
    return numbers.mapInArrow(bind(tally_units, units=units, options=options), spark_schema(PARTIAL))


def are_few(inputs: Inputs, options: TallyOptions, units: int) -> bool:
    """Whether *units* of *inputs* return few rows: not more than there are bytes, or than slots and groups let a unit that only sums keys up."""
    bounds = [inputs.file_bytes] if inputs.file_bytes is not None else []
    if not inputs.logs and not options.advice:
        bounds.append(units * (2 * options.groups_max + SLOT_COUNT * (2 + options.top_per_slot)))
    return min(bounds, default=ROWS_HERE_MAX + 1) <= ROWS_HERE_MAX


def read_units(spark: SparkSession, inputs: Inputs, options: TallyOptions) -> tuple[PartialSums, list[UnitFacts]]:
    """Tally *inputs*; return the rows and the facts of each unit.

    Large files are read in ranges; those that cannot be, and only those, are read once more, whole.
    """
    tasks = parallelism(spark)
    planned = inputs.units(tasks, split=True)
    few, pieces = are_few(inputs, options, len(planned)), max(len(planned), tasks)
    sums = _read(tally(spark, options, planned), few, pieces)
    units = facts_of(sums.units)
    failed = sorted({unit.source for unit in units if unit.split_failed is not None})
    if failed:
        whole = tally(spark, options, inputs.only(failed).units(tasks, split=False))
        ranges = sums
        try:
            good = ranges.without(spark, failed)
            sums = _read(good.unionByName(whole), few, pieces)
        finally:
            ranges.release()
        units = facts_of(sums.units)
    return sums, sorted(units, key=lambda unit: (unit.source, unit.kind, unit.keys, unit.file_bytes))


def _read(partial: DataFrame, few: bool, pieces: int) -> PartialSums:
    """Have *partial* read, and keep it unless it cannot be: other snapshots may follow in the same session."""
    if few:
        rows = partial.toArrow()
        return PartialSums(rows, _of_kinds(rows, (UNIT,)))
    kept = partial.persist(StorageLevel.MEMORY_AND_DISK)
    with ExitStack() as failed:
        failed.callback(kept.unpersist)
        facts = kept.where(F.col("kind") == UNIT).toArrow()
        failed.pop_all()
    return PartialSums(kept, facts, pieces)


def facts_of(facts: pa.Table) -> list[UnitFacts]:
    """Return the facts in rows of kind `UNIT`."""
    return [
        UnitFacts(
            source=row["source"], kind=row["text"], keys=row["keys"], file_bytes=row["serialized_bytes"],
            **row["facts"] | {"aux": dict(row["facts"]["aux"])},
        )
        for row in facts.select(["source", "text", "keys", "serialized_bytes", "facts"]).to_pylist()
    ]  # fmt: skip


def with_node(rows: pa.Table, nodes: Mapping[str, str | None] | None) -> pa.Table:
    """Add ``node_id``: the node of the file (*nodes* by source), else the owner of the slot; null without *nodes*."""
    node = pa.nulls(len(rows), pa.string())
    if nodes is not None:
        node_ids = pa.array([*nodes.values(), None], pa.string())
        places = pc.index_in(rows["source"], value_set=pa.array(list(nodes), pa.string()))
        node = pc.coalesce(pc.take(node_ids, pc.fill_null(places, len(nodes))), rows["owner_id"])
    return rows.append_column("node_id", node)


def sums(rows: pa.Table, by: Sequence[str], figures: Sequence[str]) -> pa.Table:
    """The sums of *figures* of rows that have the same *by*: null where all are."""
    grouped = rows.group_by(list(by)).aggregate([(name, "sum") for name in figures])
    return grouped.rename_columns(
        [name.removesuffix("_sum") if name not in by else name for name in grouped.column_names]
    )


def replaced(rows: pa.Table, **columns: pa.Array) -> pa.Table:
    """*rows* with other values in these of their *columns*."""
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


def with_amounts(rows: pa.Table) -> pa.Table:
    """The lists of amounts as columns (`USES`)."""
    lists = pc.if_else(pc.equal(pc.list_value_length(rows["amounts"]), len(USES)), rows["amounts"], None)
    for at, name in enumerate(USES):
        rows = rows.append_column(name, pc.fill_null(pc.list_element(lists, at), 0))
    return rows.drop_columns(["amounts"])


def constant(value: object, count: int, kind: pa.DataType) -> pa.Array:
    """A column of one *value*."""
    return pa.repeat(pa.scalar(value, kind), count)


def codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each value, equal for equal ones; -1 for null."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), np.int64)


def ranks(rows: pa.Table, scope: Sequence[str]) -> NDArray[np.int64]:
    """The place of each of the sorted *rows* among those with the same *scope*, from 1."""
    if not len(rows):
        return np.zeros(0, np.int64)
    begins = changes(rows, scope)
    return np.arange(1, len(rows) + 1) - np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))


def changes(rows: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Whether a row differs in *columns* from the one before it; the first does."""
    differs = np.zeros(len(rows), bool)
    differs[:1] = True
    for name in columns:
        numbers = codes(rows[name])
        differs[1:] |= numbers[1:] != numbers[:-1]
    return differs


def sorted_by(rows: pa.Table, *columns: tuple[str, str]) -> pa.Table:
    """*rows* by *columns* (name, ascending or descending); null comes last."""
    return rows.take(pc.sort_indices(rows, sort_keys=list(columns)))


def stepped(rows: DataFrame, step: Step, before: pa.Schema) -> DataFrame:
    """*step* over each partition of *rows*, which have the columns *before*."""
    after = step(before.empty_table()).schema

    def step_piece(batches: Batches) -> Batches:
        read = list(batches)
        piece = pa.Table.from_batches(read) if read else before.empty_table()
        yield from step(piece).cast(after).to_batches()

    return rows.mapInArrow(step_piece, spark_schema(after))
