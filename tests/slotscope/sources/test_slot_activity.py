"""Files that say what slots do, combined over windows."""

from __future__ import annotations

import gzip
import json

import pytest

from cluster_core.errors import DecodeError
from cluster_core.slots.key_slot import key_slot
from slotscope.runtime.errors import InputError
from slotscope.sources.slot_activity import read_activity

T = 1_795_254_720
"""Seconds since the epoch."""


def poll(second, node, stats):
    entries = [[slot, dict(zip(("key-count", "cpu-usec"), values, strict=True))] for slot, values in stats.items()]
    return json.dumps({"time": T + second, "node": node, "slot_stats": entries}) + "\n"


def test_counters_of_several_files_become_rates_per_slot_and_owner(tmp_path):
    """A slot that moved between polls starts at 0 on its new owner: that window is left out."""
    (tmp_path / "a.jsonl").write_text(
        poll(0, "h:1", {5: (1, 100), 6: (2, 50)}) + poll(10, "h:1", {5: (3, 400), 6: (2, 90)})
    )
    (tmp_path / "b.jsonl").write_text(
        poll(20, "h:2", {6: (7, 30)}) + poll(30, "h:2", {6: (7, 230)}) + poll(30, "r:1", {5: (9, 9)})
    )

    actual = read_activity([str(tmp_path / "*.jsonl")], how="mean", left_out={"r:1"})

    figures = {(figure.metric, figure.slot): figure for figure in actual.figures}
    assert figures["cpu_usec", 5][2:] == (30.0, 1, 0)
    assert figures["cpu_usec", 6][2:] == ((4.0 + 20.0) / 2, 2, 1)
    assert figures["keys", 5][2:] == (2.0, 2, 0)
    assert figures["keys", 6][2:] == ((2 + 2 + 7 + 7) / 4, 4, 0)
    assert actual.loads("keys")[5:8] == [2.0, 4.5, 0.0]


def test_a_single_poll_has_no_rates(tmp_path):
    """Saying nothing would plan with no operations at all."""
    (tmp_path / "a.jsonl").write_text(poll(0, "h:1", {5: (1, 100)}))

    with pytest.raises(InputError, match="two or more"):
        read_activity([str(tmp_path / "a.jsonl")], how="last")


def test_a_file_may_be_one_reply(tmp_path):
    (tmp_path / "reply.txt").write_text(json.dumps([[5, {"key-count": 7}], [6, {"key-count": 0}]]))

    assert read_activity([str(tmp_path / "reply.txt")], how="last").loads("keys")[5:7] == [7.0, 0.0]


def test_commands_of_a_monitor_log_count_for_the_slots_of_their_keys(tmp_path):
    """Once a command and slot; windows without a command for a slot are 0 for it, the cut ones at the ends are left out."""
    a, b = key_slot(b"a"), key_slot(b"b")
    commands = (
        (0, '"GET" "b"'),
        (60, '"MSET" "a" "1" "{a}2" "1"'), (61, '"get" "a"'), (62, '"PING"'), (63, '"NOSUCH" "a"'),
        (120, '"EVAL" "return 1" "2" "a" "{a}3"'), (130, '"BITOP" "AND" "b" "b"'),
        (180, '"GET" "b"'),
    )  # fmt: skip
    log = "OK\n" + "".join(f"{T + second}.000000 [0 h:1] {command}\n" for second, command in commands)
    (tmp_path / "m.log.gz").write_bytes(gzip.compress(log.encode()))

    actual = read_activity([], [str(tmp_path / "m.log.gz")], how="mean")

    assert {f.slot: (f.value, f.windows) for f in actual.figures} == {a: (3 / 60 / 2, 2), b: (1 / 60 / 2, 2)}


@pytest.mark.parametrize(
    ("kind", "text", "offset"),
    [("slot_stats", '{"time": 1}\n{"time": 2,\n', 2), ("monitor", "OK\nrubbish\n", 2)],
)
def test_bad_lines_stop_or_are_listed(tmp_path, kind, text, offset):
    (tmp_path / "f").write_text(text)
    given = {"slot_stats": [], kind: [str(tmp_path / "f")]}

    with pytest.raises(DecodeError, match=f"f: offset {offset}: "):
        read_activity(**given, how="last")
    actual = read_activity(**given, how="last", permissive=True)
    assert [(record.source, record.offset) for record in actual.bad] == [(str(tmp_path / "f"), offset)]


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(DecodeError, match="/no/such"):
        read_activity(["/no/such"], how="last")
