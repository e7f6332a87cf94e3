"""A grid of simulated runs on Spark, one task a run, and what the runs have in common."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator, Sequence
from functools import partial as bind
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.sim.experiment.grid import Grid
from cluster_core.sim.experiment.runs import run_trial
from cluster_core.sim.layouts import Place
from schemas.simulation import OUTCOMES, PARAMETERS, SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS
from schemas.table import several
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.row_tables import table_arrow
from slotscope.runtime.storage.runs import Run
from slotscope.runtime.storage.tables import Change, apply_changes

FIGURES = ("detected_ms", "elected_ms", "converged_ms", "lost", "unavailable", "bus_bytes", "elections")
"""Figures of which there are quantiles."""
SHARD_FIELDS = ("master", "replicas", "detected_ms", "elected_ms", "attempts", "hindrance")
_SHARD = pa.struct([field for field in SIMULATED_SHARDS.schema if field.name in SHARD_FIELDS])
_RUN = pa.schema(
    [
        *(field for field in table_arrow(SIMULATED_RUNS)),
        pa.field("case", SIMULATED_QUANTILES.schema.field("case").type, nullable=False),
        pa.field("failed_shards", several(_SHARD), nullable=False),
    ]
)
"""What a task returns: a row of gold/simulated_runs, its case, and its shards."""


def run_grid(spark: SparkSession, grid: Grid, places: Sequence[Place] = ()) -> DataFrame:
    """Every run of *grid* as a row, one Spark task a run; nothing runs before an action asks for it."""
    task = bind(run_trials, grid=grid, places=tuple(places))
    return spark.range(0, grid.runs, 1, grid.runs).mapInArrow(task, spark_schema(_RUN))


def run_trials(batches: Iterator[pa.RecordBatch], grid: Grid, places: tuple[Place, ...]) -> Iterator[pa.RecordBatch]:
    """Run the trials whose numbers come in."""
    if not gc.get_freeze_count():
        gc.freeze()  # Spark's worker collects after each task: modules need not be looked through every time
    for batch in batches:
        rows = [_row(grid, number, places) for number in batch.column("id").to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_RUN)


def _row(grid: Grid, run: int, places: tuple[Place, ...]) -> dict[str, Any]:
    trial = grid.trial(run)
    outcome = run_trial(trial, random.Random, places)
    row: dict[str, Any] = {"run": run, "case": run // grid.seeds, "seed": trial.seed}
    row |= {field.name: getattr(trial, field.name) for field in PARAMETERS}
    if places:
        row |= _shape_of(places)
    row["shards_hit"] = len(outcome.shards)
    row["shards_recovered"] = sum(shard.elected_ms is not None for shard in outcome.shards)
    row |= {field.name: getattr(outcome, field.name) for field in OUTCOMES if field.name not in row}
    row["failed_shards"] = [{name: getattr(shard, name) for name in SHARD_FIELDS} for shard in outcome.shards]
    return row


def _shape_of(places: Sequence[Place]) -> dict[str, int]:
    """The size of a recorded cluster, in the words of the grid."""
    shards = sum(bool(place.slots) for place in places)
    replicas = sum(bool(place.master) for place in places)
    return {"shards": shards, "replicas": round(replicas / shards), "zones": len({place.zone for place in places})}


def write_runs(runs: DataFrame, run: Run) -> None:
    """Put *runs* of `run_grid` into the tables of *run*."""
    partitions = runs.sparkSession.sparkContext.defaultParallelism  # of the rows; the runs themselves were a task each
    gathered = runs.repartition(partitions, "run")
    kept = gathered.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        shards = kept.select("run", F.inline("failed_shards"))
        apply_changes(
            [
                Change(in_order(kept, "run"), SIMULATED_RUNS),
                Change(in_order(shards, "run", "master"), SIMULATED_SHARDS),
                Change(quantiles(kept), SIMULATED_QUANTILES),
            ],
            run,
        )
    finally:
        kept.unpersist()


def quantiles(runs: DataFrame) -> DataFrame:
    """How each figure is distributed over the runs of a case."""
    keys = ["case", *(field.name for field in PARAMETERS)]
    figures = F.array(
        *(F.struct(F.lit(name).alias("figure"), F.col(name).cast("double").alias("value")) for name in FIGURES)
    )
    value = F.col("value")
    found = (
        runs.select(*keys, F.inline(figures))
        .groupBy(*keys, "figure")
        .agg(
            F.count(F.lit(1)).alias("runs"),
            F.count(value).alias("known"),
            F.mean(value).alias("mean"),
            *(
                F.percentile(value, F.lit(share)).alias(name)
                for name, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
            ),
            F.max(value).alias("worst"),
        )
    )
    return in_order(found, "case", "figure")


def in_order(rows: DataFrame, *columns: str) -> DataFrame:
    """*rows* by *columns* in one partition, as they go into one file; a sort over several looks at all rows first to divide them."""
    return rows.coalesce(1).sortWithinPartitions(*columns)
