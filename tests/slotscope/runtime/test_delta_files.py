"""Delta tables without Spark: conditions, columns and limits of a read; rows that a commit replaces."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.runs import FORMAT, RUNS
from schemas.table import LONG, TEXT, Table, optional, required, several, snapshot_table
from slotscope.runtime.errors import InputError, PlaceError
from slotscope.runtime.storage.delta_files import (
    append_rows,
    as_table,
    commit_rows,
    query_rows,
    read_rows,
)
from tests.builders.stored_rows import replace_rows, store_rows

LOAD = snapshot_table(
    "silver/test_load",
    "A table for tests.",
    [required("slot", LONG, "slot"), optional("words", several(TEXT), "words")],
    key=("slot",),
)
PLAIN = Table(
    "silver/plain", "A table without runs.", pa.schema([required("name", TEXT, "name"), optional("slot", LONG, "slot")]),
    key=("name",), of_runs=False,
)  # fmt: skip
HOSTILE = 'it\'s \\ "a" %2F/é; --'


def loads(snapshot, slots):
    return [{"snapshot_id": snapshot, "slot": slot, "words": ["a"]} for slot in slots]


@pytest.fixture
def root(tmp_path):
    """Two snapshots, one with a name that would end a literal of SQL."""
    store_rows(str(tmp_path), LOAD, [*loads("a", [3, 1, 2]), *loads(HOSTILE, [7])])
    return str(tmp_path)


def test_the_first_rows_of_an_order_are_read(root):
    rows = read_rows(root, LOAD, columns=("slot",), where="slot < 3", order_by="slot DESC", limit=1, snapshot_id="a")

    assert rows == [{"slot": 2}]


def test_any_name_is_only_a_value(root):
    """A condition that it could end would read, or replace, the rows of others."""
    columns = ("snapshot_id", "slot", "words")
    assert read_rows(root, LOAD, columns=columns, snapshot_id=HOSTILE) == loads(HOSTILE, [7])

    store_rows(root, LOAD, loads(HOSTILE, [8, 9]))

    assert sorted(row["slot"] for row in read_rows(root, LOAD)) == [1, 2, 3, 8, 9]


def test_rows_without_runs_are_replaced_in_one_commit(tmp_path):
    append_rows(str(tmp_path), PLAIN, [{"name": HOSTILE, "slot": 1}, {"name": "b", "slot": 2}])
    replace_rows(str(tmp_path), PLAIN, [{"name": HOSTILE, "slot": 3}], name=HOSTILE)

    assert sorted(row["slot"] for row in read_rows(str(tmp_path), PLAIN)) == [2, 3]


def test_a_question_in_sql_names_tables_without_their_layer(root):
    """Also one with parts of its own."""
    assert query_rows(root, "SELECT MAX(slot) AS most FROM test_load", LOAD) == [{"most": 7}]
    assert query_rows(root, "WITH x AS (SELECT slot FROM test_load) SELECT MIN(slot) AS s FROM x", LOAD) == [{"s": 1}]


def test_a_column_that_was_added_later_is_null_in_older_rows(root):
    """Also before anything was written with it; the comment of another column may change."""
    fields = (optional("words", several(TEXT), "letters") if field.name == "words" else field for field in LOAD.schema)
    newer = replace(LOAD, schema=pa.schema([*fields, optional("later", LONG, "later")]))

    assert [row["later"] for row in read_rows(root, newer, snapshot_id="a")] == [None] * 3

    store_rows(root, newer, [{**row, "later": 5} for row in loads("b", [4])])

    assert [row["later"] for row in read_rows(root, newer, order_by="slot")] == [None, None, None, 5, None]


def test_a_missing_table_is_named(tmp_path):
    """With what to look at."""
    with pytest.raises(InputError, match=r"silver/test_load: no such table; is --root right"):
        read_rows(str(tmp_path), LOAD)


def test_a_table_without_rows_is_empty_once_the_root_has_tables(root):
    other = replace(LOAD, name="gold/other")

    assert read_rows(root, other) == []
    assert query_rows(root, "SELECT count(*) AS n, sum(slot) AS s FROM other", other) == [{"n": 0, "s": None}]


def test_rows_outside_the_condition_are_refused(root):
    """They would be added again each time."""
    with pytest.raises(InputError, match="cannot be written"):
        commit_rows(root, LOAD, as_table(LOAD, loads("b", [1])), "snapshot_id = 'a'")

    assert len(read_rows(root, LOAD)) == 4


def test_a_root_of_a_newer_format_is_refused(tmp_path):
    run = {"snapshot_id": "a", "run_id": "x", "job": "key-slots", "state": "complete", "format": FORMAT}
    append_rows(str(tmp_path / "same"), RUNS, [run])
    append_rows(str(tmp_path / "newer"), RUNS, [run, run | {"format": FORMAT + 1}])

    assert read_rows(str(tmp_path / "same"), LOAD) == []
    with pytest.raises(InputError, match="newer: tables of a newer version; upgrade slotscope"):
        read_rows(str(tmp_path / "newer"), LOAD)


def test_a_root_of_an_older_form_is_refused_with_the_command_that_upgrades_it(tmp_path):
    old = replace(RUNS, schema=pa.schema([field for field in RUNS.schema if field.name != "format"]))
    append_rows(str(tmp_path), old, [{"snapshot_id": "a", "run_id": "x", "job": "key-slots", "state": "complete"}])

    with pytest.raises(InputError, match=r"tables of an older version; run: slotscope tables migrate --root"):
        read_rows(str(tmp_path), LOAD)
    with pytest.raises(InputError, match=r"tables of an older version; run: slotscope tables migrate --root"):
        store_rows(str(tmp_path), LOAD, loads("a", [1]))


def test_unreadable_runs_of_a_root_are_one_line(tmp_path):
    log = tmp_path / "silver" / "runs" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")

    with pytest.raises(PlaceError, match=r"silver/runs: cannot be read: "):
        store_rows(str(tmp_path), LOAD, loads("a", [1]))
