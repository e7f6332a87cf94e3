"""A node of the core as a member of a real cluster: it joins, detects a failure, votes and refuses votes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.flags import FAIL, PFAIL
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.wire.bus_message import MessageType
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.live_machines import LiveNode, give_slot_0, is_well, join, line_of, living_node
from tests.benches.servers import installed, redis_binary, valkey_binary, wait_for

T_MS = 1500
SERVERS = [pytest.param(VALKEY_9_1, id="valkey"), pytest.param(REDIS_7_0, id="redis", marks=pytest.mark.slow)]


@contextmanager
def cluster_of(profile: Profile, **layout: int) -> Iterator[Cluster]:
    """A real cluster of the server that has these rules."""
    binary = installed(valkey_binary() if profile is VALKEY_9_1 else redis_binary())
    with running_cluster(binary, cluster_node_timeout=T_MS, cluster_require_full_coverage="no", **layout) as cluster:
        yield cluster


def log_of(node) -> str:
    return (node.directory / "server.log").read_text("utf-8", "replace")


def current_epoch(node) -> int:
    info = node.call("CLUSTER", "INFO").decode()
    return int(info.split("cluster_current_epoch:")[1].split("\r\n")[0])


def counters(member: LiveNode) -> dict[str, int]:
    lines = [line.split(":") for line in member.order("CLUSTER", "INFO").split() if "messages" in line]
    return {name: int(value) for name, value in lines}


@pytest.mark.slow  # that it joins is part of each test below
@pytest.mark.parametrize("profile", SERVERS)
def test_it_joins_and_stays_connected_and_unflagged(profile):
    """By MEET, in every node's list for ten node timeouts, with an answer to every ping."""
    with (
        cluster_of(profile, masters=3, replicas=1) as cluster,
        living_node(node_timeout_ms=T_MS, profile=profile) as member,
    ):
        join(member, cluster)
        end = time.monotonic() + 10 * T_MS / 1000
        seen = 0
        while time.monotonic() < end:
            assert all(is_well(line_of(node, member.id)) for node in cluster.nodes)
            seen += 1
            time.sleep(0.25)
        mine = member.order("CLUSTER", "NODES")
        figures = counters(member)

    assert seen > 30
    assert mine.count("connected") == 5
    assert "fail" not in mine
    for sent, answered in (("ping_sent", "pong_received"), ("ping_received", "pong_sent")):
        sent_count, answered_count = (figures[f"cluster_stats_messages_{name}"] for name in (sent, answered))
        assert abs(sent_count - answered_count) <= 10
        assert sent_count > 5 * 10 * 0.9


def win(replica) -> None:
    wait_for(lambda: topology_of(replica).by_id[topology_of(replica).my_id].is_master, "the replica to win")


@pytest.mark.parametrize("profile", SERVERS)
def test_its_vote_is_enough(profile):
    """Three masters vote, one of them ours; a real one with a replica dies: two of three must agree (R53, R90)."""
    with (
        cluster_of(profile, masters=2, replicas=1) as cluster,
        living_node(node_timeout_ms=T_MS, profile=profile) as member,
    ):
        join(member, cluster)
        give_slot_0(member, cluster)
        dead, witness, replica = cluster.masters[0], cluster.masters[1], cluster.replicas[0]
        dead.process.kill()
        win(replica)
        winner = topology_of(replica).my_id
        wait_for(lambda: is_well(line_of(witness, winner)), "the others to see it")

        assert "Failover election won" in log_of(replica)
        assert member.logged(f"Failover auth granted to {winner}")
        mine = next(line for line in member.order("CLUSTER", "NODES").splitlines() if line.startswith(winner))
        assert is_well(mine.split())


def already_voted(view, request):
    view.last_vote_epoch = request.current_epoch


def not_failing(view, request):
    view.nodes[request.replicaof].flags &= ~(FAIL | PFAIL)


def newer_owner(view, request):
    view.nodes[request.replicaof].config_epoch = request.config_epoch + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "changed", "reason"),
    [
        (VALKEY_9_1, already_voted, "already voted for epoch"),
        (REDIS_7_0, not_failing, "its master is up"),
        (VALKEY_9_1, newer_owner, "slot"),
    ],
)
def test_without_its_vote_the_election_stalls(profile, changed, reason):
    """A second vote in one epoch, a master that does not fail, slots of a newer epoch: it refuses, and the replica waits (R90).

    What it believes is changed just before it reads a request; everything else is as in the run that wins.  (Valkey 9.1 asks
    with FORCEACK, which a master that is up does not stop.)
    """
    with (
        cluster_of(profile, masters=2, replicas=1) as cluster,
        living_node(node_timeout_ms=T_MS, profile=profile) as member,
    ):
        join(member, cluster)
        give_slot_0(member, cluster)
        node, handle = member.node, member.node.handle

        def handle_changed(event, now_ms):
            if isinstance(event, MessageReceived) and event.message.header.type == MessageType.AUTH_REQUEST:
                changed(node.view, event.message.header)
            return handle(event, now_ms)

        node.handle = handle_changed
        replica = cluster.replicas[0]
        cluster.masters[0].process.kill()
        wait_for(lambda: "Waiting for votes, but majority still not reached" in log_of(replica), "the replica to wait")
        time.sleep(2 * T_MS / 1000)

        assert not topology_of(replica).by_id[topology_of(replica).my_id].is_master
        assert member.logged("Failover auth denied")
        assert member.logged(reason)
        assert not member.logged("Failover auth granted")


def test_real_nodes_learn_of_a_death_from_it():
    """The last to see it, it has the others' reports by then: it decides, and its FAIL is in their logs (R53, R54)."""
    with cluster_of(VALKEY_9_1, masters=3) as cluster, living_node(node_timeout_ms=2 * T_MS) as member:
        join(member, cluster)
        give_slot_0(member, cluster)
        dead_id = cluster.masters[2].call("CLUSTER", "MYID").decode()
        cluster.masters[2].process.kill()
        wait_for(
            lambda: any(f"FAIL message received from {member.id}" in log_of(node) for node in cluster.masters[:2]),
            "a FAIL of ours in a real node's log",
        )

        lines = [
            line
            for node in cluster.masters[:2]
            for line in log_of(node).splitlines()
            if f"received from {member.id}" in line
        ]
        assert all(dead_id in line for line in lines)
