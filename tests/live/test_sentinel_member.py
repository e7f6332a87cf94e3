"""A sentinel of the core beside two real ones: its agreement and its vote decide whether a dead master is replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from cluster_core.sentinel.instance import Instance, flag_text
from tests.benches.live_machines import LiveSentinel, living_sentinel
from tests.benches.sentinels import running_sentinel
from tests.benches.servers import Server, installed, redis_binary, running, valkey_binary, wait_for

SERVERS = {"redis": redis_binary, "valkey": valkey_binary}
NEVER_MS = 3_600_000
STALL_S = 8.0
"""Longer than a failover takes here: a second until the master is down, two until it is replaced."""


@dataclass
class Scene:
    """A master, its replica, two real sentinels; the second one is going to be stopped."""

    master: Server
    replica: Server
    witness: Server
    other: Server

    def current_port(self) -> int:
        """Where the first real sentinel sends clients."""
        return int(self.witness.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")[1])

    def log(self) -> str:
        return (self.witness.directory / "server.log").read_text("utf-8", "replace")

    def knows(self, count: int) -> bool:
        """Whether the first real sentinel knows so many others."""
        return len(self.witness.call("SENTINEL", "SENTINELS", "mymaster")) == count

    def lose_master(self) -> None:
        """One real sentinel ends, and then the master."""
        self.other.kill()
        self.master.kill()


@contextmanager
def scene(server: str) -> Iterator[Scene]:
    binary = installed(SERVERS[server]())
    with ExitStack() as stack:
        master = stack.enter_context(running(binary))
        replica = stack.enter_context(running(binary, replicaof=f"127.0.0.1 {master.port}"))
        wait_for(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "the replica to be in sync")
        witness = stack.enter_context(running_sentinel(binary, master.port))
        other = stack.enter_context(running_sentinel(binary, master.port))
        wait_for(lambda: len(witness.call("SENTINEL", "REPLICAS", "mymaster")) == 1, "the sentinel to find the replica")
        yield Scene(master, replica, witness, other)


def joined(stage: Scene, ours: LiveSentinel) -> None:
    """All three know each other, and ours knows the replica."""
    wait_for(lambda: stage.knows(2), "the real sentinel to know both others")
    wait_for(lambda: len(watched(ours).sentinels) == 2, "our sentinel to know both others")
    wait_for(lambda: len(watched(ours).replicas) == 1, "our sentinel to know the replica")


def watched(ours: LiveSentinel) -> Instance:
    return ours.sentinel.state.masters["mymaster"]


def agrees(ours: LiveSentinel, yes: bool) -> None:
    """Ours marks no instance down while its timeout is an hour."""
    watched(ours).down_after_ms = 1000 if yes else NEVER_MS


def test_the_real_failover_stalls_until_ours_agrees():
    """S7, S9, S11: quorum 2 with one real sentinel dead; ours says no, nothing happens; it says yes, a replica is promoted."""
    with scene("redis") as stage, living_sentinel(stage.master.port, quorum=3, down_after_ms=NEVER_MS) as ours:
        joined(stage, ours)
        stage.lose_master()
        wait_for(lambda: "+sdown master mymaster" in stage.log(), "the real sentinel to miss the master")
        time.sleep(3)
        assert stage.current_port() == stage.master.port
        assert "+odown" not in stage.log()

        agrees(ours, True)
        wait_for(lambda: stage.current_port() == stage.replica.port, "the real sentinel to fail over")

        assert "+elected-leader master mymaster" in stage.log()
        assert f"{ours.id} voted for" in stage.log()
        assert ours.logged("+vote-for-leader")
        wait_for(lambda: ours.logged("+switch-master mymaster"), "our sentinel to hear of it")
        assert b"role:master" in stage.replica.call("INFO", "replication")


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_without_ours_the_same_failover_stalls(server):
    """S7: the same run, but ours has gone before the master dies."""
    with scene(server) as stage:
        with living_sentinel(stage.master.port, quorum=3) as ours:
            joined(stage, ours)
        stage.lose_master()
        wait_for(lambda: "+sdown master mymaster" in stage.log(), "the real sentinel to miss the master")
        time.sleep(STALL_S)

        assert stage.current_port() == stage.master.port
        assert "+odown" not in stage.log()


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_ours_can_lead_and_the_real_one_follows(server):
    """S4, S14, S15: the real one only agrees (its quorum is three); ours promotes the replica, and takes the old master back."""
    with scene(server) as stage, living_sentinel(stage.master.port) as ours:
        joined(stage, ours)
        stage.witness.call("SENTINEL", "SET", "mymaster", "quorum", 3)
        stage.lose_master()
        wait_for(lambda: stage.current_port() == stage.replica.port, "the real sentinel to follow ours")

        assert ours.logged("+elected-leader master mymaster")
        assert f"+config-update-from sentinel {ours.id}" in stage.log()
        assert b"role:master" in stage.replica.call("INFO", "replication")

        stage.master.start_again()
        wait_for(
            lambda: b"role:slave" in stage.master.call("INFO", "replication"), "the old master to be a replica", 40
        )


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_it_is_known_and_up_to_date_beside_real_ones(server):
    """S3, S5: for ten seconds each sees the other without a flag, with the same master, epoch and replica."""
    with scene(server) as stage, living_sentinel(stage.master.port) as ours:
        joined(stage, ours)

        def flags() -> list[bytes]:
            theirs = stage.witness.call("SENTINEL", "SENTINELS", "mymaster")
            sentinels = watched(ours).sentinels.values()
            mine = [b"disconnected" if each.link.disconnected else flag_text(each.flags).encode() for each in sentinels]
            return [*(row[row.index(b"flags") + 1] for row in theirs), *mine]

        wait_for(lambda: flags() == [b"sentinel"] * 4, "all to be connected")
        end = time.monotonic() + 10
        while time.monotonic() < end:
            assert flags() == [b"sentinel"] * 4
            time.sleep(0.5)

        assert stage.witness.call("SENTINEL", "CKQUORUM", "mymaster").startswith(b"OK 3 usable Sentinels")
