"""Delta tables without Spark: what is asked for is read, what is written takes the place of what was there."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.table import LONG, TEXT, Table, optional, required, several
from slotscope.runtime.delta_files import append_rows, query_rows, read_rows, replace_rows
from slotscope.runtime.errors import InputError

LOAD = Table(
    "silver/test_load",
    "A table for tests.",
    pa.schema(
        [
            required("snapshot_id", TEXT, "snapshot"),
            required("slot", LONG, "slot"),
            optional("words", several(TEXT), "words"),
        ]
    ),
    key=("snapshot_id", "slot"),
    partition_by=("snapshot_id",),
)
HOSTILE = 'it\'s \\ "a" %2F/é; --'


def loads(snapshot, slots):
    return [{"snapshot_id": snapshot, "slot": slot, "words": ["a"]} for slot in slots]


@pytest.fixture
def root(tmp_path):
    """Two snapshots, one with a name that would end a literal of SQL."""
    append_rows(str(tmp_path), LOAD, loads("a", [3, 1, 2]))
    append_rows(str(tmp_path), LOAD, loads(HOSTILE, [7]))
    return str(tmp_path)


def test_the_first_rows_of_an_order_are_read(root):
    rows = read_rows(root, LOAD, columns=("slot",), where="slot < 3", order_by="slot DESC", limit=1, snapshot_id="a")

    assert rows == [{"slot": 2}]


def test_a_name_is_a_value_whatever_it_holds(root):
    """A condition that it could end would read, or replace, the rows of others."""
    assert read_rows(root, LOAD, snapshot_id=HOSTILE) == loads(HOSTILE, [7])

    replace_rows(root, LOAD, loads(HOSTILE, [8, 9]), snapshot_id=HOSTILE)

    assert sorted(row["slot"] for row in read_rows(root, LOAD)) == [1, 2, 3, 8, 9]


def test_a_question_in_sql_names_tables_without_their_layer(root):
    assert query_rows(root, "SELECT MAX(slot) AS most FROM test_load", LOAD) == [{"most": 7}]


def test_a_column_that_was_added_later_is_null_in_older_rows(root):
    """Also before anything was written with it."""
    newer = replace(LOAD, schema=pa.schema([*LOAD.schema, optional("later", LONG, "later")]))

    assert [row["later"] for row in read_rows(root, newer, snapshot_id="a")] == [None] * 3

    append_rows(root, newer, [{**row, "later": 5} for row in loads("b", [4])])

    assert [row["later"] for row in read_rows(root, newer, order_by="slot")] == [None, None, None, 5, None]


def test_a_table_that_is_not_there_is_named(tmp_path):
    """With what to look at."""
    with pytest.raises(InputError, match=r"silver/test_load: no such table; is --root right"):
        read_rows(str(tmp_path), LOAD)


def test_a_table_of_an_older_form_is_refused_with_what_to_do(root):
    """Where a list held other elements: neither read nor written over."""
    pair = pa.struct([required("word", TEXT, "a word")])
    fields = [*list(LOAD.schema)[:2], optional("words", several(pair), "words")]
    newer = replace(LOAD, schema=pa.schema(fields))

    with pytest.raises(InputError, match=r"older version of the program.*another --root"):
        read_rows(root, newer)
    with pytest.raises(InputError, match=r"older version of the program.*another --root"):
        replace_rows(root, newer, [{"snapshot_id": "a", "slot": 2, "words": [{"word": "b"}]}], snapshot_id="a")
