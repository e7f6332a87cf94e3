"""`slotscope rebalance` on live clusters: weights from the servers, dry run, apply and audit by one command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jobs import main as program
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS, REBALANCE_LOAD, REBALANCE_PLANS
from slotscope.runtime.failure import BAD_INPUT, NEW_PLAN, OK, PAUSED
from slotscope.runtime.storage.delta_files import exists, read_rows
from tests.benches.clusters import Cluster, memory_of, running_cluster
from tests.benches.moving_cluster import (
    Writers,
    assert_in_place,
    count_keys,
    measure,
    owners_of,
    store_moves,
)
from tests.benches.program import without_progress
from tests.benches.servers import installed, redis_binary, valkey_binary
from tests.benches.skewed_load import load_hot_tag


def rebalance(root: Path, cluster: Cluster, *more: object) -> int:
    address = f"127.0.0.1:{cluster.nodes[-1].port}"
    return program.run(["rebalance", address, "--root", str(root), "--rate", "20000", *map(str, more)])


@pytest.mark.slow
def test_the_plan_knows_the_maxmemory_of_the_servers(redis7, tmp_path, capsys):
    """Before the tests that balance these servers: where nothing moves, no target has a headroom to show."""
    try:
        for node in redis7.masters:
            node.call("CONFIG", "SET", "maxmemory", 32 << 20)
        assert rebalance(tmp_path, redis7) == OK
    finally:
        for node in redis7.masters:
            node.call("CONFIG", "SET", "maxmemory", 0)

    output = " ".join(capsys.readouterr().out.split())
    held = read_rows(str(tmp_path), REBALANCE_LOAD, resource="memory_bytes")
    assert all(25 << 20 < row["capacity"] < 31 << 20 for row in held)
    assert "capacity of memory: 95% of the maxmemory of 3 masters" in output


@pytest.mark.parametrize(
    "kind", ["valkey", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("redis7", "redis62"))]
)
def test_one_command_balances_a_live_cluster_and_leaves_tables_and_page(kind, tmp_path, capsys, request):
    """Dry run: what moves, in which batches, how long, and nothing changed.  Apply: max/mean measured key by key, nothing lost, audited."""
    cluster = request.getfixturevalue(kind)
    keys, before = count_keys(cluster), owners_of(cluster.masters[0])
    ids = [node.call("CLUSTER", "MYID").decode() for node in cluster.masters]
    assert max(measure(cluster).max_over_mean(before, ids).values()) > 1.3

    assert rebalance(tmp_path, cluster) == OK
    printed = capsys.readouterr()
    assert owners_of(cluster.masters[0]) == before
    assert "every master ends within its limits" in printed.out
    assert "ok  targets have room for both copies" in printed.out
    assert re.search(r"in \d+ batch(es)?, about ", printed.out)
    assert "HOST:PORT" not in printed.out
    assert f"rebalance 127.0.0.1:{cluster.nodes[-1].port} --root {tmp_path} --plan" in printed.out
    (plan,) = read_rows(str(tmp_path), REBALANCE_PLANS)
    assert f"dry run: nothing was changed; --plan {plan['plan_id']} --apply carries it out" in printed.err
    assert (tmp_path / "reports" / f"plan-{plan['plan_id']}.html").exists()
    assert not exists(str(tmp_path), PLAN_STEPS)

    with Writers(cluster.masters[0]) as writers:
        assert rebalance(tmp_path, cluster, "--plan", plan["plan_id"], "--apply") == OK

    assert "The plan kept its promises" in capsys.readouterr().out
    after = owners_of(cluster.masters[0])
    assert_in_place(cluster, after, keys)
    assert writers.lost(cluster) == []
    worst = measure(cluster).max_over_mean(after, ids)
    assert worst["bytes"] <= 1.02
    assert worst["keys"] <= 1.2  # a soft goal
    assert {row["kept"] for row in read_rows(str(tmp_path), PLAN_AUDITS)} <= {True, None}

    assert rebalance(tmp_path, cluster) == OK
    assert capsys.readouterr().out.lower().count("nothing to do") == 1


@pytest.mark.slow
def test_servers_that_are_all_full_are_refused_and_a_plan_made_twice_has_its_first_date(redis7, tmp_path, capsys):
    options = ("--tolerance", "0.05")
    assert rebalance(tmp_path, redis7, *options) == OK
    assert "the same plan as of" not in capsys.readouterr().err
    assert rebalance(tmp_path, redis7, *options) == OK
    assert "the same plan as of 20" in capsys.readouterr().err
    try:
        for node in redis7.masters:
            info = node.call("INFO", "memory").decode()
            node.call("CONFIG", "SET", "maxmemory", int(re.search(r"used_memory:(\d+)", info)[1]) + 1000)
        assert rebalance(tmp_path, redis7, *options) == BAD_INPUT
    finally:
        for node in redis7.masters:
            node.call("CONFIG", "SET", "maxmemory", 0)

    (line,) = capsys.readouterr().err.splitlines()
    assert "impossible: the data is " in line
    assert line.endswith("raise capacities or add masters")


@pytest.mark.slow
@pytest.mark.parametrize("binary", [redis_binary, valkey_binary])
def test_an_idle_cluster_comes_to_rest_despite_a_tag_heavier_than_a_master(binary, tmp_path, capsys):
    """312,042 keys: `look` measures each, and names the large ones and the tag.  From the second of five runs on nothing moves."""
    with running_cluster(installed(binary()), masters=6, maxmemory_policy="allkeys-lfu") as cluster:
        load_hot_tag(cluster, 312_042, tagged=60_000, sorted_sets=12, members=22_000)
        assert program.run(["look", f"127.0.0.1:{cluster.masters[0].port}", "--json", "--seconds", "60"]) == OK
        look = json.loads(capsys.readouterr().out)
        exact = {f"127.0.0.1:{node.port}": memory_of(node) for node in cluster.masters}
        texts, owners = [], []
        for _ in range(5):
            assert rebalance(tmp_path, cluster, "--apply") == OK
            texts.append(" ".join(capsys.readouterr().out.split()))
            owners.append(owners_of(cluster.masters[0]))

    assert {row["address"] for row in look["masters"]} == exact.keys()
    for row in look["masters"]:
        assert row["all_keys"]
        assert row["memory_bytes"]["error"] == 0
        assert row["memory_bytes"]["value"] == pytest.approx(exact[row["address"]], rel=0.002)
        assert row["memory_bytes"]["value"] < row["used_memory"]
    assert {row["key"] for row in look["biggest_keys"][:12]} == {f"board:{n}" for n in range(12)}
    assert look["hash_tags"][0]["name"] == "tenant:acme"
    assert "No move can balance this cluster: {tenant:acme} (slot 1612) alone is " in texts[0]
    assert "The plan kept its promises." in texts[0]
    assert owners[1:] == owners[:-1]
    assert all("Balanced as far as possible: {tenant:acme} (slot 1612) alone is " in text for text in texts[1:])


@pytest.mark.slow
def test_a_tolerance_that_a_sample_cannot_keep_is_refused_with_two_ways_out(redis7, tmp_path, capsys):
    """The larger tolerance makes a plan from a sample; the longer time measures all keys, and the tolerance holds."""
    address = f"127.0.0.1:{redis7.masters[0].port}"

    def plan(seconds: str, *more: str) -> int:
        return program.run(
            ["rebalance", address, "--root", str(tmp_path), "--rate", "500", "--seconds", seconds, *more]
        )

    assert plan("2", "--tolerance", "0.02") == BAD_INPUT
    *_, line = capsys.readouterr().err.splitlines()
    fits, seconds = re.search(
        r"cannot plan at a tolerance of 2.0%: the memory of a master is known to ±[\d.]+%. Plan at --tolerance memory_bytes=([\d.]+), "
        r"or measure more: --seconds (\d+) measures all keys",
        line,
    ).groups()

    assert plan("2", "--tolerance", f"memory_bytes={float(fits) * 2}") == OK
    assert "memory was sampled" in " ".join(capsys.readouterr().out.split())
    assert plan(seconds, "--tolerance", "0.02") == OK
    assert "sampled" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_check_of_a_live_cluster_needs_no_dry_run(redis7, tmp_path, capsys):
    """10 where there is a plan to carry out, and nothing about how it would be; 0 where there is none."""
    assert rebalance(tmp_path, redis7, "--if-needed", "--tolerance", "0.001") == NEW_PLAN
    assert "SETSLOT" not in capsys.readouterr().out
    assert rebalance(tmp_path, redis7, "--if-needed", "--tolerance", "5") == OK


def hot_moves(cluster: Cluster, count: int) -> list[tuple[int, int, int]]:
    """Slots with keys of the first master, half to each of two others."""
    me, keys = cluster.masters[0].call("CLUSTER", "MYID").decode(), measure(cluster).keys
    owners = owners_of(cluster.masters[0])
    held = [slot for slot, owner in enumerate(owners) if owner == me and keys[slot]]
    return [(slot, 0, 1 + n % 2) for n, slot in enumerate(held[:count])]


def test_forbidden_commands_are_avoided_or_named(valkey, tmp_path, capsys, monkeypatch):
    """SLOT-STATS: keys are counted one by one.  MEMORY USAGE: one line with what to do.  MIGRATESLOTS: paused, nothing moved, how to go on."""
    before = owners_of(valkey.masters[0])
    denied = ("-cluster|slot-stats", "-memory", "-cluster|migrateslots")
    for node in valkey.nodes:
        node.call("ACL", "SETUSER", "few", "on", ">few", "~*", "+@all", *denied)
    monkeypatch.setenv("SLOTSCOPE_PASSWORD", "few")
    stored = store_moves(tmp_path / "stored", valkey, hot_moves(valkey, 4))

    assert rebalance(tmp_path, valkey, "--user", "few") == BAD_INPUT
    errors = capsys.readouterr().err
    assert "keys cannot be measured: " in errors
    assert "NOPERM" in errors
    assert len(without_progress(errors)) == 1
    assert rebalance(tmp_path, valkey, "--user", "few", "--resources", "keys") == OK
    assert "keys" in capsys.readouterr().out
    options = ("--user", "few", "--plan", stored.plan_id, "--apply", "--patience", "0.1")
    assert rebalance(tmp_path / "stored", valkey, *options) == PAUSED

    last = capsys.readouterr().err.splitlines()[-1]
    assert "NOPERM" in last
    assert last.endswith("0 of 4 slots are in place; run again to resume, --rollback to undo")
    assert owners_of(valkey.masters[0]) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["127.0.0.1:1"], "127.0.0.1:1: "),
        (["127.0.0.1:1", "--rate", "0"], "--rate from 1"),
        (["127.0.0.1:1", "--seconds", "nan"], "--seconds must be above 0"),
        (["127.0.0.1:1", "--window", "-1"], "--window must be"),
        (["127.0.0.1:1", "--patience", "nan"], "--patience nan"),
        (["127.0.0.1:1", "--bytes-per-s-max", "0"], "--bytes-per-s-max 0.0: must be more than 0"),
        (["127.0.0.1:1", "--plan", "abcd"], "no plan there"),
    ],
)
def test_an_unusable_cluster_is_one_line(arguments, reason, tmp_path, capsys):
    assert program.run(["rebalance", *arguments, "--root", str(tmp_path)]) == BAD_INPUT

    errors = capsys.readouterr().err
    assert reason in errors
    assert len(without_progress(errors)) == 1
