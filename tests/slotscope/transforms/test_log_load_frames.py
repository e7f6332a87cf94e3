"""Partial sums of append-only logs to their tables: small frames in, small frames out."""

from __future__ import annotations

from datetime import datetime

from schemas.interim import LOG_COMMAND, LOG_DOUBT, LOG_KEY, LOG_SLOT, UNIT
from slotscope.transforms import snapshot_tables
from tests.builders.partial_rows import assert_rows, partial

A = "a" * 40
HOUR_S = 1_700_000_000 // 3600 * 3600
HOUR = datetime.fromtimestamp(HOUR_S)
LOG = {"source": "a.aof", "node_id": A}


def log_unit(**facts):
    """A part of a log, with what it may have missed."""
    return {"kind": UNIT, "text": "aof", "facts": facts, **LOG}


def test_writes_add_up_by_slot_node_and_hour(spark):
    rows = partial(
        spark, {"kind": LOG_SLOT, "slot": 1, "ops": 2, "serialized_bytes": 20, "offset": HOUR_S, **LOG},
        {"kind": LOG_SLOT, "slot": 1, "ops": 3, "serialized_bytes": 30, "offset": HOUR_S, "part": 1, **LOG},
        {"kind": LOG_SLOT, "slot": 1, "ops": 1, "serialized_bytes": 9, **LOG},
    )  # fmt: skip

    found = snapshot_tables.write_load(rows)

    columns = "slot int, node_id string, hour timestamp, ops bigint, log_bytes bigint"
    assert_rows(found, columns, (1, A, HOUR, 5, 50), (1, A, None, 1, 9))
    assert_rows(snapshot_tables.write_load(partial(spark)), columns)


def test_commands_are_known_when_any_log_shows_that_servers_have_them(spark):
    rows = partial(
        spark, {"kind": LOG_COMMAND, "text": "set", "ops": 2, "serialized_bytes": 20, "number": 1, **LOG},
        {"kind": LOG_COMMAND, "text": "bf.add", "ops": 1, "serialized_bytes": 5, "number": 0, **LOG},
        {"kind": LOG_COMMAND, "text": "set", "ops": 1, "serialized_bytes": 10, "number": 1, "part": 1, **LOG},
    )  # fmt: skip

    found = snapshot_tables.command_load(rows)

    columns = "node_id string, command string, minute timestamp, commands bigint, log_bytes bigint, known boolean"
    assert_rows(found, columns, (A, "set", None, 3, 30, True), (A, "bf.add", None, 1, 5, False))


def key(name, ops, size, **more):
    return {
        "kind": LOG_KEY,
        "name": name,
        "ops": ops,
        "serialized_bytes": size,
        "keys_error": 0,
        "bytes_error": 0,
        **LOG,
        **more,
    }


KEYS = "key binary, ops bigint, log_bytes bigint, ops_error bigint, bytes_error bigint, rank_ops int, rank_bytes int"


def test_keys_written_most_are_ranked_by_writes_and_by_bytes_with_what_parts_may_have_missed(spark):
    """The second part does not list k and may have missed 2 writes of it; ties go by name, hostile names stay bytes."""
    rows = partial(
        spark, log_unit(missed_log_keys=0, missed_log_bytes=0), {**log_unit(missed_log_keys=2, missed_log_bytes=7), "part": 1},
        key(b"k", 9, 9), key(b"\xff", 1, 99), key(b"\xff", 1, 1, part=1), key(b"\x00", 2, 2, part=1),
    )  # fmt: skip

    found = snapshot_tables.write_keys(rows, count=2)

    assert_rows(found, KEYS, (b"k", 9, 9, 2, 7, 1, 2), (b"\xff", 2, 100, 0, 0, 2, 1))


def test_a_log_without_keys_has_none_written_most(spark):
    assert_rows(snapshot_tables.write_keys(partial(spark), count=2), KEYS)


def test_keys_in_doubt_are_named_with_the_command_that_made_them_so(spark):
    rows = partial(
        spark, {"kind": LOG_DOUBT, "name": b"\x1b", "name_text": "\\x1b", "slot": 3, "db": 0, "text": "bf.add", **LOG}
    )

    found = snapshot_tables.uncertain_keys(rows)

    columns = "source string, db int, key binary, key_text string, slot int, command string"
    assert_rows(found, columns, ("a.aof", 0, b"\x1b", "\\x1b", 3, "bf.add"))
