"""A plan that is to be carried out, as text and as JSON."""

from __future__ import annotations

from cluster_core.rebalance.execution.commands import Path
from cluster_core.rebalance.execution.journal import read_journal
from cluster_core.rebalance.execution.machine import Prospect, foresee
from cluster_core.slots.key_slot import SLOT_COUNT
from slotscope.reports.rebalance.execution_text import (
    SHOWN_LINES_MAX,
    command_lines,
    prospect_lines,
    write_commands,
)
from slotscope.reports.rebalance.execution_text import told as told_of
from slotscope.reports.records import json_value
from tests.builders.cluster_sights import SeenCluster, stored_plan


def made(moves, product: str = "valkey 9.1"):
    """A plan for three masters, and what would be done."""
    cluster = SeenCluster(["abc"[s * 3 // SLOT_COUNT] for s in range(SLOT_COUNT)], "abc", product=product)
    stored = stored_plan(cluster, moves)
    return stored, foresee(stored, cluster.look("abc"), read_journal([]), None)


MOVES = [(1, "a", "b"), (2, "a", "b"), (7, "a", "b")]


def test_one_line_a_job_and_the_commands_below():
    """Checks first, then the table, the commands, how to stop it, how long it takes."""
    stored, prospect = made(MOVES)

    lines = prospect_lines(stored, prospect, [("no slot is open", []), ("the cluster is ok", ["b is not"])])

    assert "  ok  no slot is open" in lines
    assert "  no  the cluster is ok" in lines
    assert "       b is not" in lines
    assert (
        "    1  a:1 (a)                           b:1 (b)                                3       2               30     0.2 s"
        in lines
    )
    assert "a:1> CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 7 7 NODE b" in lines
    assert "a:1> CLUSTER CANCELSLOTMIGRATIONS" in lines
    assert lines[-1] == "about 0.2 s in all"


def test_long_lists_are_cut_on_a_terminal_and_whole_in_a_file():
    """Six lines a slot, key by key."""
    stored, prospect = made([(slot, "a", "b") for slot in range(100)], "redis 7.0")

    lines = prospect_lines(stored, prospect, [])
    whole = "".join(write_commands(stored, prospect))

    assert sum("SETSLOT" in line for line in lines) < SHOWN_LINES_MAX + 10
    assert any(line.startswith("… and ") and "--commands FILE" in line for line in lines)
    assert all(f"b:1> CLUSTER SETSLOT {slot} IMPORTING a\n" in whole for slot in range(100))
    assert all(f"every other master> CLUSTER SETSLOT {slot} NODE b\n" in whole for slot in range(100))


def test_the_order_by_hand_is_the_one_that_survives_a_crash():
    """Target imports, source migrates, keys, then target, source and others learn of the owner."""
    stored, prospect = made(MOVES[:1], "redis 7.0")

    assert [
        f"{where} {words.split('   #')[0]}"
        for where, words in command_lines(stored, prospect.batches, Path.LEGACY, 7500)
    ] == [
        "# batch 1",
        "b:1 CLUSTER SETSLOT 1 IMPORTING a",
        "a:1 CLUSTER SETSLOT 1 MIGRATING b",
        "a:1 CLUSTER GETKEYSINSLOT 1 100",
        'a:1 MIGRATE b 1 "" 0 7500 KEYS …',
        "b:1 CLUSTER SETSLOT 1 NODE b",
        "a:1 CLUSTER SETSLOT 1 NODE b",
        "every other master CLUSTER SETSLOT 1 NODE b",
    ]


def test_a_command_is_never_cut():
    """Every second slot in one job."""
    stored, prospect = made([(slot, "a", "b") for slot in range(0, 4000, 2)])
    words = " ".join(f"{slot} {slot}" for slot in range(0, 4000, 2))

    assert f"a:1> CLUSTER MIGRATESLOTS SLOTSRANGE {words} NODE b" in prospect_lines(stored, prospect, [])
    assert f"a:1> CLUSTER MIGRATESLOTS SLOTSRANGE {words} NODE b\n" in list(write_commands(stored, prospect))


def test_json_holds_the_commands_of_every_dialect():
    """For a program that reviews it."""
    stored, prospect = made(MOVES)

    told = json_value(told_of(stored, prospect))

    (batch,) = told["batches"]
    assert (told["plan_id"], told["path"], told["refusals"]) == (stored.plan_id, "migrateslots", [])
    assert batch["jobs"] == [{"source": "a", "target": "b", "slots": "1-2 7", "serialized_bytes": 30.0}]
    assert batch["commands"]["migration import"] == [{"node": "b:1", "command": "CLUSTER MIGRATION IMPORT 1 2 7 7"}]
    assert batch["abort"]["migration import"] == [{"node": "b:1", "command": "CLUSTER MIGRATION CANCEL ALL"}]
    assert len(batch["commands"]["setslot"]) == 7 * 3


def test_an_address_cannot_forge_a_line():
    """What a plan holds came from a cluster once."""
    stored, prospect = made(MOVES)
    evil = stored.nodes[0]
    object.__setattr__(evil, "address", "x:1\n# rm -rf\x1b[2J")

    text = "".join(write_commands(stored, prospect)) + "\n".join(prospect_lines(stored, prospect, []))

    assert "\x1b" not in text
    assert not any(line.startswith("# rm") for line in text.splitlines())


def test_nothing_left_is_an_empty_table():
    """After a plan was carried out."""
    stored, prospect = made(MOVES)
    nothing = Prospect(prospect.situation, prospect.path, (), (), (), True)

    assert prospect_lines(stored, nothing, [])[-1] == "about 0.0 s in all"
    assert json_value(told_of(stored, nothing))["batches"] == []
