"""A grid of simulated runs on Spark, one task a run, and quantiles of their figures."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from functools import partial as bind
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from cluster_core.sim.experiment.runs import Grid, run_trial
from cluster_core.sim.experiment.table_rows import ShardOutcome
from schemas.simulation import PARAMETERS, SIMULATED_QUANTILES, SIMULATED_RUNS, SIMULATED_SHARDS
from schemas.table import fields_of, several
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.runs import Run
from slotscope.runtime.storage.tables import Change, apply_changes

FIGURES = ("detected_ms", "elected_ms", "converged_ms", "lost", "unavailable", "bus_bytes", "elections")
"""Figures with quantiles."""
_SHARD = pa.struct(fields_of(ShardOutcome))
_RUN = pa.schema(
    [
        *(field for field in SIMULATED_RUNS.unlabelled),
        pa.field("case", SIMULATED_QUANTILES.schema.field("case").type, nullable=False),
        pa.field("failed_shards", several(_SHARD), nullable=False),
    ]
)
"""Row that a task returns: a row of gold/simulated_runs, its case, and its shards."""
_KEYS = ["case", *(field.name for field in PARAMETERS)]
_MEASURED = pa.schema([field for field in _RUN if field.name in (*_KEYS, *FIGURES)])
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


def run_grid(spark: SparkSession, grid: Grid) -> DataFrame:
    """Every run of *grid* as a row, one Spark task a run; nothing runs before an action asks for it."""
    task = bind(run_trials, grid=grid)
    return spark.range(0, grid.runs, 1, grid.runs).mapInArrow(task, spark_schema(_RUN))


def run_trials(batches: Iterator[pa.RecordBatch], grid: Grid) -> Iterator[pa.RecordBatch]:
    """Run the trials of the numbers in *batches*."""
    if not gc.get_freeze_count():
        gc.freeze()  # Spark's worker collects after each task: modules need not be looked through every time
    for batch in batches:
        rows = [_row(grid, number) for number in batch.column("id").to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_RUN)


def _row(grid: Grid, run: int) -> dict[str, Any]:
    trial = grid.trial(run)
    outcome = run_trial(trial, random.Random)
    row: dict[str, Any] = {"run": run, "case": run // grid.seeds, "seed": trial.seed}
    row |= {field.name: getattr(trial, field.name) for field in PARAMETERS}
    return row | outcome._asdict() | {"failed_shards": [shard._asdict() for shard in outcome.failed_shards]}


def write_runs(runs: DataFrame, run: Run) -> None:
    """Put *runs* of `run_grid` into the tables of *run*: a run is a second of work and a row of a kilobyte, so that all rows fit here."""
    rows = runs.toArrow().sort_by("run")
    changes = [Change(rows, SIMULATED_RUNS), Change(_shards(rows), SIMULATED_SHARDS)]
    apply_changes([*changes, Change(quantiles(rows.select(_MEASURED.names)), SIMULATED_QUANTILES)], run)


def _shards(rows: pa.Table) -> pa.Table:
    """A row a shard that failed, from rows of runs in their order."""
    lists = rows["failed_shards"].combine_chunks()
    shards = pa.Table.from_struct_array(lists.flatten())
    owners = rows["run"].combine_chunks().take(pc.list_parent_indices(lists))
    return shards.append_column("run", owners).sort_by([("run", "ascending"), ("master", "ascending")])


def quantiles(runs: pa.Table) -> pa.Table:
    """Return the distribution of each figure over the runs of a case; *runs* holds all of them."""
    rows = []
    keys = runs.select(_KEYS).group_by(_KEYS).aggregate([]).sort_by("case").to_pylist()
    for key in keys:
        mine = runs.filter(pc.field("case") == key["case"])
        for figure in sorted(FIGURES):
            values = np.asarray(mine[figure].drop_null(), np.float64)
            rows.append({**key, "figure": figure, "runs": len(mine), "known": len(values), **_spread(values)})
    return pa.Table.from_pylist(rows, SIMULATED_QUANTILES.unlabelled)


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    if not len(values):
        return {}
    shares = zip(QUANTILES, np.quantile(values, list(QUANTILES.values())).tolist(), strict=True)
    return {"mean": float(values.mean()), **dict(shares), "worst": float(values.max())}
