"""What the messages that reach a member tell of the others."""

from __future__ import annotations

import pytest

from cluster_core.gossip.profile import PROFILES, REDIS_7_0, VALKEY_9_1
from cluster_core.replay.company import Company
from tests.benches.node_cluster import Cluster

TICKS_MS = 200
"""A ping leaves at a tick, and the node timeout is twice what it tells."""


@pytest.mark.parametrize(
    ("masters", "replicas", "timeout_ms", "is_told"),
    [(3, 3, 2000, True), (2, 1, 1500, True), (3, 3, 5000, True), (3, 0, 15_000, False)],
)
def test_pings_tell_the_node_timeout_where_they_are_more_than_chance(masters, replicas, timeout_ms, is_told):
    """R31, R32: by what one node of a cluster receives in two minutes."""
    cluster = Cluster(masters + replicas, profile=REDIS_7_0, node_timeout_ms=timeout_ms, seed=2)
    cluster.form(masters, replicas)
    cluster.keep_messages = True
    cluster.run(120_000)
    company = Company()
    for at_ms, _, receiver, message in cluster.messages:
        if receiver == 0:
            company.note(message, at_ms)

    found_ms = company.node_timeout_ms()
    assert (found_ms is not None) == is_told
    assert found_ms is None or timeout_ms <= found_ms <= timeout_ms + TICKS_MS


def test_rules_that_fit_what_the_others_send_are_kept():
    """Redis 6.2 and 7.0 cannot be told apart: whichever is assumed stays; Valkey's cannot."""
    cluster = Cluster(3, profile=REDIS_7_0)
    cluster.keep_messages = True
    cluster.form(3)
    company = Company()
    for at_ms, _, receiver, message in cluster.messages:
        if receiver == 0:
            company.note(message, at_ms)

    assert company.profile(PROFILES["redis-6.2"]).name == "redis-6.2"
    assert company.profile(VALKEY_9_1).name == "redis-7.0"
    assert Company().profile(VALKEY_9_1) is VALKEY_9_1
