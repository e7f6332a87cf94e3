"""Who owned what: from all views of a snapshot to silver/slot_owners."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from schemas.history import NODE_VIEWS, SLOT_OWNERS
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.runs import Run
from slotscope.runtime.storage.tables import Change
from slotscope.transforms.history_frames import with_times
from slotscope.transforms.ownership import DERIVED, VIEW_COLUMNS, derive_task

FEW_VIEWS = 5_000
"""Beliefs that the driver goes through itself, in a fraction of a second; more are for a task, as the driver has the incidents to find."""


def write_owners(spark: SparkSession | None, run: Run) -> None:
    """Write the owners by what *run* has written and kept of its snapshot: most of it stands there since earlier runs."""
    tables.apply_change(Change(with_times(_derived(spark, run), SLOT_OWNERS), SLOT_OWNERS), run)


def _derived(spark: SparkSession | None, run: Run) -> pa.Table:
    views = run.query(f"SELECT {', '.join(VIEW_COLUMNS)} FROM node_views ORDER BY valid_from_ns", NODE_VIEWS)
    if spark is None or len(views) <= FEW_VIEWS:
        return pa.Table.from_batches(derive_task(iter(views.to_batches())), DERIVED)
    known = views.cast(pa.schema([NODE_VIEWS.schema.field(name) for name in VIEW_COLUMNS]))
    return spark_frame(spark, known).coalesce(1).mapInArrow(derive_task, spark_schema(DERIVED)).toArrow()
