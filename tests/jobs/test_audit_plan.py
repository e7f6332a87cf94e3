"""`slotscope plan audit`: a real cluster and a snapshot after a plan was carried out, before it was, and where something went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.stored_plan import PlannedNode, StoredPlan
from cluster_core.slots.key_slot import key_slot
from jobs.audit_plan import Request
from schemas.rebalance import PLAN_AUDITS
from slotscope.pipelines.rebalance.audit import audit_plan
from slotscope.pipelines.rebalance.plan import MadePlan, make_plan
from slotscope.pipelines.rebalance.rows import write_plan
from slotscope.runtime.failure import PROMISE_BROKEN
from slotscope.runtime.storage.delta_files import read_rows
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.moving_cluster import owners_of
from tests.benches.program import slotscope, without_progress
from tests.benches.servers import SLOT_COUNT, free_port, installed, valkey_binary, wait_for

pytestmark = pytest.mark.servers

MADE_MS = 1_790_000_000_000
KEY_BYTES = 200


def hot_slots(first: int, last: int, count: int) -> dict[int, bytes]:
    """Slots of a range with a hash tag for each."""
    tags: dict[int, bytes] = {}
    number = 0
    while len(tags) < count:
        tag = b"t%d" % number
        if first <= key_slot(b"{%s}" % tag) <= last:
            tags.setdefault(key_slot(b"{%s}" % tag), tag)
        number += 1
    return tags


def stored_for(problem: Problem, root: str, addresses: dict[str, str]) -> StoredPlan:
    nodes = [PlannedNode(master.id, addresses[master.id], "", 1) for master in problem.masters]
    made = make_plan(problem, nodes, snapshot_id="", created_at_ms=MADE_MS)
    write_plan(root, made, bad_records=0, parts={})
    return made.stored


# -- a live cluster ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three masters; the first holds two thirds of the keys, 120 slots under one tag each."""
    with running_cluster(
        installed(valkey_binary()), masters=3, replicas=1, cluster_slot_stats_enabled="yes"
    ) as running_one:
        for at, keys in enumerate((40, 10, 10)):
            slots = hot_slots(*running_one.slots_of(at), 40)
            running_one.masters[at].ask(
                [("SET", b"{%s}:%05d" % (tag, n), b"v" * KEY_BYTES) for tag in slots.values() for n in range(keys)]
            )
        yield running_one


def problem_of(cluster: Cluster, **more: Any) -> Problem:
    """Keys and bytes of every slot as they are now, with the owners of now."""
    owners = [""] * SLOT_COUNT
    for node in topology_of(cluster.masters[0]).nodes:
        for slot in node.slots:
            owners[slot] = node.id
    keys: Counter[int] = Counter()
    for master in cluster.masters:
        keys.update(key_slot(key) for key in master.call("KEYS", "*"))
    loads = [keys[slot] for slot in range(SLOT_COUNT)]
    resources = {"memory_bytes": [300 * count for count in loads], "keys": loads} | more
    masters = [Master(name) for name in sorted(set(owners))]
    return Problem(
        resources, owners, masters, cost="memory_bytes", tolerance=0.1, headroom=0.3
    )  # keys differ by some bytes


def carry_out(cluster: Cluster, stored: StoredPlan) -> None:
    """Move the slots by Valkey's own jobs, and wait until every node knows."""
    nodes = {node.call("CLUSTER", "MYID").decode(): node for node in cluster.nodes}
    for batch in stored.batches:
        for job in batch.jobs:
            bounds = [bound for pair in job.ranges for bound in pair]
            nodes[job.source].call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", *bounds, "NODE", job.target)
            wait_for(lambda job=job: owner_of(nodes[job.source], job.slots[0]) == job.target, "a job to end")
    planned = list(stored.plan.owners_after)
    wait_for(lambda: all(owners_of(node) == planned for node in cluster.nodes), "all to know")


def owner_of(node: Any, slot: int) -> str:
    """Whose slot it is in the view of *node*."""
    return next((node_line.id for node_line in topology_of(node).nodes if slot in node_line.slots), "")


def audit(*arguments: str) -> int:
    return slotscope("audit-plan", *arguments)


def addresses_of(cluster: Cluster) -> dict[str, str]:
    return {node.call("CLUSTER", "MYID").decode(): f"127.0.0.1:{node.port}" for node in cluster.masters}


