"""`slotscope snapshots`: what a root holds, without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from jobs.main import main
from schemas.gold import NODE_LOAD
from schemas.history import REPLAYS, VOTES
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.runtime.delta_files import append_rows


def taken(day: int) -> datetime:
    return datetime(2030, 1, day, tzinfo=UTC)


@pytest.fixture
def root(tmp_path):
    """A finished and a partial snapshot, one whose job was killed before its last row, and a finished replay."""
    folder = str(tmp_path)
    slots = [("old", 1), ("old", 2), ("new", 1), ("killed", 1)]
    append_rows(folder, SLOT_LOAD, [{"snapshot_id": name, "slot": slot, "keys": 1} for name, slot in slots])
    append_rows(folder, NODE_LOAD, [{"snapshot_id": "old", "node_id": "n", "slots": 2, "keys": 2}])
    heads = [("new", 2, 1), ("old", 1, 0)]
    append_rows(
        folder, SNAPSHOTS,
        [{"snapshot_id": name, "taken_at": taken(day), "keys": 2, "bad_records": bad, "warnings": []} for name, day, bad in heads],
    )  # fmt: skip
    files = [("old", "a.rdb"), ("old", "b.rdb"), ("new", "a.rdb")]
    append_rows(
        folder, SOURCES,
        [{"snapshot_id": name, "source": path, "kind": "rdb", "keys": 1, "file_bytes": 10, "facts": []} for name, path in files],
    )  # fmt: skip
    append_rows(folder, VOTES, [{"snapshot_id": "old", "voter": "n"}])
    append_rows(
        folder, REPLAYS,
        [{"snapshot_id": "old", "last": taken(3), "bad_records": 0, "files": [("bus.pcap", 7)], "warnings": []}],
    )  # fmt: skip
    return folder


def listed(root, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["snapshots", "--root", root, "--json"])
    assert ended.value.code == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_snapshots_are_listed_with_their_job_inputs_and_state(root, capsys):
    """The youngest last; one that was never finished has no time and goes first."""
    rows = listed(root, capsys)

    assert [tuple(row[name] for name in ("snapshot", "job", "rows", "inputs", "input_bytes", "state")) for row in rows] == [
        ("killed", "key-slots", 1, None, None, "not finished"),
        ("old", "key-slots", 6, 2, 20, "finished"),
        ("new", "key-slots", 3, 1, 10, "partial"),
        ("old", "bus-replay", 1, 1, 7, "finished"),
    ]  # fmt: skip
    assert [row["at"] for row in rows] == [
        None,
        *(f"2030-01-0{day}T00:00:00+00:00" for day in (1, 2, 3)),
    ]


def test_a_root_without_snapshots_is_said(tmp_path, capsys):
    """A mistyped folder is no empty one."""
    with pytest.raises(SystemExit) as ended:
        main(["snapshots", "--root", str(tmp_path)])

    assert ended.value.code == 2
    assert "no snapshot; is --root right" in capsys.readouterr().err
