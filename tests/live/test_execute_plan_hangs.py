"""A server that hangs in the middle of a plan: no wait exceeds the limit, and no healthy master is voted out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from cluster_core.slots.key_slot import key_slot
from slotscope.runtime.failure import OK, PAUSED
from tests.benches.clusters import Cluster, running_cluster
from tests.benches.live_runs import slotscope, start, wait_for_commits
from tests.benches.moving_cluster import assert_in_place, count_keys, fill, owners_of, store_moves
from tests.benches.servers import Server, installed, redis_binary, valkey_binary

NODE_TIMEOUT_MS = 4000
PATIENCE_S = 3
SLOTS = 40
WAYS = [(redis_binary, "setslot"), (valkey_binary, "migrateslots")]


@contextmanager
def loaded_cluster(binary: str | None) -> Iterator[Cluster]:
    """Three masters, a replica of the first, so many keys in each slot that most of a move's time is spent on keys."""
    settings = {"cluster_node_timeout": NODE_TIMEOUT_MS, "cluster_require_full_coverage": "no"}
    with running_cluster(installed(binary), masters=3, replicas=1, **settings) as cluster:
        first, last = cluster.slots_of(0)
        tags = [n for n in range(20_000) if first <= key_slot(b"%d" % n) <= last][:SLOTS]
        fill(cluster, [(f"{{{tag}}}{n}", b"x" * 1000) for tag in tags for n in range(1500)])
        yield cluster


@contextmanager
def stopped(server: Server) -> Iterator[None]:
    """SIGSTOP: the kernel takes connections for it, and nothing answers."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)


class Pings:
    """The longest time that a server took to answer PING."""

    def __init__(self, server: Server) -> None:
        self.longest_s = 0.0
        self._client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def __enter__(self) -> Pings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _ping(self) -> None:
        while not self._stop.wait(0.02):
            begun_s = time.monotonic()
            self._client.ping()
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)


@pytest.mark.slow
@pytest.mark.parametrize(("binary", "path"), WAYS)
def test_a_target_that_hangs_pauses_the_run_and_leaves_the_source_in_its_place(binary, path, tmp_path):
    """The run ends by --patience; the source answers its clients within a node timeout and stays master; after SIGCONT the plan ends well."""
    with loaded_cluster(binary()) as cluster:
        source, target, replica = cluster.masters[0], cluster.masters[1], cluster.replicas[0]
        before, keys = owners_of(source), count_keys(cluster)
        slots = sorted({key_slot(key) for key in source.call("KEYS", "*")})
        stored = store_moves(tmp_path, cluster, [(slot, 0, 1) for slot in slots])
        process = start(tmp_path, cluster, "--path", path, "--patience", PATIENCE_S)
        wait_for_commits(tmp_path, process, 2)
        time.sleep(0.2)
        with stopped(target), Pings(source) as pings:
            begun_s = time.monotonic()
            errors = process.messages(60)
            took_s = time.monotonic() - begun_s
            time.sleep(NODE_TIMEOUT_MS / 1000)
            roles = [b"role:master" in node.call("INFO", "replication") for node in (source, replica)]

        assert process.returncode == PAUSED, errors
        assert took_s < 5 * PATIENCE_S
        assert "does not answer: no answer in time" in errors
        assert roles == [True, False]
        assert pings.longest_s < NODE_TIMEOUT_MS / 1000
        cluster.settle(cluster_state="ok", cluster_slots_pfail=0, cluster_slots_fail=0)
        assert slotscope(tmp_path, cluster, "--apply", "--path", path) == OK
        assert_in_place(cluster, stored.plan.owners_after, keys)
        assert slotscope(tmp_path, cluster, "--apply", "--rollback", "--path", path) == OK
        assert_in_place(cluster, before, keys)
