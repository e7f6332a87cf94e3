"""How fast slots move: limits that are kept, and a cluster that has to be well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.rebalance.execution.cluster_now import ClusterSight, Path
from cluster_core.rebalance.execution.machine import Execution, Verdict
from cluster_core.rebalance.execution.run_state import CALM_S
from cluster_core.rebalance.execution.situation import Settings, migrate_ms, seconds_of
from tests.benches.simulated_cluster import SimulatedCluster
from tests.builders.cluster_sights import SeenCluster, stored_plan, thirds

A, B, C = IDS = tuple(letter * 40 for letter in "abc")
SLOT_BYTES = 10
"""What each slot of these plans has."""
QUICK = Settings(patience_s=30, settle_s=30, job_timeout_s=60, group=4, groups_a_row=2)
PROFILES = {Path.LEGACY: "redis-7.0", Path.VALKEY_JOBS: "valkey-9.1"}


def latency_of(cluster: SimulatedCluster, beside_ms: float, alone_ms: float) -> None:
    """Let clients of *cluster* wait *beside_ms* until three seconds after a command, and *alone_ms* else."""
    last_s = [-100.0]
    cluster.on_command = lambda command: last_s.__setitem__(0, cluster.now_s)
    cluster.latency_ms = lambda: beside_ms if cluster.now_s - last_s[0] < 3 else alone_ms


def moving(path: Path, **limits):
    """A simulated cluster on which a plan of 24 slots was carried out under *limits*; the seconds that took."""
    cluster = SimulatedCluster(thirds(IDS), IDS, profile=PROFILES[path])
    latency_of(cluster, limits.pop("latency_ms", 0.0), 0.5)
    stored = stored_plan(cluster, [(slot, A, B if slot % 2 else C) for slot in range(24)])
    begun_s = cluster.now_s
    outcome = cluster.drive(Execution(stored, [], None, replace(QUICK, **limits)))
    assert outcome.verdict is Verdict.FINISHED
    assert cluster.owners() == list(stored.plan.owners_after)
    return cluster, cluster.now_s - begun_s


@pytest.mark.long
@pytest.mark.parametrize("path", PROFILES)
def test_no_more_bytes_move_in_a_second_than_are_allowed(path):
    """240 bytes at 12 a second take 20 s, and little more than that; the journal shows that they came in pieces."""
    _, free_s = moving(path)
    cluster, slow_s = moving(path, bytes_per_s_max=12)

    assert free_s < 20 <= slow_s < 20 + 2 * free_s + 5
    assert sum(step.step == "done" for step in cluster.journal) > 1


@pytest.mark.long
@pytest.mark.parametrize("path", PROFILES)
def test_slow_clients_are_given_time(path):
    """While each look shows too long a latency, pieces shrink and rests grow; healthy clients slow nothing, and the figure is shown."""
    _, free_s = moving(path)
    pace, well_s = moving(path, latency_ms_max=5, latency_ms=1.5)
    _, slow_s = moving(path, latency_ms_max=5, latency_ms=50)

    assert well_s < free_s + CALM_S + 1
    assert slow_s > free_s + CALM_S + 0.05
    assert any("client latency 1.5 ms (p99)" in line for line in pace.progress)


@pytest.mark.long
@pytest.mark.parametrize("path", PROFILES)
def test_slow_clients_before_any_move_stop_the_run_with_a_message(path):
    """From the beginning: the run ends after its patience.  From the middle: it goes on when they are well again."""
    cluster = SimulatedCluster(thirds(IDS), IDS, profile=PROFILES[path])
    stored = stored_plan(cluster, [(slot, A, B) for slot in range(24)])
    latency_of(cluster, 50, 20)
    never = cluster.drive(Execution(stored, [], None, replace(QUICK, latency_ms_max=5)))

    assert never.verdict is Verdict.PAUSED
    assert "client latency is 20.0 ms (p99) while nothing moves: no pace keeps it within 5 ms" in never.sentences[0]
    assert cluster.owners() == thirds(IDS)

    calm_s = cluster.now_s + 10
    cluster.latency_ms = lambda: 20.0 if cluster.now_s < calm_s else 1.0
    later = cluster.drive(Execution(stored, [], None, replace(QUICK, latency_ms_max=5)))

    assert later.verdict is Verdict.FINISHED
    assert cluster.now_s > calm_s
    assert any("nothing moves until client latency is within 5 ms" in line for line in cluster.progress)


@pytest.mark.parametrize(
    ("timeouts_ms", "patience_s", "expected_ms"),
    [
        ((15000, 2000, 15000), 60, 1000),
        ((60000, 0, 60000), 60, 7500),
        ((600000,) * 3, 600, 60000),
        ((15000,) * 3, 0, 500),
    ],
)
def test_migrate_waits_half_of_the_shortest_node_timeout_and_of_the_patience(timeouts_ms, patience_s, expected_ms):
    """The servers' default stands in for a timeout that a server does not report."""
    changed = {name: {"node_timeout_ms": ms} for name, ms in zip("abc", timeouts_ms, strict=True)}

    assert migrate_ms(SeenCluster(thirds(), changed=changed).look("abc"), patience_s) == expected_ms


def test_the_dry_run_estimates_the_duration_at_the_allowed_pace():
    cluster = SeenCluster(thirds())
    stored = stored_plan(cluster, [(slot, "a", "b") for slot in range(100)])

    assert sum(seconds_of(stored, stored.batches, Path.LEGACY)) < 5
    assert sum(seconds_of(stored, stored.batches, Path.LEGACY, 10)) == 100 * SLOT_BYTES / 10


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"unreachable": ("q", "r")}, "{b} does not reach r:1 (r)"),
        ({"replicas_online": 1}, "1 of 2 replicas have lost their master (INFO replication)"),
        ({"cluster_ok": False}, "{b} says that the cluster is not ok (cluster_state)"),
        ({"used_memory": 96, "memory_max": 100}, "{b} uses more than 95% of its maxmemory of 100 bytes"),
    ],
)
def test_a_run_waits_for_new_problems(changed, text):
    """A node that fails in the middle: reported, waited for, ended; nothing begins meanwhile. Known problems delay nothing."""
    cluster = SimulatedCluster(thirds(IDS), IDS, profile="redis-7.0")
    stored = stored_plan(cluster, [(slot, A, B) for slot in range(200)])
    look, moved, begun_s = cluster.look, [], cluster.now_s
    usual = {"replicas_online": 2, "unreachable": ("q",), "addresses": {"q": "q:1", "r": "r:1"}}

    def seen(names):
        sight, is_bad = look(names), 5 < cluster.now_s - begun_s < 15
        moved.extend([sum(owner == B for owner in sight.owner_list())] if is_bad else [])
        facts = {A: {"memory_max": 100, "used_memory": 96}, B: usual | (changed if is_bad else {})}
        return ClusterSight({name: replace(node, **facts.get(name, {})) for name, node in sight.nodes.items()})

    cluster.look = seen
    outcome = cluster.drive(Execution(stored, [], None, replace(QUICK)))

    assert outcome.verdict is Verdict.FINISHED
    assert len(set(moved)) == 1
    waits = [line for line in cluster.progress if line.startswith("waiting: ")]
    assert waits
    assert all(text.format(b=cluster.called(B)) in line for line in waits)
    assert "going on: the cluster is healthy again" in cluster.progress
    assert cluster.now_s > begun_s + 15
