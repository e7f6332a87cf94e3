"""The job rebalance-plan and the check of its stored plans."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cluster_core.rebalance.check import check_plan
from jobs.rebalance_plan import Request, run
from schemas.rebalance import (
    REBALANCE_HEAVY,
    REBALANCE_LOAD,
    REBALANCE_MOVES,
    REBALANCE_PLANS,
    REBALANCE_SLOTS,
)
from slotscope.plans.stored_plans import read_stored_plan
from slotscope.runtime.failure import BAD_INPUT, IMPOSSIBLE, NEW_PLAN, OK, UNEXPECTED
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.program import slotscope, without_progress
from tests.builders.rebalance_tables import LOADED, node_id, topology, write_snapshot
from tests.builders.stored_rows import store

THIRDS = [slot * 3 // 16384 for slot in range(16384)]
HOT = dict.fromkeys(range(60), 60000)
"""Sixty heavy slots on the first master."""


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """A root with a plan for three masters, one of them hot."""
    root = tmp_path_factory.mktemp("planned")
    write_snapshot(root, THIRDS, HOT)
    return root, run(Request(root=str(root), snapshot=("current",)), now_ms=1_795_000_000_000)


@pytest.mark.long
def test_a_stored_plan_reads_back_as_it_was_made(planned):
    """Problem, plan, batches, nodes and digest; and it holds when it is checked."""
    root, outcome = planned
    stored = read_stored_plan(str(root), "latest")

    assert stored.plan == outcome.made.stored.plan
    assert stored.batches == outcome.made.stored.batches
    assert (stored.plan_id, stored.state_hash, stored.nodes) == (
        outcome.made.stored.plan_id, outcome.made.stored.state_hash, outcome.made.stored.nodes,
    )  # fmt: skip
    assert check_plan(stored.problem, stored.plan) == []
    assert stored.plan.verdict == "move"
    assert max(reach.after for reach in stored.plan.reach) <= 1.02


@pytest.mark.long
def test_the_tables_agree_with_one_another(planned):
    """Moves add up to the loads before and after, and to the moved load of the plan."""
    root, outcome = planned
    plan_id = outcome.made.stored.plan_id
    head = read_rows(str(root), REBALANCE_PLANS, plan_id=plan_id)[0]
    moves = read_rows(str(root), REBALANCE_MOVES, plan_id=plan_id)
    loads = {
        r["node_id"]: r
        for r in read_rows(str(root), REBALANCE_LOAD, plan_id=plan_id)
        if r["resource"] == "serialized_bytes"
    }

    assert (sum(m["bytes"] for m in moves), len(moves)) == (head["moved_bytes"], head["moved_slots"])
    assert head["lower_bound_bytes"] <= head["moved_bytes"]
    change: Counter[str] = Counter()
    for move in moves:
        change[move["source"]] -= move["bytes"]
        change[move["target"]] += move["bytes"]
    assert {name: row["after"] - row["before"] for name, row in loads.items()} == {name: change[name] for name in loads}
    assert max(row["after"] / row["fair"] for row in loads.values()) == pytest.approx(
        head["max_over_mean_after"]["serialized_bytes"]
    )
    assert len(read_rows(str(root), REBALANCE_SLOTS, plan_id=plan_id)) == 16384


@pytest.mark.long
def test_an_executed_plan_leaves_nothing_to_do(planned, tmp_path, capsys):
    """--if-needed ends with 10 while there is a plan, with 0 once it is in place."""
    root, outcome = planned
    assert slotscope("rebalance-plan", "--root", root, "--if-needed") == NEW_PLAN
    names = [node_id(number) for number in range(3)]
    after = [names.index(owner) for owner in outcome.made.stored.plan.owners_after]
    write_snapshot(tmp_path, after, HOT)
    capsys.readouterr()

    code = slotscope("rebalance-plan", "--root", tmp_path, "--if-needed")

    assert code == OK
    out = capsys.readouterr().out
    assert out.lower().count("nothing to do") == 1
    assert "must move" not in out
    assert read_rows(str(tmp_path), REBALANCE_MOVES) == []


@pytest.mark.long
def test_a_slot_that_cannot_be_divided_is_named_with_its_hash_tag(tmp_path):
    """And with the number of pieces into which the tag must be split to fit."""
    whole = 16384 // LOADED * 1000 + 30_000_000
    write_snapshot(
        tmp_path, THIRDS, {7: 30_000_000}, tags={b"cart:42": (7, 900, 29_000_000)}, keys={b"{x}big": (7, 600_000)}
    )

    outcome = run(Request(root=str(tmp_path), snapshot=("current",), resources=("bytes",)))

    rows = sorted(read_rows(str(tmp_path), REBALANCE_HEAVY), key=lambda row: row["rank"])
    fair = whole / 3
    assert [(r["slot"], r["hash_tag"], r["key"], r["part_pieces"]) for r in rows] == [
        (7, b"cart:42", None, -(-29_000_000 // int(1.02 * fair))), (7, None, b"{x}big", None),
    ]  # fmt: skip
    assert rows[0]["ratio"] == pytest.approx(30_000_000 / fair)
    reach = outcome.made.stored.plan.reach[0]
    assert (reach.relaxed, float(reach.after)) == (True, pytest.approx(30_000_000 / fair))


@pytest.mark.long
def test_a_changed_table_does_not_pass_the_check(planned, tmp_path, capsys):
    """Every claim is computed again from the rows."""
    root, outcome = planned
    plan_id = outcome.made.stored.plan_id
    assert slotscope("check-plan", "--root", root) == OK
    heads, moves = (read_rows(str(root), table, plan_id=plan_id) for table in (REBALANCE_PLANS, REBALANCE_MOVES))
    slots = read_rows(str(root), REBALANCE_SLOTS, plan_id=plan_id)

    def changed(**tables):
        stored = ((REBALANCE_PLANS, heads), (REBALANCE_MOVES, moves), (REBALANCE_SLOTS, slots))
        store(
            str(tmp_path), plan_id, {table: tables.get(table.name.rpartition("_")[2], rows) for table, rows in stored}
        )
        code = slotscope("check-plan", "--root", tmp_path, "--plan", plan_id)
        return code, capsys.readouterr().out

    def document(path, change):
        record = json.loads(heads[0]["document"])
        record["plan"][path] = change(record["plan"][path])
        return [{**heads[0], "document": json.dumps(record, separators=(",", ":"))}]

    capsys.readouterr()
    assert changed() == (OK, changed()[1])
    cases = {
        "missing in the table of moves": changed(moves=moves[1:]),
        "only in the table of moves": changed(moves=[*moves, {**moves[0], "slot": 16000}]),
        "add up to": changed(plans=document("moved", lambda value: value - 1)),
        "the prices do not prove": changed(plans=document("prices", lambda prices: [prices[0] + 1, *prices[1:]])),
        "the bounds in its row and its document differ": changed(plans=[{**heads[0], "lower_bound_bytes": 1}]),
        "over its limit": changed(slots=[{**s, "loads": {**s["loads"], "keys": 9e6}} if s["planned_owner"] == node_id(2) and s["slot"] > 16000 else s for s in slots]),
        "not the digest": changed(plans=document("ranges_after", lambda value: value + 1)),
    }  # fmt: skip
    for arguments, (code, out) in cases.items():
        assert code == UNEXPECTED, arguments
        assert arguments in out


@pytest.fixture(scope="module")
def snapshot_root(tmp_path_factory):
    """A snapshot of three masters, one with a replica: to read."""
    root = tmp_path_factory.mktemp("snapshot") / "root"
    write_snapshot(str(root), THIRDS, HOT, replicas={3: 0})
    return root


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--snapshot", "other"], "--snapshot other: no finished snapshot of that name; there are current"),
        (["--tolerance", "lots"], "--tolerance lots: write a share"),
        (["--tolerance", "ops=0.1"], "--tolerance ops=0.1: ops is not balanced"),
        (["--tolerance", "-0.1"], ""),
        (["--resources", "memory"], "--resources memory_bytes: not known"),
        (["--cost", "ops"], "the cost of moves is measured in ops"),
        (["--topology", "no/such"], "no/such"),
        (["--placement", "small.toml"], "impossible: the data is"),
        (["--placement", "replica.toml"], "line 2: 10.0.0.4:7000 is a replica of"),
        (["--placement", "unknown.toml"], "line 2: 10.9.9.9:1 is not in the cluster"),
        (["--placement", "all.toml"], "no master is left"),
        (["--gain-min", "-1"], "gain_min must not be negative"),
        (["--combine", "median"], "combine"),
    ],
)
def test_an_impossible_plan_is_one_line_and_no_plan(snapshot_root, tmp_path, capsys, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    Path("root").symlink_to(snapshot_root)
    nodes = {number: f'[[nodes]]\nnode = "10.0.0.{number + 1}:7000"\n' for number in range(4)}
    files = {
        "small": "[defaults.capacity]\nserialized_bytes = 1000\n",
        "replica": nodes[3],
        "unknown": '[[nodes]]\nnode = "10.9.9.9:1"\n',
        "all": "".join(f"{nodes[number]}drain = true\n" for number in range(3)),
    }
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)

    code = slotscope("rebalance-plan", "--root", "root", *arguments)

    lines = without_progress(capsys.readouterr().err)
    assert (code, len(lines)) == (BAD_INPUT, 1), lines
    assert reason in lines[0]
    assert not exists("root", REBALANCE_PLANS)
    assert not exists("root", REBALANCE_SLOTS)


@pytest.mark.long
def test_limits_that_cannot_be_met_together_are_a_verdict_with_an_exit_code_of_its_own(tmp_path, capsys):
    """A master that stays keeps a slot, and no slot is as small as its share."""
    write_snapshot(tmp_path, THIRDS, dict.fromkeys(range(16384), 1000))
    code = slotscope("rebalance-plan", "--root", tmp_path, "--resources", "bytes", "--weight", "10.0.0.2:7000=0.000001")
    shown = " ".join(capsys.readouterr().out.split())
    rows = {row["node_id"]: row for row in read_rows(str(tmp_path), REBALANCE_LOAD)}

    assert code == IMPOSSIBLE
    assert "10.0.0.2:7000 stays and must keep a slot, but its limit" in shown
    assert rows[node_id(1)]["slots_after"] == 1
    assert slotscope("check-plan", "--root", tmp_path) == OK
    assert "holds: these limits cannot be met together" in capsys.readouterr().out


@pytest.mark.long
def test_a_master_above_its_capacity_is_emptied_first_and_named_in_the_report(tmp_path, capsys):
    """The others take the excess, each its fair share."""
    write_snapshot(tmp_path, THIRDS, {})
    placement = tmp_path / "place.toml"
    total = 16384 // LOADED * 10
    placement.write_text(f'[[nodes]]\nnode = "{node_id(1)}"\ncapacity = {{ keys = {total // 6} }}\n')

    code = slotscope("rebalance-plan", "--root", tmp_path, "--resources", "keys", "--placement", placement)
    shown = " ".join(capsys.readouterr().out.split())
    rows = {row["node_id"]: row for row in read_rows(str(tmp_path), REBALANCE_LOAD) if row["resource"] == "keys"}
    moves = read_rows(str(tmp_path), REBALANCE_MOVES)

    assert code == OK
    assert shown.count("above its capacity") == 1
    assert f"is above its capacity of {total // 6} keys: {rows[node_id(1)]['before']:.0f} → " in shown
    assert rows[node_id(1)]["after"] <= total // 6
    assert max(rows[node_id(n)]["after"] for n in (0, 2)) <= 1.02 * (total - total // 6) / 2 + 1
    assert {move["source"] for move in moves} == {node_id(1)}
    assert slotscope("check-plan", "--root", tmp_path) == OK


@pytest.mark.long
def test_polls_of_collect_need_no_topology_and_no_snapshot(tmp_path):
    """Every poll holds CLUSTER NODES: the newest says who the masters are; a line that was cut short is not the newest."""
    polls = [poll(THIRDS, 1), poll([*THIRDS[1:], 1], 2), poll(THIRDS, 3)]
    (tmp_path / "polls.jsonl").write_text("\n".join([*polls, polls[0][:100]]))
    asked = Request(root=str(tmp_path), slot_stats=(str(tmp_path / "polls.jsonl"),), mode="permissive")

    stored = run(asked).made.stored

    assert list(stored.problem.owners) == [node_id(third) for third in THIRDS]
    assert {node.id for node in stored.nodes} == {node_id(n) for n in range(3)}
    assert (stored.plan.verdict, stored.plan.cost) == ("move", "keys")


def poll(owners, seconds):
    """A line as collect writes it; the first slots have most of the keys."""
    stats = [[slot, {"key-count": 900 if slot < 60 else int(slot % LOADED == 0)}] for slot in range(16384)]
    line = {"time": seconds * 10**18, "node": "10.0.0.1:7000", "text": topology(owners, 3), "slot_stats": stats}
    return json.dumps(line)
