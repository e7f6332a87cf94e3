"""`slotscope tables forget` and `slotscope tables maintain`: snapshots that go, tables that stay small; without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from jobs.upkeep import ABANDONED_H
from schemas.gold import NODE_LOAD
from schemas.history import VOTES
from schemas.runs import RUNS
from schemas.silver import SLOT_LOAD, SOURCES
from slotscope.pipelines import upkeep
from slotscope.pipelines.upkeep import forget, maintain
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.runtime.storage.runs import Run, begin_together
from tests.benches.program import slotscope
from tests.builders.stored_rows import store

NOW = datetime(2030, 6, 1, tzinfo=UTC)


@pytest.fixture
def root(tmp_path):
    """Snapshots of 10 and of 100 days ago, a replay of an older name of 5 days ago, and one of a killed job."""
    folder = str(tmp_path)
    slots = {SLOT_LOAD: [{"slot": slot, "keys": 1} for slot in (1, 2)]}
    store(folder, "young", slots, data_at=NOW - timedelta(days=10))
    more = {NODE_LOAD: [{"node_id": "n", "slots": 2, "keys": 2}], SOURCES: [{"source": "a.rdb", "kind": "rdb"}]}
    store(folder, "old", {**slots, **more}, data_at=NOW - timedelta(days=100))
    store(folder, "renewed", slots, data_at=NOW - timedelta(days=200))
    store(folder, "renewed", {VOTES: [{"voter": "n"}]}, data_at=NOW - timedelta(days=5))
    killed = Run(folder, "key-slots", "killed", started_at=NOW - timedelta(hours=1))
    begin_together([killed])
    killed.append(SLOT_LOAD, slots[SLOT_LOAD])
    return folder


def names_in(root, table):
    return sorted({row["snapshot_id"] for row in read_rows(root, table)})


def test_a_dry_run_lists_snapshots_and_removes_nothing(root):
    answer = forget(root=root, older_than="90d", now=NOW)

    assert [row[:3] for row in answer.rows] == [("old", "older than 90d", 4)]
    assert names_in(root, SLOT_LOAD) == ["old", "renewed", "young"]


@pytest.mark.long
def test_older_snapshots_are_removed_from_every_table_unless_a_newer_job_wrote_to_them(root):
    """A name that a replay used five days ago is not old, however old its dump is."""
    answer = forget(root=root, older_than="90d", apply=True, now=NOW)

    assert [row[-1] for row in answer.rows] == ["removed"]
    assert names_in(root, SLOT_LOAD) == ["renewed", "young"]
    assert names_in(root, NODE_LOAD) == []
    assert names_in(root, RUNS) == ["killed", "renewed", "young"]
    assert names_in(root, VOTES) == ["renewed"]


@pytest.mark.long
def test_a_removal_that_was_killed_is_completed_by_the_next_one(root, monkeypatch):
    def die(*_):
        raise OSError("killed")

    with monkeypatch.context() as killed:
        killed.setattr(upkeep, "commit_rows", die)
        with pytest.raises(OSError, match="killed"):
            forget(root=root, snapshot=("old",), apply=True, now=NOW)

    forget(root=root, snapshot=("old",), apply=True, now=NOW)

    assert names_in(root, SLOT_LOAD) == ["renewed", "young"]


@pytest.mark.long
def test_a_snapshot_without_a_time_is_removed_only_by_name(root):
    forget(root=root, older_than="1m", apply=True, now=NOW)
    assert names_in(root, RUNS) == ["killed"]

    forget(root=root, snapshot=("killed",), apply=True, now=NOW)
    assert names_in(root, RUNS) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("request_of", "text"),
    [
        ({}, "no snapshot named"),
        ({"snapshot": ("nobody",)}, "no snapshot 'nobody'"),
        ({"older_than": "a while"}, "write a number of days, hours or minutes"),
    ],
)
def test_an_unknown_snapshot_is_refused_in_one_line(root, request_of, text):
    with pytest.raises(InputError, match=text):
        forget(root=root, **request_of, now=NOW)


@pytest.mark.long
def test_maintain_joins_small_files_frees_space_and_names_unfinished_runs(root, capsys):
    before = len(list(Path(root).rglob("part-*.parquet")))
    rows_before = read_rows(root, SLOT_LOAD, order_by="snapshot_id, slot")

    assert slotscope("maintain", "--root", root, "--json") == 0
    rows = {row["table"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["silver/slot_load"]["files_joined"] == 3
    assert (rows["silver/slot_load"]["files_removed"], rows["silver/slot_load"]["note"]) == (
        0, "3 files of recent versions kept",
    )  # fmt: skip
    assert "slotscope tables forget --snapshot killed --apply" in rows["snapshot killed"]["note"]
    assert len(list(Path(root).rglob("part-*.parquet"))) <= before + 2
    assert read_rows(root, SLOT_LOAD, order_by="snapshot_id, slot") == rows_before
    assert len(rows_before) == 6


@pytest.mark.long
def test_maintain_marks_a_killed_run_as_failed_and_removes_its_staged_rows(root):
    """Not before the time: the job may be at work."""
    staged = Path(root) / "_staging"
    run = Run(root, "key-slots", "dead", started_at=NOW - timedelta(hours=1))
    begin_together([run])
    run.for_tasks(SLOT_LOAD).stage(SLOT_LOAD, pa.Table.from_pylist([{"slot": 1, "keys": 1}], SLOT_LOAD.unlabelled))
    early = maintain(root=root, abandoned_hours=2, now=NOW)
    stays = staged.exists()
    late = maintain(root=root, abandoned_hours=2, now=NOW + timedelta(hours=2))

    assert stays
    assert not staged.exists()
    notes = [[row[-1] for row in answer.rows if row[0] == "snapshot dead"] for answer in (early, late)]
    assert [note[0].partition(":")[0] for note in notes] == ["running", "failed"]
    dead = read_rows(root, RUNS, run_id=run.run_id)
    assert {(row["state"], row["reason"]) for row in dead} == {("failed", "killed: it did not end")}


@pytest.mark.long
def test_maintain_sets_how_many_days_of_history_tables_keep(root):
    maintain(root=root, abandoned_hours=ABANDONED_H, log_retention_days=90, now=NOW)
    version = DeltaTable(f"{root}/{SLOT_LOAD.name}").version()
    maintain(root=root, abandoned_hours=ABANDONED_H, log_retention_days=90, now=NOW)

    table = DeltaTable(f"{root}/{SLOT_LOAD.name}")
    assert table.metadata().configuration["delta.logRetentionDuration"] == "interval 90 days"
    assert table.version() == version
