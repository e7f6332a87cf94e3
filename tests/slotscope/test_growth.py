"""How loads of a cluster grow by what its tables have of it: snapshots of dumps, and plans that were made of what servers said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.stored_plan import PlannedNode
from slotscope.pipelines.rebalance.plan import make_plan
from slotscope.pipelines.rebalance.rows import write_plan
from slotscope.plans.growth import LIVE, Weighed, growth_since
from tests.builders.rebalance_tables import node_id, write_snapshot

NOW = datetime(2026, 3, 11, tzinfo=UTC)
THIRDS = [slot * 3 // 16384 for slot in range(16384)]
NODES = [node_id(0)]


def now(memory: float = 1100, error: float | None = 0.0, **more: Any) -> Weighed:
    """Each slot holds 12 keys."""
    return Weighed(NOW, {"memory_bytes": [memory] * 16384, "keys": [12] * 16384, **more}, error)


def write_live_plan(root: Any, ago: timedelta, memory: int = 1000, error: float | None = 0.0, nodes: int = 0) -> None:
    """A plan of `rebalance`: each slot held 10 keys; *nodes* is the number of the first master."""
    owners = [node_id(nodes + number) for number in THIRDS]
    masters = [Master(node_id(nodes + number)) for number in range(3)]
    loads = {"memory_bytes": [memory] * 16384, "keys": [10] * 16384}
    problem = Problem(loads, owners, masters, cost="memory_bytes", tolerance=9)
    listed = [PlannedNode(master.id, f"10.0.0.{n}:7000", "", n) for n, master in enumerate(masters)]
    at_ms = round((NOW - ago).timestamp() * 1000)
    made = make_plan(problem, listed, snapshot_id=LIVE, created_at_ms=at_ms)
    write_plan(str(root), made, parts={}, memory_error=error)


def test_the_newest_plan_of_the_cluster_that_is_an_hour_old_tells_how_loads_grew(tmp_path):
    """Neither one of ten minutes ago, nor one of another cluster, nor an older one."""
    write_live_plan(tmp_path, timedelta(days=20), memory=500)
    write_live_plan(tmp_path, timedelta(days=10))
    write_live_plan(tmp_path, timedelta(days=1), memory=1, nodes=5)
    write_live_plan(tmp_path, timedelta(minutes=10), memory=1099)

    growth = growth_since(str(tmp_path), NODES, now(cpu_usec=[7] * 16384))

    assert growth is not None
    assert growth.seconds == 10 * 86_400
    assert growth.since.startswith("plan ")
    assert {name: load[0] for name, load in growth.earlier.items()} == {"memory_bytes": 1000, "keys": 10}
    assert {name: load[0] for name, load in growth.later.items()} == {"memory_bytes": 1100, "keys": 12}


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [(0.0, 0.03, True), (0.06, 0.08, False), (None, 0.03, False), (0.03, None, False), (None, None, True)],
)
def test_growth_of_memory_within_its_errors_is_unknown(tmp_path, before, after, is_told):
    """A tenth more: with these errors that is growth; growth of keys is known in any case."""
    write_live_plan(tmp_path, timedelta(days=10), error=before)

    growth = growth_since(str(tmp_path), NODES, now(memory=1099, error=after))

    assert growth is not None
    assert sorted(growth.earlier) == (["keys", "memory_bytes"] if is_told else ["keys"])


def test_snapshots_are_compared_with_snapshots_and_live_plans_with_live_plans(tmp_path):
    write_snapshot(tmp_path, THIRDS, {}, name="old", memory_by_slot={}, taken_at=NOW - timedelta(days=10))

    growth = growth_since(str(tmp_path), NODES, now(memory=2200)._replace(is_snapshot=True))

    assert growth is not None
    assert growth.since == "snapshot old"
    assert sorted(growth.earlier) == ["keys", "memory_bytes"]
    assert growth_since(str(tmp_path), NODES, now(memory=2200)) is None


def test_a_snapshot_without_memory_gives_way_to_an_older_one_with_it(tmp_path):
    write_snapshot(tmp_path, THIRDS, {}, name="all", memory_by_slot={}, taken_at=NOW - timedelta(days=10))
    write_snapshot(tmp_path, THIRDS, {}, name="keys", taken_at=NOW - timedelta(days=2))

    growth = growth_since(str(tmp_path), NODES, now()._replace(is_snapshot=True))

    assert growth is not None
    assert growth.seconds == 10 * 86_400


def test_without_an_earlier_measurement_nothing_is_known_of_growth(tmp_path):
    write_snapshot(tmp_path, THIRDS, {}, name="undated", memory_by_slot={})

    assert growth_since(str(tmp_path), NODES, now()) is None
