"""Promised against measured: what counts as kept, as broken, and as not to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from cluster_core.rebalance.audit import SLACK, MasterLoads, audit_left_behind, audit_load, audit_owners, heaviest_share
from cluster_core.rebalance.execution.cluster_now import ClusterSight, NodeSight
from cluster_core.rebalance.goal.problem import Master
from cluster_core.rebalance.planner import make_plan
from cluster_core.rebalance.stored_plan import PlannedNode, StoredPlan
from cluster_core.slots.slot_set import SlotSet
from tests.builders.cluster_sights import slots_by_owner
from tests.builders.rebalance_problems import problem


@cache
def stored() -> StoredPlan:
    """A plan for two masters, one with nearly all load."""
    loads = {"serialized_bytes": [10, 10, 10, 10, 2, 2, 2, 2], "keys": [1] * 8}
    request = problem(loads, "aaaabbbb", "ab", tolerance=0.2)
    nodes = tuple(PlannedNode(master.id, f"{master.id}:6379", "", 1) for master in request.masters)
    return StoredPlan("0" * 12, "s", request, make_plan(request), (), nodes, "", 0)


def seen(owners: Sequence[str] | None = None, opened: Sequence[int] = ()) -> NodeSight:
    """The view of a node, by default with the planned owners."""
    views = slots_by_owner(owners or stored().plan.owners_after)
    return NodeSight("a", "b:1", owners=views, migrating=dict.fromkeys(opened, "b"))


def test_owners_are_as_planned_when_every_node_sees_them() -> None:
    owners, opened = audit_owners(stored(), ClusterSight({"a": seen(), "b": seen()}))

    assert (owners.kept, opened.kept) == (True, True)
    assert "8 slots" in owners.detail


def test_a_node_that_sees_other_owners_is_named_with_the_slots() -> None:
    slot = stored().plan.moves[0].slot
    stale = list(stored().plan.owners_after)
    stale[slot] = "a" if stored().plan.owners_after[slot] == "b" else "b"
    owners, _ = audit_owners(stored(), ClusterSight({"a": seen(), "b": seen(stale)}))

    assert owners.kept is False
    assert owners.measured == 1
    assert owners.detail.startswith(f"b:1: slots {slot} are not as planned (slot {slot} belongs to {stale[slot]}:6379")
    owners, _ = audit_owners(stored(), ClusterSight({"a": seen(stale), "b": seen(stale)}))
    assert owners.detail.startswith(f"all 2 nodes: slots {slot} are not as planned")


def test_an_unreachable_node_fails_the_audit() -> None:
    owners, _ = audit_owners(stored(), ClusterSight({"a": seen()}, {"b:1": "refused"}))

    assert owners.kept is False
    assert "b:1 did not answer: refused" in owners.detail


def test_a_failed_node_without_slots_passes_the_audit() -> None:
    """After a failover the former master is down; a node that the others still reach, or that has slots, counts."""
    away = {"z:1": "refused"}
    failed = replace(seen(), addresses={"z": "z:1"}, unreachable=("z",))
    owners, _ = audit_owners(stored(), ClusterSight({"a": failed, "b": failed}, away))

    assert owners.kept is True
    assert owners.detail.endswith("on all 2 nodes that answer; failed, without slots: z:1")

    reached = replace(failed, unreachable=())
    owning = replace(failed, owners=failed.owners | {"z": SlotSet([0])})
    for other in (reached, owning):
        assert audit_owners(stored(), ClusterSight({"a": failed, "b": other}, away))[0].kept is False


def test_open_slots_fail_the_audit() -> None:
    _, opened = audit_owners(stored(), ClusterSight({"a": seen(opened=[3]), "b": seen(opened=[3, 7])}))

    assert (opened.kept, opened.measured) == (False, 2)
    assert "slots 3 7 " in opened.detail


def test_keys_left_at_the_former_owner_are_reported() -> None:
    """COUNTKEYSINSLOT there must be 0."""
    clean = audit_left_behind(stored(), {("a", 1): 0, ("a", 2): 0})
    audit = audit_left_behind(stored(), {("a", 1): 0, ("a", 2): 5})

    assert clean.kept is True
    assert clean.detail == "the former owners hold no key of 2 of 4 moved slots; the rest do not answer"
    assert (audit.kept, audit.measured, audit.allowed) == (False, 5, 0)
    assert audit.detail == "a:6379 (a) holds 5 keys of slots 2"


def load(**loads: float) -> MasterLoads:
    """Measured bytes of masters."""
    return MasterLoads("serialized_bytes", loads, "by hand")


def test_a_load_within_the_limit_passes_the_audit() -> None:
    """The announced load is promised; the limit with some slack is allowed."""
    audit = audit_load(stored(), load(a=26, b=22))
    reach = stored().plan.reach[0]

    assert audit.kept is True
    assert audit.promised == float(reach.after)
    assert audit.measured == pytest.approx(26 / 24)
    assert audit.allowed == pytest.approx(float(reach.limit) + SLACK)


def test_a_load_with_an_error_across_the_limit_is_unknown() -> None:
    """Neither kept nor broken: 1.21 of 1.205 that are allowed, and 1.19; a smaller error tells."""
    over, under = load(a=1.21 * 24, b=0.79 * 24), load(a=1.19 * 24, b=0.81 * 24)
    unknown = [audit_load(stored(), replace(promise, errors={"a": 1.0})) for promise in (over, under)]

    assert [(promise.kept, promise.is_unknown) for promise in unknown] == [(None, True)] * 2
    assert all(promise.detail.startswith("unknown: 1.205× are allowed") for promise in unknown)
    assert unknown[0].error == pytest.approx(1.96 / 24)
    broken = audit_load(stored(), replace(over, errors={"a": 0.05}))
    assert broken.kept is False
    assert "heaviest is a:6379 (a)" in broken.detail
    assert audit_load(stored(), replace(under, errors={"a": 0.05})).kept is True


@pytest.mark.parametrize("measured", [load(), load(a=0, b=0), MasterLoads("cpu_usec", {"a": 3.0}, "by hand")])
def test_unplanned_and_unmeasured_loads_are_not_compared(measured: MasterLoads) -> None:
    assert audit_load(stored(), measured).kept is None


def test_shares_go_by_weight_and_leave_out_masters_that_take_nothing() -> None:
    """As in the plan: the load of an excluded master is not shared, that of a drained master is shared by all."""
    masters = [Master("a", weight=3), Master("b"), Master("x", excluded=True), Master("d", drained=True)]
    other = replace(stored(), problem=replace(stored().problem, masters=masters))
    audit, heaviest, _ = heaviest_share(other, load(a=60, b=30, x=1000, d=10))

    assert heaviest == "b"
    assert audit == pytest.approx(30 / 25)
