"""Which replica is promoted, each rule by itself (S13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_core.sentinel.failover import choose_replica, why_not
from cluster_core.sentinel.instance import Address, Flag, Instance, new_instance
from cluster_core.sentinel.state import Periods

NOW = 1_000_000


def master(*, down_since_ms: int = 0) -> Instance:
    instance = new_instance(Flag.MASTER, "main", Address("10.0.0.1", 1), NOW)
    instance.down_after_ms = 1000
    if down_since_ms:
        instance.flags |= Flag.S_DOWN | Flag.O_DOWN
        instance.s_down_since_ms = down_since_ms
    return instance


def replica(of: Instance, number: int = 1, **changes: object) -> Instance:
    instance = new_instance(Flag.REPLICA, f"r{number}", Address("10.0.0.2", number), NOW, master=of)
    instance.link.disconnected = False
    instance.link.command = 1
    instance.info_ms = instance.link.available_ms = NOW
    for name, value in changes.items():
        setattr(instance.link if hasattr(instance.link, name) else instance, name, value)
    of.replicas[instance.name] = instance
    return instance


@pytest.mark.parametrize(
    ("changes", "since_ms", "reason"),
    [
        ({}, 0, ""),
        ({"flags": Flag.REPLICA | Flag.S_DOWN}, 0, "down"),
        ({"disconnected": True}, 0, "disconnected"),
        ({"available_ms": NOW - 5000}, 0, ""),
        ({"available_ms": NOW - 5001}, 0, "no ping"),
        ({"priority": 0}, 0, "priority 0"),
        ({"info_ms": NOW - 30_000}, 0, ""),
        ({"info_ms": NOW - 30_001}, 0, "old info"),
        ({"info_ms": NOW - 5001}, NOW - 1, "old info"),
        ({"master_link_down_ms": 10_000}, 0, ""),
        ({"master_link_down_ms": 10_001}, 0, "link down too long"),
        ({"master_link_down_ms": 10_500}, NOW - 500, ""),
        ({"master_link_down_ms": 10_501}, NOW - 500, "link down too long"),
    ],
)
def test_each_rule_rules_out_by_itself(changes, since_ms, reason):
    """sentinelSelectSlave, at the limits of each rule."""
    of = master(down_since_ms=since_ms)

    assert why_not(replica(of, **changes), of, Periods(), NOW) == reason


def test_priority_goes_before_offset_and_offset_before_id():
    """compareSlavesForPromotion."""
    of = master()
    replica(of, 1, priority=100, offset=999, runid="a")
    replica(of, 2, priority=50, offset=10, runid="c")
    replica(of, 3, priority=50, offset=20, runid="d")
    best = replica(of, 4, priority=50, offset=20, runid="b")
    replica(of, 5, priority=50, offset=20, runid="")

    assert choose_replica(of, Periods(), NOW) is best


def test_nobody_is_chosen_where_nobody_can_be():
    """S13: the failover is given up then."""
    of = master()
    replica(of, 1, priority=0)

    assert choose_replica(of, Periods(), NOW) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(["", "a", "B", "c"])), max_size=6))
def test_the_chosen_replica_is_the_first_in_order(facts):
    """Against a sort by the three keys, one after the other, as qsort compares."""
    of = master()
    for number, (priority, offset, runid) in enumerate(facts):
        replica(of, number, priority=priority, offset=offset, runid=runid)
    usable = [r for r in of.replicas.values() if r.priority]
    usable.sort(key=lambda r: (r.runid == "", r.runid.lower()))
    usable.sort(key=lambda r: r.offset, reverse=True)
    usable.sort(key=lambda r: r.priority)

    assert choose_replica(of, Periods(), NOW) is (usable[0] if usable else None)
