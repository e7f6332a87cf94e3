"""`slotscope tables snapshots`: the snapshots of a root, without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from schemas.history import VOTES
from schemas.silver import SLOT_LOAD
from slotscope.runtime.storage.runs import Run, begin_together
from tests.benches.program import slotscope
from tests.builders.stored_rows import store


def taken(day: int) -> datetime:
    return datetime(2030, 1, day, tzinfo=UTC)


@pytest.fixture
def root(tmp_path):
    """A finished and a partial snapshot, a failed one, a running one, and a finished replay."""
    folder = str(tmp_path)
    inputs = {"a.rdb": 10, "b.rdb": 10}
    store(folder, "new", {SLOT_LOAD: [{"slot": 1, "keys": 1}]}, inputs={"a.rdb": 10}, data_at=taken(2), partial=True)
    slots = [{"slot": slot, "keys": 1} for slot in (1, 2)]
    store(folder, "old", {SLOT_LOAD: slots}, cluster="prod", inputs=inputs, data_at=taken(1), partial=False)
    store(folder, "old", {VOTES: [{"voter": "n"}]}, inputs={"bus.pcap": 7}, data_at=taken(3))
    failed = Run(folder, "key-slots", "failed")
    begin_together([failed])
    failed.append(SLOT_LOAD, slots)
    failed.abandon("no more")
    begin_together([Run(folder, "key-slots", "killed")])
    return folder


def listed(root, capsys):
    assert slotscope("snapshots", "--root", root, "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.long
def test_snapshots_are_listed_with_their_job_inputs_and_state(root, capsys):
    """The youngest last; one that was never finished has no time and goes first."""
    rows = listed(root, capsys)

    names = ("snapshot", "cluster", "job", "rows", "inputs", "input_bytes", "state")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("failed", None, "key-slots", 2, None, None, "failed"),
        ("killed", None, "key-slots", 0, None, None, "running"),
        ("old", "prod", "key-slots", 2, 2, 20, "finished"),
        ("new", None, "key-slots", 1, 1, 10, "partial"),
        ("old", None, "history", 1, 1, 7, "finished"),
    ]
    assert [row["at"] for row in rows] == [
        None,
        None,
        *(f"2030-01-0{day}T00:00:00+00:00" for day in (1, 2, 3)),
    ]


def test_an_empty_list_of_snapshots_is_reported(tmp_path, capsys):
    """A mistyped folder is no empty one."""
    assert slotscope("snapshots", "--root", tmp_path) == 2
    assert "no snapshot; is --root right" in capsys.readouterr().err
