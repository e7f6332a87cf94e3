"""`slotscope lab node` among servers of other versions and node timeouts: it takes over what they have, or says that it does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from slotscope.live.member import ask_ways, profile_told
from slotscope.servers.cluster import Access, Address
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.live_member import is_well, line_of
from tests.benches.servers import Server, free_port, redis_binary, valkey_binary, wait_for

T_MS = 1500
SERVERS = {"redis": redis_binary, "valkey": valkey_binary}


@contextmanager
def cluster_of(server: str) -> Iterator[Cluster]:
    """Two masters and a replica: with a third master, two of three must see a death."""
    binary = SERVERS[server]()
    if binary is None:
        pytest.skip(f"no {server}-server is installed")
    with running_cluster(binary, masters=2, replicas=1, cluster_node_timeout=T_MS) as cluster:
        yield cluster


class Joined:
    """`slotscope lab node` as a process; *log* is where it writes."""

    def __init__(self, cluster: Cluster, log: Path, *options: str) -> None:
        self.log, self.port = log, free_port()
        address = f"127.0.0.1:{cluster.masters[0].port}"
        command = [sys.executable, "-m", "jobs.node", "--join", address, "--port", str(self.port), *options]
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stderr=out, stdout=out, env=os.environ)
        wait_for(lambda: self.said("listens on"), "the node to listen")
        self.client = redis.Redis(port=self.port, protocol=2)
        self.id = self.client.execute_command("CLUSTER", "MYID").decode()
        wait_for(lambda: all(is_well(line_of(node, self.id)) for node in cluster.nodes), "all nodes to know the member")

    def said(self, words: str) -> bool:
        return words in self.log.read_text("utf-8", "replace")

    def take_slot(self, cluster: Cluster, slot: int) -> None:
        """Make it a voter."""
        self.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", self.id)
        for node in cluster.masters:
            node.call("CLUSTER", "SETSLOT", slot, "NODE", self.id)
        wait_for(lambda: all("0" in line_of(node, self.id)[8:] for node in cluster.nodes), "all nodes to see the slot")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def promotion_s(cluster: Cluster) -> float:
    """Kill the first master and wait for its replica."""
    replica: Server = cluster.replicas[0]
    cluster.masters[0].process.kill()
    begin = time.monotonic()
    wait_for(lambda: topology_of(replica).by_id[topology_of(replica).my_id].is_master, "the replica to win", 30)
    return time.monotonic() - begin


@pytest.mark.parametrize(
    ("server", "profile"), [pytest.param("redis", "redis-7.0", marks=pytest.mark.slow), ("valkey", "valkey-9.1")]
)
def test_joined_with_the_defaults_it_costs_no_failover(server, profile, tmp_path):
    """Its verdict is needed, and comes in the cluster's time, not after its own 15 s."""
    with cluster_of(server) as cluster:
        node = Joined(cluster, tmp_path / "log")
        try:
            node.take_slot(cluster, 0)
            took_s = promotion_s(cluster)
        finally:
            node.end()

        assert node.said(f"node timeout {T_MS} ms from now on, not 15000 ms")
        assert node.said("rules of redis-7.0 from now on") == (profile == "redis-7.0")
        assert took_s < 4 * T_MS / 1000 + 2


def test_what_was_given_by_hand_stays_and_the_difference_is_said(tmp_path):
    """Loudly: it would hold failovers up."""
    with cluster_of("redis") as cluster:
        node = Joined(cluster, tmp_path / "log", "--node-timeout", "15000", "--profile", "valkey-8.0")
        try:
            wait_for(lambda: node.said("cluster-node-timeout is 1500 ms there and 15000 ms here"), "the word")
            assert node.said("follows the rules of redis-7.0, this node those of valkey-8.0")
            node.process.send_signal(signal.SIGINT)
            assert node.process.wait(20) == 0
        finally:
            node.end()

    assert not node.said("from now on")


def test_a_node_that_does_not_answer_tells_nothing_and_why():
    """No exception, one reason."""
    ways = ask_ways(Address("127.0.0.1", free_port()), Access())

    assert (ways.profile, ways.node_timeout_ms) == (None, None)
    assert "refused" in ways.refused


@pytest.mark.parametrize(
    ("info", "name"),
    [
        (b"# Server\r\nredis_version:7.0.15\r\n", "redis-7.0"),
        (b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n", "valkey-8.1"),
        (b"redis_version:255.255.255\r\n", None),
        (b"redis_version:\xff\r\n", None),
        (None, None),
    ],
)
def test_info_tells_the_profile(info, name):
    """Valkey tells a version of Redis, too, which is not meant."""
    found = profile_told(info)

    assert (found.name if found is not None else None) == name
