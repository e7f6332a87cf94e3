"""The dry run of a plan, as text and as JSON."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.rebalance.execution.effects import read_journal
from cluster_core.rebalance.execution.situation import forecast_run
from cluster_core.slots.key_slot import SLOT_COUNT
from slotscope.reports.rebalance.execution import (
    command_lines,
    command_text,
    dry_run_document,
    dry_run_json,
)
from slotscope.reports.records import json_value
from slotscope.reports.terminal import plain_text
from tests.builders.cluster_sights import SeenCluster, stored_plan


def dry_run(moves, product: str = "valkey 9.1", **changed):
    """A plan for three masters, and its dry run."""
    cluster = SeenCluster(["abc"[s * 3 // SLOT_COUNT] for s in range(SLOT_COUNT)], "abc", product=product)
    stored = stored_plan(cluster, moves)
    cluster.changed = changed
    return stored, forecast_run(stored, cluster.look("abc"), read_journal([]), None)


MOVES = [(1, "a", "b"), (2, "a", "b"), (7, "a", "b")]


def test_checks_come_first_then_batches_and_commands():
    text = plain_text(dry_run_document(*dry_run(MOVES)))

    assert "Move 3 slots in 1 batch, about 210 ms." in text
    assert [line.split() for line in text.splitlines() if line.split()[:2] == ["1", "a:1"]] == [
        ["1", "a:1", "b:1", "3", "2", "30", "B", "210", "ms"]
    ]
    assert "a:1> CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 7 7 NODE b" in text
    assert text.index("Checks") < text.index("Batches") < text.index("MIGRATESLOTS")


def test_a_failed_check_is_named_in_the_first_lines():
    text = plain_text(dry_run_document(*dry_run(MOVES, b={"cluster_ok": False})))

    assert "This run would be refused: b:1 (b) says that the cluster is not ok" in " ".join(text.split())
    assert ["failed", "the", "cluster", "is", "ok"] in [line.split() for line in text.splitlines()]


def test_commands_slot_by_slot_are_printed_on_request_only():
    """Seven lines a slot, key by key."""
    stored, prospect = dry_run([(slot, "a", "b") for slot in range(100)], "redis 7.0")

    shown, whole = plain_text(dry_run_document(stored, prospect)), command_text(stored, prospect)

    assert "SETSLOT" not in shown
    assert "701 commands, slot by slot: --commands - prints them" in shown
    assert all(f"b:1> CLUSTER SETSLOT {slot} IMPORTING a\n" in whole for slot in range(100))
    assert all(f"every other master> CLUSTER SETSLOT {slot} NODE b\n" in whole for slot in range(100))


def test_the_order_by_hand_is_the_one_that_survives_a_crash():
    """Target imports, source migrates, keys, then target, source and others learn of the owner."""
    stored, prospect = dry_run(MOVES[:1], "redis 7.0")

    assert [f"{where} {line.split('   #')[0]}" for where, line in command_lines(stored, prospect)] == [
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
    stored, prospect = dry_run([(slot, "a", "b") for slot in range(0, 4000, 2)])
    command = f"a:1> CLUSTER MIGRATESLOTS SLOTSRANGE {' '.join(f'{s} {s}' for s in range(0, 4000, 2))} NODE b\n"

    assert command in plain_text(dry_run_document(stored, prospect))


def test_json_has_the_commands_of_each_batch():
    stored, prospect = dry_run(MOVES)

    record = json_value(dry_run_json(stored, prospect))

    (batch,) = record["batches"]
    assert (record["plan_id"], record["path"], record["refusals"]) == (stored.plan_id, "migrateslots", [])
    assert batch["jobs"] == [{"source": "a", "target": "b", "slots": "1-2 7", "serialized_bytes": 30.0}]
    assert batch["commands"] == [{"node": "a:1", "command": "CLUSTER MIGRATESLOTS SLOTSRANGE 1 2 7 7 NODE b"}]


def test_an_address_cannot_forge_a_line():
    stored, prospect = dry_run(MOVES)
    object.__setattr__(stored.nodes[0], "address", "x:1\n# rm -rf\x1b[2J")

    text = command_text(stored, prospect) + plain_text(dry_run_document(stored, prospect))

    assert "\x1b" not in text
    assert not any(line.strip().startswith("# rm") for line in text.splitlines())


def test_a_plan_in_place_has_no_batches():
    stored, prospect = dry_run(MOVES)
    nothing = replace(prospect, batches=(), seconds=(), refusals=(), in_place=True)

    assert json_value(dry_run_json(stored, nothing))["batches"] == []
    assert "Commands" not in plain_text(dry_run_document(stored, nothing))
