"""`slotscope forget` and `slotscope maintain`: snapshots that go, tables that stay small; without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.main import main
from schemas.gold import NODE_LOAD
from schemas.history import REPLAYS, VOTES
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.pipelines.upkeep import age_of, forget
from slotscope.requests.upkeep import ForgetRequest
from slotscope.runtime.delta_files import append_rows, read_rows
from slotscope.runtime.errors import InputError

NOW = datetime(2030, 6, 1, tzinfo=UTC)


@pytest.fixture
def root(tmp_path):
    """Snapshots of 10 and of 100 days ago, a replay of the older name of 5 days ago, and one that was never finished."""
    folder = str(tmp_path)
    names = ("young", "old", "killed")
    for name in names:
        append_rows(folder, SLOT_LOAD, [{"snapshot_id": name, "slot": slot, "keys": 1} for slot in (1, 2)])
    append_rows(folder, NODE_LOAD, [{"snapshot_id": "old", "node_id": "n", "slots": 2, "keys": 2}])
    heads = [("young", 10), ("old", 100), ("renewed", 200)]
    append_rows(
        folder, SNAPSHOTS,
        [{"snapshot_id": name, "taken_at": NOW - timedelta(days=days), "keys": 2, "bad_records": 0, "warnings": []} for name, days in heads],
    )  # fmt: skip
    append_rows(
        folder, SOURCES, [{"snapshot_id": "old", "source": "a.rdb", "kind": "rdb", "keys": 1, "file_bytes": 10}]
    )
    append_rows(folder, VOTES, [{"snapshot_id": "renewed", "voter": "n"}])
    last = {"last": NOW - timedelta(days=5), "bad_records": 0, "files": [], "warnings": []}
    append_rows(folder, REPLAYS, [{"snapshot_id": "renewed", **last}])
    return folder


def names_in(root, table):
    return sorted({row["snapshot_id"] for row in read_rows(root, table, columns=("snapshot_id",))})


def test_a_dry_run_says_what_would_go_and_removes_nothing(root):
    answer = forget(ForgetRequest(root=root, older_than="90d"), now=NOW)

    assert [row[:3] for row in answer.rows] == [("old", "older than 90d", 5)]
    assert names_in(root, SLOT_LOAD) == ["killed", "old", "young"]


def test_what_is_older_goes_from_every_table_and_what_any_newer_job_wrote_to_stays(root):
    """A name that a replay used five days ago is not old, however old its dump is."""
    answer = forget(ForgetRequest(root=root, older_than="90d", apply=True), now=NOW)

    assert [row[-1] for row in answer.rows] == ["removed"]
    assert names_in(root, SLOT_LOAD) == ["killed", "young"]
    assert names_in(root, NODE_LOAD) == []
    assert names_in(root, SNAPSHOTS) == ["renewed", "young"]
    assert names_in(root, VOTES) == ["renewed"]


def test_a_snapshot_of_which_no_time_is_known_goes_by_its_name_only(root):
    forget(ForgetRequest(root=root, older_than="1m", apply=True), now=NOW)
    assert names_in(root, SLOT_LOAD) == ["killed"]

    forget(ForgetRequest(root=root, snapshot=("killed",), apply=True), now=NOW)
    assert names_in(root, SLOT_LOAD) == []


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        ({}, "say which snapshots"),
        ({"snapshot": ("nobody",)}, "no snapshot 'nobody'"),
        ({"older_than": "a while"}, "write a number of days, hours or minutes"),
    ],
)
def test_what_names_no_snapshot_is_refused_in_one_line(root, request_of, words):
    with pytest.raises(InputError, match=words):
        forget(ForgetRequest(root=root, **request_of), now=NOW)


def test_ages_are_days_hours_and_minutes():
    assert (age_of("90d"), age_of("12h"), age_of("30 m")) == (
        timedelta(days=90), timedelta(hours=12), timedelta(minutes=30),
    )  # fmt: skip


def test_maintain_joins_small_files_frees_space_and_names_what_was_never_finished(root, capsys):
    for slot in range(3, 9):
        append_rows(root, SLOT_LOAD, [{"snapshot_id": "young", "slot": slot, "keys": 1}])
    before = len(list(Path(root).rglob("part-*.parquet")))

    with pytest.raises(SystemExit) as ended:
        main(["maintain", "--root", root, "--json"])

    assert ended.value.code == 0
    rows = {row["table"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["silver/slot_load"]["files_joined"] == 7
    assert "slotscope forget --snapshot killed --apply" in rows["snapshot killed"]["note"]
    assert len(list(Path(root).rglob("part-*.parquet"))) == before + 1
    assert len(read_rows(root, SLOT_LOAD)) == 12
