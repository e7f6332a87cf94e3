"""Who owned what, and who was a member: from all beliefs of a snapshot to silver/slot_owners and silver/memberships."""

from __future__ import annotations

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from schemas.history import MEMBERSHIPS, NODE_VIEWS, SLOT_OWNERS
from slotscope.runtime.spark.session import runs_here
from slotscope.runtime.spark.spark_schema import spark_frame, spark_schema
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import query_table
from slotscope.runtime.storage.runs import HELD_ROWS_MAX, Run
from slotscope.runtime.storage.tables import Change
from slotscope.transforms.history_frames import Rows, forget, of_kind, with_times
from slotscope.transforms.ownership import DERIVED, MEMBER, OWNED, VIEW_COLUMNS, derive_task

FEW_VIEWS = 5_000
"""Beliefs that the driver goes through itself, in a fraction of a second; more are for a task, as the driver has the incidents to find."""


def write_derived(spark: SparkSession | None, run: Run) -> None:
    """Write both tables by what *run* has written and kept of its snapshot: most of it stands there since earlier runs."""
    derived = _derived(spark, run)
    kinds = ((SLOT_OWNERS, OWNED), (MEMBERSHIPS, MEMBER))
    changes = [Change(with_times(of_kind(derived, kind), table), table) for table, kind in kinds]
    tables.apply_changes(changes, run)
    forget(derived)


def _derived(spark: SparkSession | None, run: Run) -> Rows:
    sql = f"SELECT {', '.join(VIEW_COLUMNS)} FROM node_views ORDER BY valid_from_ns"
    limit = "" if spark is None else f" LIMIT {HELD_ROWS_MAX + 1}"
    views = query_table(run.root, sql + limit, NODE_VIEWS, parts=run.parts(NODE_VIEWS))
    if spark is None:
        return pa.Table.from_batches(derive_task(iter(views.to_batches())), DERIVED)
    if FEW_VIEWS < len(views) <= HELD_ROWS_MAX and runs_here(spark):
        known = views.cast(pa.schema([NODE_VIEWS.schema.field(name) for name in VIEW_COLUMNS]))
        rows = spark_frame(spark, known).coalesce(1).mapInArrow(derive_task, spark_schema(DERIVED))
        return rows.toArrow()
    if len(views) <= HELD_ROWS_MAX:
        return pa.Table.from_batches(derive_task(iter(views.to_batches())), DERIVED)
    many = tables.read_parts(spark, NODE_VIEWS, run.parts(NODE_VIEWS))
    rows = many.select(*VIEW_COLUMNS).coalesce(1).mapInArrow(derive_task, spark_schema(DERIVED))
    return rows.persist(StorageLevel.MEMORY_AND_DISK)
