"""``slotscope key-slots --aof``: writes, living keys, savings and losses of append-only logs, as tables and report."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from cluster_core.slots.key_slot import key_slot
from jobs.key_slots import Request, run
from schemas.aof import COMMAND_LOAD, UNCERTAIN_KEYS
from schemas.bronze import BAD_RECORDS
from schemas.gold import BIG_KEYS
from schemas.silver import SLOT_LOAD, SOURCES
from slotscope.pipelines.keys.inputs import check_request
from slotscope.runtime.storage.delta_files import read_rows
from slotscope.sources.slot_weights import read_weights
from tests.builders.aof_logs import log_of, recorded_log, recorded_parts, recorded_truth, walk_log

SERVER, LOG = "valkey-9.1", "aof-plain"


@pytest.fixture(scope="module")
def snapshot(spark, tmp_path_factory):
    """A recorded log, read once: (rows of a table, its report)."""
    folder = tmp_path_factory.mktemp("aof")
    home = recorded_log(SERVER, LOG, folder)
    request = Request(root=str(folder / "root"), aof=[str(home)])
    check_request(request)
    report = run(spark, request, now_ms=2_000_000_000_000)
    return cache(lambda table: read_rows(request.root, table)), report


def written():
    """Commands of the increments: the write load."""
    increments = [data for name, data in recorded_parts(SERVER, LOG).items() if "incr" in name]
    return [row for data in increments for row in walk_log(data).commands]


def test_slots_hold_the_living_keys_and_the_writes_of_the_log(snapshot):
    """``keys`` and ``expires`` are the server's, ``ops`` the keys that commands of the increments name."""
    rows, _ = snapshot
    keys, expires, ops = Counter(), Counter(), Counter()
    for (_, key), (_, _, expiry) in recorded_truth(SERVER, LOG).items():
        keys[key_slot(key)] += 1
        expires[key_slot(key)] += expiry >= 0
    for command in written():
        ops.update(key.slot for key in command.keys)

    loads = {row["slot"]: row for row in rows(SLOT_LOAD)}

    assert len(loads) == 16384
    assert {slot: row["keys"] for slot, row in loads.items() if row["keys"]} == dict(keys)
    assert {slot: row["expires"] for slot, row in loads.items() if row["expires"]} == {
        s: n for s, n in expires.items() if n
    }
    assert {slot: row["ops"] for slot, row in loads.items() if row["ops"]} == dict(ops)
    assert {row["ops"] is None for row in loads.values()} == {False}


def test_commands_are_counted_by_name_and_minute(snapshot):
    rows, _ = snapshot
    counts, sizes = Counter(), Counter()
    for command in written():
        counts[command.name.decode()] += 1
        sizes[command.name.decode()] += command.size

    actual_counts, actual_sizes = Counter(), Counter()
    for row in rows(COMMAND_LOAD):
        actual_counts[row["command"]] += row["commands"]
        actual_sizes[row["command"]] += row["log_bytes"]

    assert (actual_counts, actual_sizes) == (counts, sizes)
    assert {row["known"] for row in rows(COMMAND_LOAD)} == {True}


def test_the_largest_keys_are_those_that_live(snapshot):
    rows, report = snapshot
    truth = recorded_truth(SERVER, LOG)
    for row in rows(BIG_KEYS):
        kind, count, expiry = truth[row["db"], bytes(row["key"])]
        assert (row["type"], row["elements"], row["expire_at_ms"]) == (kind, count, expiry if expiry >= 0 else None)
    (source,) = rows(SOURCES)
    assert (source["kind"], source["keys"]) == ("aof", len(truth))
    (age,) = [warning.text for warning in report.warnings if warning.code == "snapshot_age"]
    assert f"{LOG} dates from 2026-11-21 10:19:43 UTC" in age, "the time of the last write, not of the base"


def small_log(folder, name="appendonly.aof", **changed):
    log = folder / name
    commands = [
        ("SELECT", 0),
        ("SET", "{a}1", "v"),
        ("BF.ADD", "{a}bloom", "v"),
        ("INCR", "n"),
        ("SPOP", "{a}1"),
        ("DEL", "n"),
    ]
    log.write_bytes(log_of(*commands) + changed.get("more", b""))
    return log


def test_unknown_commands_are_counted_and_their_keys_flagged(spark, tmp_path):
    """Never guessed: the key is in no count of keys, and named with the command that made it so."""
    log = small_log(tmp_path)
    report = run(spark, Request(root=str(tmp_path / "root"), aof=[str(log)]))

    rows = {table: read_rows(str(tmp_path / "root"), table) for table in (UNCERTAIN_KEYS, COMMAND_LOAD, SLOT_LOAD)}
    assert [(bytes(row["key"]), row["command"]) for row in rows[UNCERTAIN_KEYS]] == [(b"{a}bloom", "bf.add")]
    assert {row["command"]: row["known"] for row in rows[COMMAND_LOAD]}["bf.add"] is False
    loads = {row["slot"]: (row["keys"], row["ops"]) for row in rows[SLOT_LOAD] if row["ops"]}
    assert loads == {key_slot(b"a"): (1, 2), key_slot(b"n"): (0, 2)}
    assert report.keys == 1
    assert "bf.add (1)" in next(warning.text for warning in report.warnings if warning.code == "uncertain_keys")


def test_a_damaged_middle_stops_strict_mode_and_is_a_bad_record_in_permissive_mode(spark, tmp_path):
    log = small_log(tmp_path, more=b"garbage" + log_of(("SET", "after", "v")))
    place = len(small_log(tmp_path, "twin").read_bytes())

    with pytest.raises(Exception, match=rf"appendonly\.aof: offset {place}: a command begins with"):
        run(spark, Request(root=str(tmp_path / "strict"), aof=[str(log)]))
    report = run(spark, Request(root=str(tmp_path / "root"), aof=[str(log)], mode="permissive"))

    (bad,) = read_rows(str(tmp_path / "root"), BAD_RECORDS)
    assert (bad["source"], bad["offset"]) == (str(log), place)
    assert report.bad_records == 1
    assert report.keys == 1


def test_writes_are_weights_for_the_planner(snapshot):
    """``rebalance-plan`` reads ``ops`` of the snapshot as a load to balance."""
    _, report = snapshot
    (home,) = [source.source for source in report.sources]
    root = Path(home).parent / "root"

    weights = read_weights(str(root), [report.snapshot_id], how="last")

    assert sum(weights.loads["ops"]) == sum(len(command.keys) for command in written())
    assert sum(weights.loads["keys"]) == report.keys
