"""Six masters from skew to balance, three more and back, by `slotscope rebalance` alone, while a client writes and reads.

With some thousands of keys always, with two million among the slow tests.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cluster_core.rebalance.plan import count_ranges
from cluster_core.topology.node import Topology
from jobs import main as program
from slotscope.plans.stored_plans import read_unchanged_plan
from slotscope.runtime.failure import OK, PAUSED, PROMISE_BROKEN
from tests.benches.clusters import Cluster, knows, running_cluster, topology_of
from tests.benches.live_runs import REPOSITORY, commits
from tests.benches.moving_cluster import measure, owners_of, slowly
from tests.benches.servers import Server, redis_binary, running, valkey_binary, wait_for
from tests.benches.skewed_load import load_skewed
from tests.benches.steady_client import steady_client

SMALL, LARGE = 12_000, 2_000_000
LIMIT = 1.02
RANGES_MAX = 45
"""Slot ranges of six masters, and of nine."""
RUNS_MAX = 3
"""Loads are sampled and clients write: the command says when to run it again."""


def words_of(root: Path, cluster: Cluster, *more: object) -> list[str]:
    return ["rebalance", f"127.0.0.1:{cluster.masters[-1].port}", "--root", str(root), *map(str, more)]


def start(root: Path, cluster: Cluster, *more: object) -> subprocess.Popen[str]:
    """Begin it in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "jobs.main", *words_of(root, cluster, *more)], cwd=REPOSITORY, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@dataclass
class Runs:
    """Runs of the command, with what all of them are given."""

    root: Path
    capsys: pytest.CaptureFixture[str]
    more: tuple[object, ...]

    def run(self, cluster: Cluster, *more: object) -> tuple[int, str, float]:
        """Exit code, everything said, seconds."""
        begun_s = time.monotonic()
        code = program.run(words_of(self.root, cluster, *self.more, *more))
        told = self.capsys.readouterr()
        return code, told.out + told.err, time.monotonic() - begun_s

    def settle(self, cluster: Cluster, *more: object) -> None:
        """Balance it, and again where the command says that the promise was not kept."""
        code, said = PROMISE_BROKEN, ""
        for _ in range(RUNS_MAX):
            if code == PROMISE_BROKEN:
                code, said, _ = self.run(cluster, "--apply", *more)
        assert code == OK, said


def figures(cluster: Cluster) -> dict[str, list[float]]:
    """What each master says of itself; *memory* without what a server keeps for itself and its clients."""
    found: dict[str, list[float]] = {"keys": [], "memory": [], "used_memory": []}
    for node in cluster.masters:
        info = dict(line.split(":", 1) for line in node.call("INFO").decode().splitlines() if ":" in line)
        found["keys"].append(node.call("DBSIZE"))
        found["memory"].append(int(info["used_memory_dataset"]))
        found["used_memory"].append(int(info["used_memory"]))
    return found


def worst(values: list[float]) -> float:
    return max(values) * len(values) / sum(values)


def assert_balanced(cluster: Cluster, *, is_large: bool) -> None:
    """In keys as servers count them, in memory as they tell it of their data; with little data that is all measured by key."""
    told = figures(cluster)
    assert worst(told["keys"]) <= LIMIT
    if is_large:
        assert worst(told["memory"]) <= LIMIT
        return
    owners = owners_of(cluster.masters[0])
    ids = sorted({owner for owner in owners if owner})
    assert max(measure(cluster).max_over_mean(owners, ids).values()) <= LIMIT


def assert_nothing_open(cluster: Cluster) -> None:
    topologies: list[Topology] = [topology_of(node) for node in cluster.masters]
    assert not any(entry.migrating or entry.importing for topology in topologies for entry in topology.nodes)


