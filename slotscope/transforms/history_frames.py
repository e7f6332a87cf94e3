"""Frames of a replay on their way to tables: columns as declared, blobs unpacked, logs as events."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial as bind
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cluster_core.replay.log_clock import PAIRED_KINDS, SourceEvent, compare_clocks
from schemas.caveats import Caveat, Code
from schemas.table import Table
from slotscope.runtime.spark.spark_schema import spark_schema
from slotscope.runtime.storage.runs import HELD_ROWS_MAX
from slotscope.sources.bus.blobs import unpacked_table
from slotscope.sources.bus.captured import BELIEFS
from slotscope.sources.bus.observers import REPLAYED, unpack_beliefs

KIND = "row_kind"
"""Column with the kind of a task's row."""
BLOBS_HERE_MAX = 64
"""Blobs of rows that the driver may take, where they have few rows."""
COMPARED_MAX = 100_000
"""Events of logs and of packets that are compared to find clocks that differ."""

Rows: TypeAlias = DataFrame | pa.Table
"""Rows of a replay: a query, or the answer of a small one."""


def of_kind(rows: Rows, kind: int) -> Any:
    """Return the *rows* of that kind, as the same type."""
    if isinstance(rows, pa.Table):  # a mask costs a tenth of an expression
        return rows.filter(pc.equal(rows.column(KIND), pa.scalar(kind, rows.schema.field(KIND).type)))
    return rows.where(F.col(KIND) == kind)


def beliefs_of(rows: Rows) -> Rows:
    """Return the rows of machines (`REPLAYED`) in *rows* of tasks; few ones as a table."""
    packed = of_kind(rows, BELIEFS).select(["number", "blob"])
    few = packed if isinstance(packed, pa.Table) else packed.limit(BLOBS_HERE_MAX + 1).toArrow()
    is_few = len(few) <= BLOBS_HERE_MAX and (pc.sum(few.column("number")).as_py() or 0) <= HELD_ROWS_MAX
    if is_few or isinstance(packed, pa.Table):
        return pa.Table.from_batches(unpack_beliefs(iter(few.to_batches())), REPLAYED)
    return packed.mapInArrow(unpack_beliefs, spark_schema(REPLAYED))


def blobs_of(rows: Rows) -> list[tuple[str, bytes]]:
    """The parts and blobs of *rows*."""
    blobs = rows.select(["part", "blob"])
    table = blobs if isinstance(blobs, pa.Table) else blobs.toArrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def with_times(rows: Rows, table: Table) -> Any:
    """Return the columns of *table* without the run's labels; every time also as a timestamp."""
    names = [name for name in table.columns if name not in table.labels]
    if isinstance(rows, pa.Table):
        return pa.table({name: _array(name, rows) for name in names})
    have = rows.columns
    return rows.select(*(_column(name, have).alias(name) for name in names))


def _array(name: str, rows: pa.Table) -> Any:
    if name in rows.column_names or f"{name}_ns" not in rows.column_names:
        return rows.column(name)
    instants = rows.column(f"{name}_ns")
    cut = pc.divide(instants, 1000)  # toward 0
    is_later = pc.greater(pc.multiply(cut, 1000), instants)
    return pc.subtract(cut, is_later.cast(pa.int64())).cast(pa.timestamp("us", "UTC"))


def _column(name: str, have: list[str]) -> Column:
    if name not in have and f"{name}_ns" in have:
        return F.expr(
            f"timestamp_micros(({name}_ns - pmod({name}_ns, 1000)) div 1000)"
        )  # whole numbers: a double is off by one
    return F.col(name)


def unpacked(read: Rows, kind: int, table: Table) -> Any:
    """The rows of the blobs of one kind."""
    if isinstance(read, pa.Table):
        batches = unpack(iter(of_kind(read, kind).select(["blob"]).to_batches()), table)
        return with_times(pa.Table.from_batches(batches, table.unlabelled), table)
    made = bind(unpack, table=table)
    return with_times(of_kind(read, kind).select("blob").mapInArrow(made, spark_schema(table.unlabelled)), table)


def unpack(batches: Iterator[pa.RecordBatch], table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of the blobs in the first column."""
    schema = table.unlabelled
    for batch in batches:
        for blob in batch.column(0):
            yield from unpacked_table(blob.as_py()).cast(schema).to_batches()


def clock_warnings(logged: Rows, events: Rows) -> list[Caveat]:
    """Return observers with different times of the same events in logs and packets (a wrong clock or time zone)."""
    ours, theirs = _by_observer(logged), _by_observer(events)
    differences = {node: compare_clocks(events, theirs.get(node, [])) for node, events in sorted(ours.items())}
    return [
        Caveat.warning(Code.LOG_CLOCK, f"{node}: {d.warning}", node)
        for node, d in differences.items()
        if d and d.warning
    ]


def _by_observer(events: Rows) -> dict[str, list[SourceEvent]]:
    columns = ["observer", "ts_ns", "kind", "subject", "epoch"]
    if isinstance(events, pa.Table):
        kinds = pc.field("kind").isin([str(kind) for kind in PAIRED_KINDS])
        rows = events.filter(kinds & pc.field("observer").is_valid()).slice(0, COMPARED_MAX).select(columns)
    else:
        paired = events.where(F.col("kind").isin(*PAIRED_KINDS) & F.col("observer").isNotNull())
        rows = paired.limit(COMPARED_MAX).select(columns).toArrow()
    grouped: dict[str, list[SourceEvent]] = {}
    for row in rows.to_pylist():
        event = SourceEvent(row["ts_ns"], row["kind"], row["subject"] or "", int(row["epoch"] or 0))
        grouped.setdefault(row["observer"], []).append(event)
    return grouped