def by_aspect(root: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of gold/plan_audits by aspect and resource."""
    return {(row["aspect"], row["resource"]): row for row in read_rows(root, PLAN_AUDITS)}


def test_a_plan_is_audited_before_and_after_its_execution(cluster, tmp_path, capsys):
    """Before: owners are not as planned, loads are over; after: every promise is kept. An audit replaces the one before it."""
    root = str(tmp_path)
    stored = stored_for(problem_of(cluster), root, addresses_of(cluster))
    where = f"127.0.0.1:{cluster.nodes[0].port}"
    assert stored.plan.moves

    before = audit("--root", root, "--plan", stored.plan_id, "--cluster", where)
    text_before, rows_before = capsys.readouterr().out, by_aspect(root)
    carry_out(cluster, stored)
    after = audit("--root", root, "--cluster", where)
    text_after, rows = capsys.readouterr().out, by_aspect(root)

    assert (before, after) == (PROMISE_BROKEN, 0), text_after
    assert "promises of the plan are broken" in text_before
    assert rows_before["owners", ""]["measured"] == len(stored.plan.moves)
    assert [rows_before["load", name]["kept"] for name in ("keys", "memory_bytes")] == [False, False]
    assert "The plan kept its promises." in text_after
    assert len(read_rows(root, PLAN_AUDITS)) == len(rows) == len(rows_before)
    assert rows["keys left behind", ""]["measured"] == 0
    for name in ("keys", "memory_bytes"):
        row, reach = rows["load", name], next(reach for reach in stored.plan.reach if reach.resource == name)
        assert row["kept"] is True
        assert row["measured"] == pytest.approx(float(reach.after), abs=0.02)
    assert "MEMORY USAGE of" in rows["load", "memory_bytes"]["detail"]


def test_processor_time_is_compared_over_a_window_and_not_made_up_without_one(cluster, tmp_path):
    """A plan of dump sizes is not compared: live servers do not report them."""
    root = str(tmp_path)
    where = f"127.0.0.1:{cluster.nodes[0].port}"
    uniform = [1] * SLOT_COUNT
    wide = replace(
        problem_of(cluster, cpu_usec=uniform, serialized_bytes=uniform), tolerance=5.0
    )  # nothing to search for
    stored_for(wide, root, addresses_of(cluster))

    audit_plan(Request(root=root, cluster=where))
    without = by_aspect(root)["load", "cpu_usec"]
    audit_plan(Request(root=root, cluster=where, window=0.3))
    rows = by_aspect(root)

    assert (without["kept"], without["measured"]) == (None, None)
    assert "--window measures it" in without["detail"]
    assert "SLOT-STATS over 0.3 s" in rows["load", "cpu_usec"]["detail"]
    assert rows["load", "serialized_bytes"]["kept"] is None
    assert "memory was measured" in rows["load", "serialized_bytes"]["detail"]


def test_keys_of_a_drained_master_that_became_a_replica_are_those_of_its_master(cluster, tmp_path, capsys):
    root, drained = str(tmp_path), cluster.masters[2]
    problem, name = problem_of(cluster), drained.call("CLUSTER", "MYID").decode()
    masters = [replace(master, drained=master.id == name) for master in problem.masters]
    stored = stored_for(replace(problem, masters=masters), root, addresses_of(cluster))
    carry_out(cluster, stored)
    wait_for(lambda: drained.call("ROLE")[0] == b"slave" and drained.call("DBSIZE"), "the replica to synchronise")

    code = audit("--root", root, "--cluster", f"127.0.0.1:{cluster.nodes[0].port}")

    assert code == 0, capsys.readouterr().out
    assert by_aspect(root)["keys left behind", ""]["measured"] == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--cluster", "127.0.0.1:0"), "write HOST:PORT"),
        (("--cluster", "FREE"), "refused"),
        (("--cluster", "a:1", "--seconds", "-1"), "--window and --seconds must be"),
        (("--cluster", "a:1", "--plan", "zz"), "0 plans have that id"),
    ],
)
def test_a_failed_audit_is_one_line_and_leaves_no_rows(tmp_path, capsys, arguments, why):
    root = str(tmp_path)
    stored_by_hand(root)
    arguments = tuple(f"127.0.0.1:{free_port()}" if word == "FREE" else word for word in arguments)

    code = audit("--root", root, *arguments)
    errors = without_progress(capsys.readouterr().err)

    assert code == 2
    assert len(errors) == 1
    assert errors[0].startswith("slotscope: ")
    assert why in errors[0]
    assert not (tmp_path / PLAN_AUDITS.name).exists()


# -- a plan by hand --------------------------------------------------------------------------------------------------------

A, B = "a" * 40, "b" * 40
ADDRESSES = {A: "127.0.0.1:7001", B: "127.0.0.1:7002"}
PROBLEM = Problem(
    {
        "serialized_bytes": [100 if slot < 60 else 20 if slot < 120 else 0 for slot in range(SLOT_COUNT)],
        "keys": [1 if slot < 120 else 0 for slot in range(SLOT_COUNT)],
        "ops": [1 if slot < 120 else 0 for slot in range(SLOT_COUNT)],
    },
    [A if slot < 60 or slot >= 8192 else B for slot in range(SLOT_COUNT)],
    [Master(A), Master(B)],
    tolerance={"serialized_bytes": 0.1, "keys": 0.5, "ops": 0.5},
)


@cache
def made_by_hand() -> MadePlan:
    """The plan for `PROBLEM`, made once."""
    nodes = [PlannedNode(master.id, ADDRESSES[master.id], "", 1) for master in PROBLEM.masters]
    return make_plan(PROBLEM, nodes, snapshot_id="", created_at_ms=MADE_MS)


def stored_by_hand(root: str) -> StoredPlan:
    write_plan(root, made_by_hand(), bad_records=0, parts={})
    return made_by_hand().stored