def assert_no_complaint(cluster: Cluster) -> None:
    """redis-cli --cluster check, which Valkey's is the same as, where it is installed; else what it looks at."""
    assert_nothing_open(cluster)
    for node in cluster.masters:
        assert owners_of(node) == owners_of(cluster.masters[0])
        assert "" not in owners_of(node)
    tool = shutil.which("valkey-cli") or shutil.which("redis-cli")
    if tool is not None:
        told = subprocess.run(
            [tool, "--cluster", "check", f"127.0.0.1:{cluster.masters[0].port}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode == 0, told.stdout
        assert "[OK] All nodes agree about slots configuration" in told.stdout
        assert "[OK] All 16384 slots covered" in told.stdout


def stop_in_the_middle(root: Path, cluster: Cluster, how: signal.Signals) -> int:
    """Begin the plan of the dry run or resume it, slowly, send a signal after some rows of the journal, and return the exit code."""
    stored, written = read_unchanged_plan(str(root), "latest"), commits(root)
    process = start(root, cluster, "--apply", "--plan", stored.plan_id, *slowly(stored, 20))
    while commits(root) < written + 4 and process.poll() is None:
        time.sleep(0.001)
    assert process.poll() is None, process.communicate()
    process.send_signal(how)
    return process.wait()


def join(cluster: Cluster, newcomers: list[Server]) -> Cluster:
    """Let empty masters join."""
    for node in newcomers:
        cluster.masters[0].call("CLUSTER", "MEET", "127.0.0.1", node.port)
    whole = Cluster([*cluster.masters, *newcomers])
    wait_for(lambda: all(knows(a, b) for a in whole.masters for b in whole.masters), "all to know each other")
    whole.settle(cluster_state="ok")
    return whole


def drain(root: Path, nodes: list[Server]) -> Path:
    """A placement that empties *nodes*."""
    path = root / "drain.toml"
    path.write_text("".join(f'[[nodes]]\nnode = "127.0.0.1:{node.port}"\ndrain = true\n' for node in nodes))
    return path


def grow_and_shrink(
    runs: Runs, cluster: Cluster, newcomers: list[Server], placement: Path, *, is_large: bool
) -> dict[str, int]:
    """Nine masters that are balanced, then six again, the others empty; return the slot ranges after each."""
    whole = join(cluster, newcomers)
    runs.settle(whole)
    assert_balanced(whole, is_large=is_large)
    assert_no_complaint(whole)
    grown = count_ranges(owners_of(whole.masters[0]))

    runs.settle(whole, "--placement", placement)
    assert [node.call("DBSIZE") for node in newcomers] == [0, 0, 0]
    assert_balanced(cluster, is_large=is_large)
    assert_no_complaint(whole)
    return {"grown": grown, "shrunk": count_ranges(owners_of(cluster.masters[0]))}


@pytest.mark.slow  # its parts are shown on a small cluster by test_rebalance.py
@pytest.mark.parametrize(("kind", "keys"), [("valkey", SMALL), ("redis", SMALL), ("valkey", LARGE), ("redis", LARGE)])
def test_a_cluster_is_balanced_grown_and_shrunk_by_one_command(kind, keys, tmp_path, capsys):
    """To 1.02 in keys and memory; killed, paused, and resumed; three empty masters filled and drained; nothing lost, and no
    tool complains."""
    binary = valkey_binary() if kind == "valkey" else redis_binary()
    if binary is None:
        pytest.skip(f"{kind}-server is not installed")
    is_large, seen = keys == LARGE, {}
    root = tmp_path / "root"
    runs = Runs(root, capsys, () if is_large else ("--rate", 20_000))
    with ExitStack() as stack:
        # an emptied master stays one, as an operator who wants it back has it
        settings = {"cluster_allow_replica_migration": "no"}
        cluster = stack.enter_context(running_cluster(binary, masters=6, **settings))
        load_skewed(cluster, keys)
        assert worst(figures(cluster)["keys"]) > 1.2
        client = stack.enter_context(steady_client(cluster.masters[0].port))
        time.sleep(10 if is_large else 0.5)
        client.stretch()
        time.sleep(20 if is_large else 0.5)
        seen["alone"] = client.stretch()

        code, said, seconds = runs.run(cluster)
        seen["dry run"] = client.stretch() | {"seconds": round(seconds, 1)}
        assert code == OK, said
        assert "dry run: nothing was changed" in said

        stop_in_the_middle(root, cluster, signal.SIGKILL)
        assert stop_in_the_middle(root, cluster, signal.SIGINT) == PAUSED
        assert_nothing_open(cluster)
        code, said, seconds = runs.run(cluster, "--apply")
        seen["apply"] = client.stretch() | {"seconds": round(seconds, 1)}
        assert "is unfinished: resuming it" in said
        assert code in (OK, PROMISE_BROKEN), said
        runs.settle(cluster)
        assert_balanced(cluster, is_large=is_large)
        seen["balance"] = {name: round(worst(values), 4) for name, values in figures(cluster).items()}
        if is_large:  # of nine, those that gave slots away keep hash tables for the keys that they had
            assert seen["balance"]["used_memory"] <= LIMIT
        ranges = seen["ranges"] = {"balanced": count_ranges(owners_of(cluster.masters[0]))}
        assert_no_complaint(cluster)

        if kind == "valkey" or is_large:  # key by key, a third of all slots twice is for the slow tests
            newcomers = [stack.enter_context(running(binary, cluster=True, **settings)) for _ in range(3)]
            ranges |= grow_and_shrink(runs, cluster, newcomers, drain(tmp_path, newcomers), is_large=is_large)
        seen["all moves"] = client.stretch()
        seen["end"] = client.end()

    assert max(seen["ranges"].values()) <= RANGES_MAX
    assert seen["end"]["lost"] == []
    assert seen["end"]["written"] > 100
    with capsys.disabled():
        sys.stderr.write(f"\n{kind}, {keys:,} keys: {json.dumps(seen)}\n")
