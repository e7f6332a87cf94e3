"""Lag, min-replicas, WAIT (P10), and the coordinated FAILOVER (P12)."""

from __future__ import annotations

import pytest

from cluster_core.errors import ProtocolError
from cluster_core.replication.acks import (
    Acknowledged,
    behind_bytes,
    count_acknowledged,
    count_good,
    lag_s,
    may_write,
)
from cluster_core.replication.failover import (
    Abort,
    Acked,
    Failover,
    FailoverState,
    HandOver,
    PauseWrites,
    Reply,
    ResumeWrites,
    Start,
    TakeBack,
)

REPLICAS = [Acknowledged(100, 9_000), Acknowledged(90, 1_000), Acknowledged(100, 9_500, is_online=False)]


def test_a_replica_is_good_while_it_is_online_and_heard_in_time() -> None:
    """`refreshGoodReplicasCount`."""
    assert count_good(REPLICAS, lag_max_s=5, now_ms=10_000) == 1
    assert count_good(REPLICAS, lag_max_s=9, now_ms=10_000) == 2
    assert (lag_s(REPLICAS[1], 10_000), behind_bytes(REPLICAS[1], 100)) == (9, 10)


@pytest.mark.parametrize(
    ("needed", "lag_max_s", "allowed"), [(1, 5, True), (2, 5, False), (2, 9, True), (0, 5, True), (3, 0, True)]
)
def test_a_master_writes_only_with_enough_good_replicas(needed: int, lag_max_s: int, allowed: bool) -> None:
    """min-replicas-to-write, min-replicas-max-lag; either 0 turns the rule off."""
    assert may_write(REPLICAS, needed=needed, lag_max_s=lag_max_s, now_ms=10_000) is allowed


def test_wait_counts_online_replicas_that_have_the_offset() -> None:
    """P10."""
    assert [count_acknowledged(REPLICAS, offset) for offset in (90, 100, 101)] == [2, 1, 0]


def test_a_failover_waits_for_a_replica_that_has_everything() -> None:
    """P12: pause, wait, hand over, go on."""
    failover = Failover()

    assert failover.handle(Start(), 0) == [PauseWrites()]
    assert failover.handle(Acked({"r1": 90, "r2": 99}, 100), 10) == []
    assert failover.handle(Acked({"r1": 90, "r2": 100}, 100), 20) == [HandOver("r2")]
    assert failover.state is FailoverState.RUNNING
    assert failover.handle(Reply(is_accepted=True), 30) == [ResumeWrites("handed over")]
    assert failover.state is FailoverState.NONE


def test_a_named_target_is_the_only_one_that_counts() -> None:
    """FAILOVER TO."""
    failover = Failover()
    failover.handle(Start("r1"), 0)

    assert failover.handle(Acked({"r1": 90, "r2": 100}, 100), 10) == []
    assert failover.handle(Acked({"r1": 100}, 100), 10) == [HandOver("r1")]


@pytest.mark.parametrize(
    ("start", "effects"),
    [
        (Start("r1", timeout_ms=50), [ResumeWrites("no replica caught up in time")]),
        (Start("r1", is_forced=True, timeout_ms=50), [HandOver("r1")]),
    ],
)
def test_after_its_timeout_a_failover_gives_up_or_is_forced(start: Start, effects: list) -> None:
    """FAILOVER TIMEOUT, FORCE."""
    failover = Failover()
    failover.handle(start, 0)

    assert failover.handle(Acked({"r1": 90}, 100), 49) == []
    assert failover.handle(Acked({"r1": 90}, 100), 50) == effects


def test_a_refusal_or_an_abort_takes_the_mastership_back() -> None:
    """`abortFailover`."""
    refused, aborted = Failover(), Failover()
    for failover in (refused, aborted):
        failover.handle(Start(), 0)
    refused.handle(Acked({"r1": 100}, 100), 1)

    assert refused.handle(Reply(is_accepted=False), 2) == [TakeBack(), ResumeWrites("the replica refused")]
    assert aborted.handle(Abort(), 2) == [ResumeWrites("aborted")]


def test_what_the_server_refuses_is_an_error() -> None:
    """`failoverCommand`."""
    failover = Failover()
    with pytest.raises(ProtocolError, match="No failover"):
        failover.handle(Abort(), 0)
    with pytest.raises(ProtocolError, match="force option"):
        failover.handle(Start("r1", is_forced=True), 0)
    failover.handle(Start(), 0)
    with pytest.raises(ProtocolError, match="already"):
        failover.handle(Start(), 0)
