"""Delta tables in Spark: a snapshot is replaced as a whole, whatever its name and however often."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from schemas.runs import RUNS
from schemas.table import optional, required, several, snapshot_table
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import delta_files, tables
from slotscope.runtime.storage.runs import running
from slotscope.runtime.storage.tables import Change

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
    return sorted((row.snapshot_id, row.slot) for row in tables.read(spark, LOAD, root).collect())


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
    assert [row.slot for row in tables.read(spark, LOAD, root).where(F.col("snapshot_id") == HOSTILE).collect()] == [3]


@pytest.mark.parametrize("held_rows_max", [tables.HELD_ROWS_MAX, pytest.param(-1, marks=pytest.mark.slow)])
def test_a_run_that_continues_replaces_the_tail(spark, tmp_path, monkeypatch, held_rows_max):
    """It reads what its snapshot will hold before it is committed."""
    monkeypatch.setattr(tables, "HELD_ROWS_MAX", held_rows_max)
    root = str(tmp_path)
    write(root, "a", rows(spark, [1, 5, 6]))
    with running(root, "test", "a", continues=True) as run:
        tables.apply_change(Change(rows(spark, [7, 8]), LOAD, tail="slot > 4"), run)
        during = tables.read_parts(spark, LOAD, run.parts(LOAD)).select("slot").collect()

    assert sorted(row.slot for row in during) == [1, 7, 8]
    assert content(spark, root) == [("a", 1), ("a", 7), ("a", 8)]
    write(root, "a", rows(spark, [9]))
    assert content(spark, root) == [("a", 9)]


def test_a_table_is_read_as_it_is_declared(spark, tmp_path):
    """Columns in their order, with their types and comments, whatever the frame had; one small file."""
    root = str(tmp_path)
    write(root, "a", rows(spark, range(100)).repartition(5))

    found = tables.read(spark, LOAD, root)

    assert found.schema.names == LOAD.columns
    assert found.schema["slot"].dataType == LongType()
    assert found.schema["slot"].metadata == {"comment": "slot"}
    assert len(list((tmp_path / "silver/test_load").rglob("*.parquet"))) == 1
    assert spark.sql(f"DESCRIBE DETAIL delta.`{root}/{LOAD.name}`").first().description == LOAD.about


def test_an_empty_frame_empties_its_snapshot(spark, tmp_path):
    """Nothing found is a result as well."""
    root = str(tmp_path)
    write(root, "a", rows(spark, [1]))
    write(root, "a", rows(spark, []))

    assert content(spark, root) == []


def test_a_table_that_is_not_there_is_named(spark, tmp_path):
    """With what to look at."""
    with pytest.raises(InputError, match=r"silver/test_load: no such table; is --root right"):
        tables.read(spark, LOAD, str(tmp_path))


@pytest.mark.slow
def test_writers_of_many_rows_beside_each_other_all_end_right(spark, tmp_path, monkeypatch):
    """Rows that tasks stage, in two sessions, in an empty root and in one that is not."""
    many, root = 3, str(tmp_path)
    monkeypatch.setattr(tables, "HELD_ROWS_MAX", many - 1)

    def job(number):
        session = spark.newSession()
        frame = session.range(many).selectExpr("cast(id as int) as slot", "array('a') as words")
        write(root, f"s{number}", frame)

    for round_ in (0, 2):
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(job, (round_, round_ + 1)))

    found = (
        tables.read(spark, LOAD, root).groupBy("snapshot_id").agg(F.count("slot"), F.countDistinct("slot")).collect()
    )
    assert sorted(map(tuple, found)) == [(f"s{number}", many, many) for number in range(4)]
    written = {row["snapshot_id"]: row["rows"] for row in delta_files.read_rows(root, RUNS, state="complete")}
    assert written == {f"s{number}": {LOAD.name: many} for number in range(4)}
