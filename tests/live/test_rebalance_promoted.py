"""A replica is promoted in the place of a source or a target while `slotscope rebalance` moves slots: said in one line, and nothing lost."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress

import pytest

from jobs import main as program
from slotscope.runtime.failure import BAD_INPUT, OK, PAUSED
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.live_runs import REPOSITORY, wait_for_commits
from tests.benches.moving_cluster import Writers, count_keys, load_hot_tags, measure, owners_of, store_moves
from tests.benches.servers import Server, redis_binary, valkey_binary, wait_for

ORDERS_MAX, GIVEN_UP_S = 3, 6.0
"""A server that is slow gives a fail-over up after 5 s (`CLUSTER_MF_TIMEOUT`), and has to be told again."""
BINARIES = {"valkey": valkey_binary, "redis7": redis_binary}


def promote(cluster: Cluster, node: Server) -> None:
    """A fail-over by hand; return when every node knows of it."""
    wait_for(lambda: b"master_link_status:up" in node.call("INFO", "replication"), "the replica to be in step")
    for _ in range(ORDERS_MAX):
        node.call("CLUSTER", "FAILOVER")
        with suppress(TimeoutError):
            wait_for(lambda: b"role:master" in node.call("INFO", "replication"), "the replica to be master", GIVEN_UP_S)
            break
    me = node.call("CLUSTER", "MYID").decode()
    wait_for(lambda: all(me in owners_of(other) for other in cluster.nodes), "all to know the new master")


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(BINARIES))
@pytest.mark.parametrize("end", ["source", "target"])
def test_a_promotion_in_the_middle_pauses_with_who_has_the_place_and_can_be_taken_back(kind, end, tmp_path, capsys):
    """Nothing stays open, no key and no write is lost; the plan is refused for that one reason, another fail-over makes the way back free."""
    binary = BINARIES[kind]()
    if binary is None:
        pytest.skip(f"{kind}: the server is not installed")
    with running_cluster(binary, masters=2, replicas=2) as cluster:
        load_hot_tags(cluster, 2000)
        keys, before = count_keys(cluster), owners_of(cluster.masters[0])
        weights = measure(cluster).keys
        moves = [(slot, 0, 1) for slot, owner in enumerate(before) if owner == before[0] and weights[slot]][:60]
        stored = store_moves(tmp_path, cluster, moves, slots_max=5)
        old, new = (nodes[0 if end == "source" else 1] for nodes in (cluster.masters, cluster.replicas))
        other = cluster.masters[1 if end == "source" else 0]
        address = f"127.0.0.1:{other.port}"
        words = ["rebalance", address, "--root", str(tmp_path), "--apply", "--patience", "5"]
        command = [sys.executable, "-m", "jobs.main", *words, "--plan", stored.plan_id, "--pause-between", "0.1"]
        with Writers(other) as writers:
            process = subprocess.Popen(
                command, cwd=REPOSITORY, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
            )
            wait_for_commits(tmp_path, process, 4)
            promote(cluster, new)
            told = process.communicate()[1]

        assert process.returncode == PAUSED, told
        who = rf"127.0.0.1:{old.port} \(\w+\) is a replica of 127.0.0.1:{new.port} \(\w+\) now, which was promoted in its place"
        last = told.splitlines()[-1]
        assert re.search(
            rf"paused: {who}; \d+ of 60 slots are in place; make a new plan, or take this one back", last
        ), told
        assert not any(node.migrating or node.importing for one in cluster.nodes for node in topology_of(one).nodes)
        assert writers.lost(cluster) == []

        assert program.run(words) == BAD_INPUT
        refused = [line for line in capsys.readouterr().err.splitlines() if "refused" in line]
        assert len(refused) == 1
        assert re.search(who, refused[0])

        promote(cluster, old)
        assert program.run([*words, "--rollback"]) == OK
        assert owners_of(cluster.masters[0]) == before
        assert count_keys(cluster) == keys
