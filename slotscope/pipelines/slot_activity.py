"""From files about slots to one figure a slot and metric: tasks read, Spark sorts, tasks combine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial as bind
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster_core.formats.slot_stats import COUNTERS
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.activity import BAD, SAMPLE, SLOT_SAMPLES
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark.session import parallelism
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.sources.slot_files import (
    COMBINED_FIELDS,
    OPS,
    ActivityOptions,
    ActivityUnit,
    combine_samples,
    read_samples,
)

EDGES_KEPT_BELOW = 3
"""The first and the last window of a MONITOR log are cut somewhere; with as many windows as this they are left out."""
BAD_LISTED_MAX = 10_000


class BadRecord(NamedTuple):
    """What could not be read."""

    source: str
    offset: int
    reason: str


class SlotFigure(NamedTuple):
    """One metric of one slot, combined over its windows."""

    metric: str
    slot: int
    value: float
    windows: int
    restarted: int


@dataclass(frozen=True, slots=True)
class Activity:
    """All figures, and what could not be read."""

    figures: list[SlotFigure]
    bad: list[BadRecord]

    def metrics(self) -> list[str]:
        """Return the metrics that were measured, in order of name."""
        return sorted({figure.metric for figure in self.figures})

    def loads(self, metric: str) -> list[float]:
        """Return one load a slot; a slot that nobody told of has none."""
        found = [0.0] * SLOT_COUNT
        for figure in self.figures:
            if figure.metric == metric:
                found[figure.slot] = figure.value
        return found


def read_activity(
    spark: SparkSession, units: Sequence[ActivityUnit], options: ActivityOptions, *, how: str
) -> Activity:
    """Return what *units* say of every slot; raises DecodeError for bad input in strict mode, InputError for too few polls."""
    task = bind(read_samples, units=list(units), options=options)
    samples = spark.range(0, len(units), 1, len(units)).mapInArrow(task, spark_schema(SLOT_SAMPLES))
    samples = samples.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        bad = [BadRecord(*row) for row in _bad_rows(samples).collect()]
        starts = (
            samples.where((F.col("kind") == SAMPLE) & (F.col("metric") == OPS)).select("ts_ns").distinct().collect()
        )
        windows = sorted(row[0] for row in starts)
        if len(windows) >= EDGES_KEPT_BELOW:
            windows = windows[1:-1]
        combining = bind(combine_samples, how=how, ops_windows=windows, window_s=options.window_ns / 1e9)
        rows = (
            samples.where((F.col("kind") == SAMPLE) & (F.col("slot") >= 0))
            .select("metric", "slot", "ts_ns", "node", "value")
            .repartition(parallelism(spark), "slot")
            .sortWithinPartitions("metric", "slot", "ts_ns", "node")
            .mapInArrow(combining, COMBINED_FIELDS)
        )
        found = Activity(sorted(SlotFigure(*row) for row in rows.collect()), sorted(bad))
        told = {row[0] for row in samples.where(F.col("kind") == SAMPLE).select("metric").distinct().collect()}
    finally:
        samples.unpersist()
    if told & COUNTERS and not set(found.metrics()) & COUNTERS:
        raise InputError("one poll of SLOT-STATS has no rates: give two or more, taken some time apart")
    return found


def _bad_rows(samples: DataFrame) -> DataFrame:
    return samples.where(F.col("kind") == BAD).select("source", "offset", "reason").limit(BAD_LISTED_MAX)
