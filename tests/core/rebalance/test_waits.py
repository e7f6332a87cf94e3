"""Timeouts: half a node timeout for MIGRATE, and a note where a node timeout is assumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.rebalance.execution.cluster_now import ClusterSight
from cluster_core.rebalance.execution.waits import answer_s, migrate_ms, migrate_notes
from cluster_core.slots.key_slot import SLOT_COUNT
from tests.builders.cluster_sights import SeenCluster, stored_plan


def sight_of(*timeouts_ms: int) -> ClusterSight:
    """Masters a, b, … with these node timeouts, 0 for one that does not tell."""
    names = "abc"[: len(timeouts_ms)]
    cluster = SeenCluster([names[0]] * SLOT_COUNT, names)
    seen = cluster.look(names).nodes
    return ClusterSight(
        {name: replace(seen[name], node_timeout_ms=ms) for name, ms in zip(names, timeouts_ms, strict=True)}
    )


@pytest.mark.parametrize(
    ("timeouts_ms", "patience_s", "expected_ms"),
    [
        ((15000, 15000), 60, 7500),
        ((15000, 2000), 60, 1000),
        ((60000, 0), 60, 7500),
        ((600000,), 600, 60000),
        ((15000,), 3, 1500),
        ((15000,), 0, 500),
        ((1,), 60, 1),
    ],
)
def test_migrate_waits_half_of_the_shortest_node_timeout_and_of_the_patience(timeouts_ms, patience_s, expected_ms):
    """Where one does not tell it, the servers' default counts."""
    assert migrate_ms(sight_of(*timeouts_ms), patience_s) == expected_ms


def test_an_assumed_node_timeout_is_reported_and_a_known_one_is_not():
    """The note names who does not report it."""
    sight = sight_of(15000, 0, 0)
    stored = stored_plan(SeenCluster(["a"] * SLOT_COUNT, "abc"), [(1, "a", "b")])

    assert migrate_notes(stored, sight, 7500) == [
        "b:1 (b) and 1 more do not report cluster-node-timeout (CONFIG GET): the default, 15 s, is assumed, and MIGRATE gives up after 7.5 s"
    ]
    assert migrate_notes(stored, sight_of(15000), 7500) == []


def test_a_look_takes_what_is_left_of_the_patience_and_never_long():
    """A second at least, or nobody could answer."""
    assert [answer_s(left_s) for left_s in (60, 3, -1)] == [5, 3, 1]
