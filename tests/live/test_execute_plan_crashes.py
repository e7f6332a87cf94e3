"""Crashes in the middle of a plan on live clusters: of the executor, of a target, of a source."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from cluster_core.rebalance.stored_plan import StoredPlan
from slotscope.runtime.failure import OK
from tests.benches.clusters import Cluster
from tests.benches.live_runs import commits, slotscope, start, wait_for_commits
from tests.benches.moving_cluster import Writers, assert_in_place, count_keys, hot_cluster, slowly, store_balance
from tests.benches.servers import redis_binary, valkey_binary

SERVERS = {"redis": redis_binary, "valkey": valkey_binary}
WAYS = [("redis", "setslot"), ("valkey", "migrateslots"), ("valkey", "setslot")]
SEEDS = 20


@pytest.mark.slow
@pytest.mark.parametrize(("server", "path"), WAYS)
def test_an_executor_that_is_killed_anywhere_resumes_or_rolls_back(server, path, tmp_path):
    """SIGKILL at a random step, forwards and backwards, twenty times; clients write all the while and lose nothing."""
    with hot_cluster(SERVERS[server](), 4, 20_000) as cluster:
        stored, keys = store_balance(tmp_path, cluster), count_keys(cluster)
        in_place, killed = False, 0
        with Writers(cluster.masters[0]) as writers:
            for seed in range(SEEDS):
                chance = random.Random(seed)
                steps = 2 * len(stored.batches)
                killed += kill_executor(tmp_path, cluster, chance, steps, "--path", path, *back(in_place))
                in_place = chance.random() < 0.5
                assert slotscope(tmp_path, cluster, "--apply", "--path", path, *back(not in_place)) == OK, seed
                assert_in_place(cluster, owners_at_end(stored, in_place), keys)

        assert killed >= SEEDS // 2
        assert len(writers.acknowledged) > 300
        assert writers.errors == []
        assert writers.lost(cluster) == []


def back(yes: bool) -> list[str]:
    return ["--rollback"] if yes else []


def owners_at_end(stored: StoredPlan, in_place: bool):
    return stored.plan.owners_after if in_place else stored.problem.owners


def kill_executor(root: Path, cluster: Cluster, chance: random.Random, steps: int, *more: str) -> bool:
    """Kill a run some milliseconds after it wrote its journal so many times; say whether it was still at work."""
    until = commits(root) + chance.randrange(1, steps + 1)
    process = start(root, cluster, *more)
    wait_for_commits(root, process, until)
    time.sleep(chance.random() * 0.05)
    process.crash()
    return process.returncode != OK


@pytest.mark.slow
@pytest.mark.parametrize(("server", "path"), WAYS)
@pytest.mark.parametrize("end", ["target", "source"])
def test_a_master_that_crashes_in_the_middle_is_waited_for(server, path, end, tmp_path):
    """SIGKILL and a restart from its files a second later: the run ends as planned, without open slots or lost keys."""
    with hot_cluster(SERVERS[server](), 3, 8_000, appendonly="yes", appendfsync="always") as cluster:
        stored, keys = store_balance(tmp_path, cluster), count_keys(cluster)
        nodes = {node.call("CLUSTER", "MYID").decode(): node for node in cluster.masters}
        job = stored.batches[0].jobs[0]
        victim = nodes[job.target if end == "target" else job.source]
        with Writers(cluster.masters[-1]) as writers:
            process = start(tmp_path, cluster, "--path", path, *slowly(stored, 5))
            wait_for_commits(tmp_path, process, 2)
            time.sleep(0.03 if path == "migrateslots" else 0.3)
            victim.kill()
            was_at_work = process.poll() is None
            time.sleep(1)
            victim.start_again()
            errors = process.messages()

        assert was_at_work
        assert process.returncode == OK, errors
        assert_in_place(cluster, stored.plan.owners_after, keys)
        assert writers.lost(cluster) == []
