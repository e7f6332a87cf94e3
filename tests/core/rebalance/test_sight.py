"""What nodes answer, read into values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cluster_core.errors import DecodeError
from cluster_core.rebalance.execution.cluster_now import (
    ClusterSight,
    JobSight,
    NodeSight,
    read_jobs,
    read_node,
)
from cluster_core.slots.slot_set import SlotSet

A, B = "a" * 40, "b" * 40
NODES = (
    f"{A} 10.0.0.1:7000@17000 myself,master - 0 0 5 connected 0-8191 [7->-{B}] [9000-<-{B}]\n"
    f"{B} 10.0.0.2:7000@17000 master,fail? - 0 0 6 connected 8192-16383\n"
).encode()
STATE = b"cluster_state:ok\r\ncluster_slots_ok:16384\r\n"
INFO = (
    b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n# Memory\r\nused_memory:1000\r\n"
    b"used_memory_dataset:400\r\nmaxmemory:5000\r\n# Keyspace\r\ndb0:keys=12,expires=0\r\ndb4:keys=3,expires=0\r\n"
)


def test_a_node_is_read_from_three_answers():
    """CLUSTER NODES, CLUSTER INFO, INFO."""
    seen = read_node(A, NODES, STATE, INFO)

    assert (seen.product, seen.version, seen.server) == ("valkey", (9, 1, 2), "valkey 9.1.2")
    assert (seen.is_master, seen.config_epoch, seen.cluster_ok, seen.slots_ok) == (True, 5, True, 16384)
    assert (seen.migrating, seen.importing) == ({7: B}, {9000: B})
    assert seen.owners == {A: SlotSet.parse("0-8191"), B: SlotSet.parse("8192-16383")}
    assert (seen.used_memory, seen.data_memory, seen.memory_max) == (1000, 400, 5000)
    assert (seen.keys, seen.databases, seen.doubted) == (15, (0, 4), (B,))
    assert seen.addresses[B] == "10.0.0.2:7000"


def test_jobs_of_valkey_and_tasks_of_redis_are_one_kind_of_value():
    """GETSLOTMIGRATIONS of Valkey 9.1 as recorded; MIGRATION STATUS of Redis 8.4 as its documentation has it."""
    valkey = [b"name", b"j1", b"operation", b"EXPORT", b"slot_ranges", b"0-10 20-30", b"target_node", B.encode(),
              b"source_node", A.encode(), b"create_time", 1, b"state", b"snapshotting", b"message", b""]  # fmt: skip
    redis = [b"id", b"t1", b"slots", b"1-3 7", b"source", A.encode(), b"dest", B.encode(), b"operation", b"import",
             b"state", b"failed", b"last_error", b"no luck", b"retries", 2, b"create_time", 1]  # fmt: skip
    job, task = read_jobs([valkey, redis])

    assert (job.name, job.outgoing, job.source, job.target, str(job.slots)) == ("j1", True, A, B, "0-10 20-30")
    assert (task.name, task.outgoing, task.message, task.retries, str(task.slots)) == (
        "t1",
        False,
        "no luck",
        2,
        "1-3 7",
    )
    assert job.is_active
    assert task.is_active  # it tries again until it is cancelled


def test_only_the_target_of_a_failed_import_tries_again():
    """asmCron of Redis 8.4: the source's half of it waits for the target's next attempt, which never comes from one that forgot it."""
    half = JobSight("t1", True, A, B, SlotSet([1]), "failed", "Connection lost", 2)
    sight = ClusterSight({A: NodeSight(A, jobs=(half,)), B: NodeSight(B)})

    assert sight.active_jobs() == []

    whole = replace(half, outgoing=False)
    assert ClusterSight({A: sight.nodes[A], B: NodeSight(B, jobs=(whole,))}).active_jobs() == [whole]


@pytest.mark.parametrize("reply", [b"OK", [b"name"], [[b"name"]], [[b"name", b"x", b"slots", b"99999"]]])
def test_another_shape_of_jobs_is_a_decode_error(reply):
    """Never a traceback."""
    with pytest.raises(DecodeError):
        read_jobs(reply)


def test_the_owner_of_a_slot_is_who_claims_it_last():
    """A target that has taken a slot has the higher epoch; others may not know it yet."""
    a = NodeSight("a", config_epoch=1, owners={"a": SlotSet([1, 2]), "z": SlotSet([3])})
    b = NodeSight("b", config_epoch=2, owners={"a": SlotSet([1]), "b": SlotSet([2]), "z": SlotSet([3])})
    both = ClusterSight({"a": a, "b": b})

    assert both.owner_list()[:4] == ["", "a", "b", "z"]
    assert both.disputed() == SlotSet([2])
