"""`slotscope rebalance` on live clusters: weights from the servers, dry run, apply and audit by one command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import main as program
from schemas.rebalance import PLAN_AUDITS, PLAN_STEPS, REBALANCE_PLANS
from slotscope.runtime.delta_files import exists, read_rows
from slotscope.runtime.failure import BAD_INPUT, OK
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.moving_cluster import Writers, assert_in_place, count_keys, load_hot_tags, measure, owners_of
from tests.benches.servers import redis_binary, valkey_binary

KEYS = 6_000
"""So few that each is measured."""


def rebalance(root: Path, cluster: Cluster, *more: object) -> int:
    """Run the command in this process."""
    words = [
        "rebalance",
        f"127.0.0.1:{cluster.nodes[-1].port}",
        "--root",
        str(root),
        "--rate",
        "20000",
        *map(str, more),
    ]
    return program.run(words)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Cluster]:
    """Four masters with hot tags on the first, and a replica."""
    binary = valkey_binary()
    if binary is None:
        pytest.skip("valkey-server is not installed")
    with running_cluster(binary, masters=4, replicas=1) as cluster:
        load_hot_tags(cluster, KEYS)
        yield cluster


@pytest.fixture(scope="module")
def redis7() -> Iterator[Cluster]:
    """Three masters of Redis 7 with hot tags on the first."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("redis-server is not installed")
    with running_cluster(binary, masters=3) as cluster:
        load_hot_tags(cluster, KEYS)
        yield cluster


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
def test_one_command_balances_a_live_cluster_and_leaves_tables_and_page(kind, tmp_path, capsys, request):
    """Dry run: what moves, in which batches, how long, and nothing changed.  Apply: max/mean measured key by key, nothing lost, audited."""
    cluster = request.getfixturevalue(kind)
    keys, before = count_keys(cluster), owners_of(cluster.masters[0])
    ids = [node.call("CLUSTER", "MYID").decode() for node in cluster.masters]
    assert max(measure(cluster).max_over_mean(before, ids).values()) > 1.3

    assert rebalance(tmp_path, cluster) == OK
    said = capsys.readouterr()
    assert owners_of(cluster.masters[0]) == before
    assert "every master ends within its limits" in said.out
    assert "ok  targets have room for both copies" in said.out
    assert "about" in said.out.splitlines()[-1]
    (plan,) = read_rows(str(tmp_path), REBALANCE_PLANS)
    assert f"dry run: nothing was changed; --plan {plan['plan_id']} --apply carries it out" in said.err
    assert (tmp_path / "reports" / f"plan-{plan['plan_id']}.html").exists()
    assert not exists(str(tmp_path), PLAN_STEPS)

    with Writers(cluster.masters[0]) as writers:
        assert rebalance(tmp_path, cluster, "--plan", plan["plan_id"], "--apply") == OK

    assert "The plan kept what it promised" in capsys.readouterr().out
    after = owners_of(cluster.masters[0])
    assert_in_place(cluster, after, keys)
    assert writers.lost(cluster) == []
    assert max(measure(cluster).max_over_mean(after, ids).values()) <= 1.02
    assert {row["kept"] for row in read_rows(str(tmp_path), PLAN_AUDITS)} <= {True, None}

    assert rebalance(tmp_path, cluster) == OK
    assert "nothing to do" in capsys.readouterr().out


def test_the_dry_run_as_json_is_one_object(valkey, tmp_path, capsys):
    """Report, what would be sent, and no audit."""
    assert rebalance(tmp_path, valkey, "--json", "--tolerance", "0") == OK

    told = json.loads(capsys.readouterr().out)
    assert told["report"]["plan_id"] in told["page"]
    assert told["audit"] == []
    assert told["execution"] is None or told["execution"]["plan_id"] == told["report"]["plan_id"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["127.0.0.1:1"], "127.0.0.1:1: "),
        (["127.0.0.1:1", "--rate", "0"], "--rate from 1"),
        (["127.0.0.1:1", "--seconds", "nan"], "--seconds must be above 0"),
        (["127.0.0.1:1", "--window", "-1"], "--window must be"),
        (["127.0.0.1:1", "--patience", "nan"], "--patience nan"),
        (["127.0.0.1:1", "--plan", "abcd"], "no plan there"),
    ],
)
def test_what_cannot_be_asked_is_one_line(words, reason, tmp_path, capsys):
    """Exit code 2."""
    assert program.run(["rebalance", *words, "--root", str(tmp_path)]) == BAD_INPUT

    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
