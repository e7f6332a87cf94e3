"""Files that say what slots do, read by tasks and combined over windows."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pyarrow as pa
import pytest

from cluster_core.errors import DecodeError
from cluster_core.slots.key_slot import key_slot
from slotscope.pipelines.slot_activity import read_activity
from slotscope.runtime.errors import InputError
from slotscope.sources import slot_files as slot_activity
from slotscope.sources.slot_files import ActivityOptions, plan_units, read_samples

T = 1_795_254_720
"""A whole minute, in seconds since the epoch."""
MINUTE = ActivityOptions(60 * 10**9)


def poll(second, node, stats):
    entries = [[slot, dict(zip(("key-count", "cpu-usec"), values, strict=True))] for slot, values in stats.items()]
    return json.dumps({"time": T + second, "node": node, "slot_stats": entries}) + "\n"


def read(spark, options=MINUTE, how="mean", **files):
    kinds = [[str(path) for path in files.get(kind, ())] for kind in ("slot_stats", "monitor", "counts")]
    return read_activity(spark, plan_units(*kinds), options, how=how)


def test_counters_of_several_files_become_rates_per_slot_and_owner(spark, tmp_path):
    """A slot that moved between polls starts at 0 on its new owner: that window is left out."""
    (tmp_path / "a.jsonl").write_text(
        poll(0, "h:1", {5: (1, 100), 6: (2, 50)}) + poll(10, "h:1", {5: (3, 400), 6: (2, 90)})
    )
    (tmp_path / "b.jsonl").write_text(
        poll(20, "h:2", {6: (7, 30)}) + poll(30, "h:2", {6: (7, 230)}) + poll(30, "r:1", {5: (9, 9)})
    )

    found = read(spark, ActivityOptions(1, left_out=frozenset(("r:1",))), slot_stats=[tmp_path / "*.jsonl"])

    figures = {(figure.metric, figure.slot): figure for figure in found.figures}
    assert figures["cpu_usec", 5][2:] == (30.0, 1, 0)
    assert figures["cpu_usec", 6][2:] == ((4.0 + 20.0) / 2, 2, 1)
    assert figures["keys", 5][2:] == (2.0, 2, 0)
    assert figures["keys", 6][2:] == ((2 + 2 + 7 + 7) / 4, 4, 0)
    assert found.loads("keys")[5:8] == [2.0, 4.5, 0.0]


def test_a_single_poll_has_no_rates(spark, tmp_path):
    """Saying nothing would plan with no operations at all."""
    (tmp_path / "a.jsonl").write_text(poll(0, "h:1", {5: (1, 100)}))

    with pytest.raises(InputError, match="two or more"):
        read(spark, slot_stats=[tmp_path / "a.jsonl"])


def monitor(*entries):
    return "OK\n" + "".join(f"{T + second}.000000 [0 h:1] {words}\n" for second, words in entries)


def test_commands_of_a_monitor_log_count_for_the_slots_of_their_keys(spark, tmp_path):
    """Once a command and slot; commands without keys count for none, windows without a command for a slot are 0 for it."""
    a, b = key_slot(b"a"), key_slot(b"b")
    log = monitor(
        (0, '"GET" "b"'),
        (60, '"MSET" "a" "1" "{a}2" "1"'), (61, '"get" "a"'), (62, '"PING"'), (63, '"NOSUCH" "a"'),
        (120, '"EVAL" "return 1" "2" "a" "{a}3"'), (130, '"BITOP" "AND" "b" "b"'),
        (180, '"GET" "b"'),
    )  # fmt: skip
    (tmp_path / "m.log.gz").write_bytes(gzip.compress(log.encode()))

    found = read(spark, monitor=[tmp_path / "m.log.gz"])

    assert {f.slot: (f.value, f.windows) for f in found.figures} == {a: (3 / 60 / 2, 2), b: (1 / 60 / 2, 2)}


def test_a_large_monitor_log_is_cut_between_lines(tmp_path, monkeypatch):
    """Every line counts once, wherever the cuts fall."""
    lines = [(number % 60, f'"SET" "key{number}" "{"x" * (number % 90)}"') for number in range(500)]
    (tmp_path / "m.log").write_text(monitor(*lines))

    def counts(part):
        monkeypatch.setattr(slot_activity, "_PART_BYTES", part)
        units = plan_units([], [str(tmp_path / "m.log")], [])
        numbers = pa.record_batch([pa.array(range(len(units)))], ["id"])
        told: Counter[int] = Counter()
        for batch in read_samples(iter([numbers]), units, MINUTE):
            for row in batch.to_pylist():
                told[row["slot"]] += row["value"]
        return len(units), told

    _, whole = counts(1 << 30)
    assert sum(whole.values()) == 500
    for part in (97, 333, 1000, 5003):
        units, told = counts(part)
        assert units > 5
        assert told == whole


def test_counts_are_what_holds(spark, tmp_path):
    """Files without times follow each other by name."""
    (tmp_path / "1").write_text("5 10\n6,3\n")
    (tmp_path / "2").write_text("5 20\n")

    assert read(spark, how="last", counts=[tmp_path / "1", tmp_path / "2"]).loads("keys")[5:7] == [20.0, 3.0]


@pytest.mark.parametrize(
    ("kind", "text", "offset"),
    [("slot_stats", '{"time": 1}\n{"time": 2,\n', 2), ("monitor", "OK\nrubbish\n", 3), ("counts", "5 10\n5 ten\n", 2)],
)
def test_bad_lines_stop_or_are_listed(spark, tmp_path, kind, text, offset):
    """With file, place and reason."""
    (tmp_path / "f").write_text(text)

    with pytest.raises(Exception, match=f"f: offset {offset}: "):
        read(spark, **{kind: [tmp_path / "f"]})
    found = read(spark, ActivityOptions(10**9, permissive=True), **{kind: [tmp_path / "f"]})
    assert [(record.source, record.offset) for record in found.bad] == [(str(tmp_path / "f"), offset)]


def test_a_file_that_is_not_there_is_named():
    """Before Spark starts."""
    with pytest.raises(DecodeError, match="/no/such"):
        plan_units([], ["/no/such"], [])
