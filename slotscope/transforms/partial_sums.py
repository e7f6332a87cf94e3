"""The partial sums of units, each read by a Spark task: where nothing is known of a file but its bytes, its ranges are guesses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial as bind

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from schemas.interim import PARTIAL, UNIT, UnitFacts
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage import stores
from slotscope.sources.inputs import Inputs
from slotscope.sources.keys.partial_rows import TallyOptions
from slotscope.sources.keys.tally import Unit, tally_rows, tally_units

Batches = Iterator[pa.RecordBatch]


def over_units(spark: SparkSession, task: Callable[[Batches], Batches], count: int, schema: StructType) -> DataFrame:
    """Run *task* once for each of the unit numbers 0 to *count* - 1, one Spark task a unit."""
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(task, schema)


def tally(spark: SparkSession, inputs: Inputs, options: TallyOptions, *, split: bool = True) -> DataFrame:
    """Return the partial sums (`schemas.interim.PARTIAL`) of all *inputs*; nothing is read before an action asks for it."""
    units: list[Unit] = inputs.units(spark.sparkContext.defaultParallelism, split=split)
    partial = over_units(spark, bind(tally_units, units=units, options=options), len(units), spark_schema(PARTIAL))
    for path in inputs.delta:
        rows = spark.read.format("delta").load(stores.spark_uri(path))
        partial = partial.union(rows.mapInArrow(bind(tally_rows, source=path, options=options), spark_schema(PARTIAL)))
    return partial


def read_units(
    spark: SparkSession, inputs: Inputs, options: TallyOptions, *, split: bool
) -> tuple[DataFrame, list[UnitFacts]]:
    """Tally *inputs* and keep the result; the second value is what each unit says of itself.

    With *split* large files are read in ranges; those that cannot be, and only those, are read once more, whole.
    """
    partial, units = _read(tally(spark, inputs, options, split=split))
    failed = {unit.source for unit in units if unit.split_failed is not None}
    if failed:
        ranges, good = partial, partial.where(~F.col("source").isin(sorted(failed)))
        whole = tally(spark, inputs.only(failed), options, split=False)
        try:
            partial, units = _read(good.unionByName(whole))
        finally:
            ranges.unpersist()
    return partial, sorted(units, key=lambda unit: (unit.source, unit.kind, unit.keys, unit.file_bytes))


def _read(sums: DataFrame) -> tuple[DataFrame, list[UnitFacts]]:
    """Keep *sums*, unless they cannot be read: other snapshots may follow in the same session."""
    partial = sums.persist(StorageLevel.MEMORY_AND_DISK)
    told = partial.where(F.col("kind") == UNIT).select("source", "text", "keys", "serialized_bytes", "facts")
    with ExitStack() as failed:
        failed.callback(partial.unpersist)
        rows = told.collect()
        failed.pop_all()
    return partial, [
        UnitFacts(source=source, kind=kind, keys=keys, file_bytes=file_bytes, **facts.asDict())
        for source, kind, keys, file_bytes, facts in rows
    ]
