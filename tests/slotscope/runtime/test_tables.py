"""Delta tables: a snapshot is replaced as a whole, whatever its name and however often."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType

from schemas.table import Table, optional, required, several
from slotscope.runtime import tables
from slotscope.runtime.errors import InputError
from slotscope.runtime.spark_schema import spark_schema
from slotscope.runtime.tables import Change

LOAD = Table(
    "silver/test_load",
    "A table for tests.",
    pa.schema(
        [
            required("snapshot_id", pa.string(), "snapshot"),
            required("slot", pa.int64(), "slot"),
            optional("words", several(pa.string()), "words"),
        ]
    ),
    key=("snapshot_id", "slot"),
    partition_by=("snapshot_id",),
)
HOSTILE = 'it\'s \\ "a" %2F/é'


def rows(spark, snapshot_id, slots):
    """A frame of slots, with the columns in another order and type than declared."""
    found = [(slot, snapshot_id, ["a"]) for slot in slots]
    return spark.createDataFrame(found, "slot int, snapshot_id string, words array<string>")


def content(spark, root):
    return sorted((row.snapshot_id, row.slot) for row in tables.read(spark, LOAD, root).collect())


def test_a_snapshot_is_replaced_and_its_neighbours_stay(spark, tmp_path):
    """A job that runs twice leaves the same rows; so does one that finds fewer."""
    root = str(tmp_path)
    tables.replace_snapshot(rows(spark, "a", [1, 2]), LOAD, root, "a")
    tables.apply_changes([Change(rows(spark, HOSTILE, [3]), LOAD)], root, HOSTILE)
    tables.replace_snapshot(rows(spark, "a", [2]), LOAD, root, "a")
    tables.replace_snapshot(rows(spark, HOSTILE, [3]), LOAD, root, HOSTILE)

    assert content(spark, root) == sorted([("a", 2), (HOSTILE, 3)])
    assert [row.slot for row in tables.read_snapshot(spark, LOAD, root, HOSTILE).collect()] == [3]


def test_a_part_of_a_snapshot_is_replaced_and_the_rest_stays(spark, tmp_path):
    """Rows for which the condition holds go, those of other snapshots stay even if it holds for them."""
    root = str(tmp_path)
    tables.replace_snapshot(rows(spark, "a", [1, 5, 6]), LOAD, root, "a")
    tables.replace_snapshot(rows(spark, "b", [7]), LOAD, root, "b")

    tables.apply_change(Change(rows(spark, "a", [8, 9]), LOAD, "slot >= 5"), root, "a")

    assert content(spark, root) == [("a", 1), ("a", 8), ("a", 9), ("b", 7)]


def test_a_table_is_read_as_it_is_declared(spark, tmp_path):
    """Columns in their order, with their types and comments, whatever the frame had; one small file."""
    root = str(tmp_path)
    tables.replace_snapshot(rows(spark, "a", range(100)).repartition(5), LOAD, root, "a")

    found = tables.read(spark, LOAD, root)

    assert found.schema.names == LOAD.columns
    assert found.schema["slot"].dataType == LongType()
    assert found.schema["slot"].metadata == {"comment": "slot"}
    assert len(list((tmp_path / "silver/test_load").rglob("*.parquet"))) == 1


def test_an_empty_frame_empties_its_snapshot(spark, tmp_path):
    """Nothing found is a result as well."""
    root = str(tmp_path)
    tables.replace_snapshot(rows(spark, "a", [1]), LOAD, root, "a")
    tables.replace_snapshot(rows(spark, "a", []), LOAD, root, "a")

    assert content(spark, root) == []


def test_merge_updates_by_key_and_inserts_the_rest(spark, tmp_path):
    """Twice the same: the same rows."""
    root = str(tmp_path)
    for _ in range(2):
        tables.merge(rows(spark, "a", [1, 2]), LOAD, root)
    tables.merge(rows(spark, "a", [2, 3]), LOAD, root)

    assert content(spark, root) == [("a", 1), ("a", 2), ("a", 3)]


def test_a_table_that_is_not_there_is_named(spark, tmp_path):
    """With what to look at."""
    assert not tables.exists(spark, LOAD, str(tmp_path))
    with pytest.raises(InputError, match=r"silver/test_load: no such table; is --root right"):
        tables.read(spark, LOAD, str(tmp_path))


def test_a_literal_survives_quotes_and_backslashes(spark):
    """Snapshot names are the user's."""
    assert spark.sql(f"SELECT {tables.sql_string(HOSTILE)} AS text").collect()[0].text == HOSTILE


def test_a_table_of_an_older_form_is_refused_with_what_to_do(spark, tmp_path):
    """Where an array held other elements: neither read nor written over."""
    root = str(tmp_path)
    tables.replace_snapshot(rows(spark, "a", [1]), LOAD, root, "a")
    pair = pa.struct([required("word", pa.string(), "a word")])
    fields = [*list(LOAD.schema)[:2], optional("words", several(pair), "words")]
    newer = replace(LOAD, schema=pa.schema(fields))
    found = spark.createDataFrame([("a", 2, [("b",)])], spark_schema(newer.schema))

    with pytest.raises(InputError, match=r"older version of the program.*another --root"):
        tables.read(spark, newer, root)
    with pytest.raises(InputError, match=r"older version of the program.*another --root"):
        tables.replace_snapshot(found, newer, root, "a")
