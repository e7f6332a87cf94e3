"""Views over the tables, with the columns that they declare."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from deltalake import DeltaTable

import slotscope
from schemas.catalogue import TABLES
from schemas.gold import KEY_PREFIXES, NODE_LOAD
from schemas.rebalance import PLAN_AUDITS
from schemas.silver import SNAPSHOTS
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import append_rows
from slotscope.sql.duck import ask
from slotscope.sql.views import READ, VIEWS, View, column_comments, tables_named
from tests.builders.stored_rows import store, store_rows


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_rows_in_its_columns(asked_root: str, view: View) -> None:
    answer = ask(slotscope.connect(asked_root), f"SELECT * FROM {view.name}")

    assert answer.columns == tuple(view.columns)
    assert answer.rows


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_and_its_columns_have_descriptions(view: View) -> None:
    """Its uses are the tables and views named in its query, and come before it."""
    before = [other.name for other in VIEWS[: VIEWS.index(view)]]
    names = {*(table.sql_name for table in TABLES), *(other.name for other in VIEWS)}

    assert set(view.uses) == names & set(READ.findall(view.query.lower()))
    assert set(view.uses) <= {*(table.sql_name for table in TABLES), *before}
    assert [name for name, comment in column_comments(view).items() if not comment] == []
    assert view.about.endswith(".")


def test_an_unwritten_table_is_empty_and_named(asked_root: str) -> None:
    connection = slotscope.connect(asked_root)

    assert connection.execute("SELECT count(*) FROM sentinel_votes").fetchall() == [(0,)]
    assert [table.name for table in tables_named("select * from plan_promises")] == [
        "gold/rebalance_plans", "gold/rebalance_load", "gold/plan_audits",
    ]  # fmt: skip


def test_a_folder_without_tables_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="no tables; is --root right"):
        slotscope.connect(str(tmp_path))


def test_an_invalid_query_is_one_line(tmp_path) -> None:
    append_rows(str(tmp_path), PLAN_AUDITS, [])

    with pytest.raises(InputError, match="node_lode does not exist") as caught:
        ask(slotscope.connect(str(tmp_path)), "SELECT *\nFROM node_lode")

    assert "\n" not in str(caught.value)


def test_a_column_that_was_added_later_is_null_in_older_tables(tmp_path) -> None:
    from deltalake import write_deltalake

    store_rows(str(tmp_path), SNAPSHOTS, [{"snapshot_id": "old", "keys": 1, "bad_records": 0, "warnings": []}])
    path = f"{tmp_path}/{SNAPSHOTS.name}"
    rows = DeltaTable(path).to_pyarrow_table().drop_columns(["written_at"])
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")

    assert "written_at" not in [field.name for field in DeltaTable(path).schema().fields]
    query = "SELECT snapshot_id, written_at, is_newest FROM snapshot_order"
    assert ask(slotscope.connect(str(tmp_path)), query).rows == [("old", None, True)]


@pytest.mark.long
def test_the_newest_snapshot_is_the_one_with_the_latest_dumps_and_of_these_the_last_written(tmp_path) -> None:
    def snapshot(name: str, taken: int | None, written: int | None) -> dict[str, Any]:
        times = {"taken_at": taken, "written_at": written}
        expected = {key: None if day is None else datetime(2026, 11, day) for key, day in times.items()}
        return {"snapshot_id": name, "keys": 1, "bad_records": 0, "warnings": [], **expected}

    several = [("c", 2, 3), ("a", 2, 4), ("z", None, 9), ("y", 1, None), ("b", 1, 8)]
    for arguments in several:
        load = {"node_id": "m", "slots": 1, "keys": 1, "keys_share": 1.0, "keys_over_mean": 1.0}
        store(str(tmp_path), arguments[0], {SNAPSHOTS: [snapshot(*arguments)], NODE_LOAD: [load]})

    connection = slotscope.connect(str(tmp_path))
    ordered = ask(connection, "SELECT snapshot_id FROM snapshot_order ORDER BY place").rows
    assert "".join(row[0] for row in ordered) == "zybca"
    assert ask(connection, "SELECT snapshot_id FROM node_load_now").rows == [("a",)]


def test_runs_of_slots_add_up_to_the_moves(asked_root: str) -> None:
    query = "SELECT {} FROM {}"
    connection = slotscope.connect(asked_root)
    moves = ask(connection, query.format("count(*), sum(keys), sum(bytes)", "rebalance_moves")).rows
    runs = ask(connection, query.format("sum(slots), sum(keys), sum(bytes)", "plan_moves")).rows

    assert moves == runs
    assert ask(connection, "SELECT count(*) FROM plan_moves WHERE last_slot - first_slot + 1 <> slots").rows == [(0,)]
    ends = "SELECT count(*) FROM plan_moves AS a JOIN plan_moves AS b ON a.batch = b.batch AND a.source = b.source AND a.target = b.target"
    assert ask(connection, f"{ends} AND a.last_slot + 1 = b.first_slot").rows == [(0,)]


@pytest.mark.long
def test_each_cluster_has_a_newest_snapshot_of_its_own(tmp_path) -> None:
    """Of two clusters in one root: loads of both, growth of neither against the other."""
    for name, cluster, day in (("e1", "east", 1), ("w1", "west", 2), ("e2", "east", 3)):
        head = {"keys": 1, "bad_records": 0, "warnings": [], "taken_at": datetime(2026, 11, day)}
        load = {"node_id": cluster, "slots": 1, "keys": 1, "memory_bytes": 7, "keys_share": 1.0, "keys_over_mean": 1.0}
        prefix = {"prefix": b"a:", "prefix_text": "a:", "depth": 1, "keys": day}
        store(str(tmp_path), name, {SNAPSHOTS: [head], NODE_LOAD: [load], KEY_PREFIXES: [prefix]}, cluster=cluster)

    connection = slotscope.connect(str(tmp_path))
    newest = ask(connection, "SELECT snapshot_id, memory_over_mean FROM node_load_now ORDER BY snapshot_id").rows
    assert newest == [("e2", 1.0), ("w1", 1.0)]
    growth = ask(connection, "SELECT snapshot_before, snapshot_after, keys_grown FROM prefix_growth").rows
    assert growth == [("e1", "e2", 2)]
