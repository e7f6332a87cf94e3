"""Delta tables in Spark: a snapshot is replaced as a whole, whatever its name and however often."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from schemas.table import optional, required, several, snapshot_table
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.runs import running
from slotscope.runtime.storage.tables import Change
from tests.builders.stored_rows import stored_frame

LOAD = snapshot_table(
    "silver/test_load",
    "A table for tests.",
    [required("slot", pa.int64(), "slot"), optional("words", several(pa.string()), "words")],
    key=("slot",),
)
HOSTILE = 'it\'s \\ "a" %2F/é'


def rows(spark, slots):
    """A frame of slots, with the columns in another order and type than declared."""
    return spark.createDataFrame([(["a"], slot) for slot in slots], "words array<string>, slot int")


def write(root, name, frame, **more):
    with running(root, "test", name) as run:
        tables.apply_changes([Change(frame, LOAD, **more)], run)


def content(spark, root):
    return sorted((row.snapshot_id, row.slot) for row in stored_frame(spark, LOAD, root).collect())


@pytest.mark.parametrize("held_rows_max", [tables.HELD_ROWS_MAX, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_snapshot_is_replaced_and_its_neighbours_stay(spark, tmp_path, monkeypatch, held_rows_max):
    """A job that runs twice leaves the same rows; so does one that finds fewer; also where tasks stage them."""
    monkeypatch.setattr(tables, "HELD_ROWS_MAX", held_rows_max)
    root = str(tmp_path)
    write(root, "a", rows(spark, [1, 2]))
    write(root, HOSTILE, rows(spark, [3]))
    write(root, "a", rows(spark, [2]))
    write(root, HOSTILE, rows(spark, [3]))

    assert content(spark, root) == sorted([("a", 2), (HOSTILE, 3)])
    assert [row.slot for row in stored_frame(spark, LOAD, root).where(F.col("snapshot_id") == HOSTILE).collect()] == [3]


@pytest.mark.parametrize("held_rows_max", [tables.HELD_ROWS_MAX, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_run_that_continues_replaces_the_tail(spark, tmp_path, monkeypatch, held_rows_max):
    """It reads what its snapshot will hold before it is committed."""
    monkeypatch.setattr(tables, "HELD_ROWS_MAX", held_rows_max)
    root = str(tmp_path)
    write(root, "a", rows(spark, [1, 5, 6]))
    with running(root, "test", "a", continues=True) as run:
        tables.apply_change(Change(rows(spark, [7, 8]), LOAD, tail="slot > 4"), run)
        during = run.read(LOAD, ("slot",))

    assert sorted(row["slot"] for row in during) == [1, 7, 8]
    assert content(spark, root) == [("a", 1), ("a", 7), ("a", 8)]
    write(root, "a", rows(spark, [9]))
    assert content(spark, root) == [("a", 9)]


def test_a_table_is_read_as_it_is_declared(spark, tmp_path):
    """Columns in their order, with their types and comments, whatever the frame had; one small file."""
    root = str(tmp_path)
    write(root, "a", rows(spark, range(100)).repartition(5))

    frame = stored_frame(spark, LOAD, root)

    assert frame.schema.names == LOAD.columns
    assert frame.schema["slot"].dataType == LongType()
    assert frame.schema["slot"].metadata == {"comment": "slot"}
    assert len(list((tmp_path / "silver/test_load").rglob("*.parquet"))) == 1
    assert spark.sql(f"DESCRIBE DETAIL delta.`{root}/{LOAD.name}`").first().description == LOAD.about
