"""A node of the core as a member of a real cluster: joins, sees a death, votes, refuses, redirects."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import redis

from cluster_core.gossip.events import MessageReceived
from cluster_core.gossip.flags import FAIL, PFAIL
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.node.events import PauseClients
from cluster_core.wire.bus import SIGNATURE, decode_message, encode_message
from cluster_core.wire.bus_message import MessageType
from slotscope.live.connections import BUS_IDLE_S, CLIENT_IDLE_S
from tests.benches.clusters import Cluster, running_cluster, topology_of
from tests.benches.live_member import LiveMember, give_slot, is_well, join, line_of, living
from tests.benches.servers import free_port, redis_binary, valkey_binary, wait_for
from tests.builders.bus_builder import ping

T_MS = 1500
SERVERS = [pytest.param(VALKEY_9_1, id="valkey"), pytest.param(REDIS_7_0, id="redis", marks=pytest.mark.slow)]


@contextmanager
def cluster_of(profile: Profile, **layout: int) -> Iterator[Cluster]:
    """A real cluster of the server that has these rules."""
    binary = valkey_binary() if profile is VALKEY_9_1 else redis_binary()
    if binary is None:
        pytest.skip(f"the server of profile {profile.name} is not installed")
    with running_cluster(binary, cluster_node_timeout=T_MS, cluster_require_full_coverage="no", **layout) as cluster:
        yield cluster


def log_of(node) -> str:
    return (node.directory / "server.log").read_text("utf-8", "replace")


def current_epoch(node) -> int:
    info = node.call("CLUSTER", "INFO").decode()
    return int(info.split("cluster_current_epoch:")[1].split("\r\n")[0])


def counters(member: LiveMember) -> dict[str, int]:
    lines = [line.split(":") for line in member.order("CLUSTER", "INFO").split() if "messages" in line]
    return {name: int(value) for name, value in lines}


@pytest.mark.slow  # that it joins is part of each test below
@pytest.mark.parametrize("profile", SERVERS)
def test_it_joins_and_stays_connected_and_unflagged(profile):
    """By MEET, in every node's list for ten node timeouts, with an answer to every ping."""
    with cluster_of(profile, masters=3, replicas=1) as cluster, living(node_timeout_ms=T_MS, profile=profile) as member:
        join(member, cluster)
        end = time.monotonic() + 10 * T_MS / 1000
        seen = 0
        while time.monotonic() < end:
            assert all(is_well(line_of(node, member.id)) for node in cluster.nodes)
            seen += 1
            time.sleep(0.25)
        mine = member.order("CLUSTER", "NODES")
        told = counters(member)

    assert seen > 30
    assert mine.count("connected") == 5
    assert "fail" not in mine
    for sent, answered in (("ping_sent", "pong_received"), ("ping_received", "pong_sent")):
        sent_count, answered_count = (told[f"cluster_stats_messages_{name}"] for name in (sent, answered))
        assert abs(sent_count - answered_count) <= 10
        assert sent_count > 5 * 10 * 0.9


def win(replica) -> None:
    wait_for(lambda: topology_of(replica).by_id[topology_of(replica).my_id].is_master, "the replica to win")


@pytest.mark.parametrize("profile", SERVERS)
def test_its_vote_is_enough(profile):
    """Three masters vote, one of them ours; a real one with a replica dies: two of three must agree (R53, R90)."""
    with cluster_of(profile, masters=2, replicas=1) as cluster, living(node_timeout_ms=T_MS, profile=profile) as member:
        join(member, cluster)
        give_slot(member, cluster, 0)
        dead, witness, replica = cluster.masters[0], cluster.masters[1], cluster.replicas[0]
        dead.process.kill()
        win(replica)
        winner = topology_of(replica).my_id
        wait_for(lambda: is_well(line_of(witness, winner)), "the others to see it")

        assert "Failover election won" in log_of(replica)
        assert member.said(f"Failover auth granted to {winner}")
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
    with cluster_of(profile, masters=2, replicas=1) as cluster, living(node_timeout_ms=T_MS, profile=profile) as member:
        join(member, cluster)
        give_slot(member, cluster, 0)
        node, handle = member.member.node, member.member.node.handle

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
        assert member.said("Failover auth denied")
        assert member.said(reason)
        assert not member.said("Failover auth granted")


def test_real_nodes_hear_of_a_death_from_it():
    """The last to see it, it has the others' reports by then: it decides, and its FAIL is in their logs (R53, R54)."""
    with cluster_of(VALKEY_9_1, masters=3) as cluster, living(node_timeout_ms=2 * T_MS) as member:
        join(member, cluster)
        give_slot(member, cluster, 0)
        dead_id = cluster.masters[2].call("CLUSTER", "MYID").decode()
        cluster.masters[2].process.kill()
        wait_for(
            lambda: any(f"FAIL message received from {member.id}" in log_of(node) for node in cluster.masters[:2]),
            "a FAIL of ours in a real node's log",
        )

        told = [
            line
            for node in cluster.masters[:2]
            for line in log_of(node).splitlines()
            if f"received from {member.id}" in line
        ]
        assert all(dead_id in line for line in told)


def test_a_redirected_client_follows_it():
    """MOVED for what others own, its own slot served, ASK for a slot that is leaving and a key that is not here."""
    with cluster_of(VALKEY_9_1, masters=2) as cluster, living(node_timeout_ms=T_MS) as member:
        join(member, cluster)
        slot = 866
        give_slot(member, cluster, slot)
        client = redis.RedisCluster(host="127.0.0.1", port=member.port, protocol=2)
        key = "hello"  # slot 866
        client.set(key, "1")
        client.set("other", "2")

        assert member.member.data.holds(b"hello")
        assert (client.get(key), client.get("other")) == (b"1", b"2")
        target = cluster.masters[1]
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", member.id)
        member.order("CLUSTER", "SETSLOT", str(slot), "MIGRATING", target.call("CLUSTER", "MYID").decode())
        client.set("{hello}2", "asked")

        assert not member.member.data.holds(b"{hello}2")
        assert target.ask([["ASKING"], ["GET", "{hello}2"]])[1] == b"asked"
        assert client.get(key) == b"1"


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 100,
        SIGNATURE + (1 << 31).to_bytes(4, "big") + b"\0" * 5000,
        SIGNATURE + (2256).to_bytes(4, "big") + b"\0" * 100,
        b"",
        SIGNATURE + (15).to_bytes(4, "big"),
    ],
)
def test_a_peer_that_sends_rubbish_is_cut_off_and_nothing_else_happens(rubbish):
    """Garbage, a claim of 2 GB, a message cut in the middle, nothing at all."""
    with living(node_timeout_ms=T_MS) as member:
        with socket.create_connection(("127.0.0.1", member.port + 10000), timeout=5) as link:
            link.sendall(rubbish)
            link.shutdown(socket.SHUT_WR)
            assert link.recv(10) == b""
        with socket.create_connection(("127.0.0.1", member.port), timeout=5) as client:
            client.sendall(b"*1\r\n$4\r\nPING\r\n")
            assert client.recv(100) == b"+PONG\r\n"
        wait_for(lambda: not member.member._links, "the link to be forgotten")


def test_a_peer_that_claims_its_id_changes_nothing():
    """PINGs in its own name, with slots and a great epoch, teach it nothing; a stranger's behind them gets its PONG (R19)."""
    stranger = encode_message(ping("f" * 40))
    with living(node_timeout_ms=T_MS) as member:

        def exchange(raw: bytes) -> tuple[str, list[str]]:
            link.sendall(raw)
            assert decode_message(link.recv(1 << 16)).header.type == MessageType.PONG
            return member.order("CLUSTER", "NODES"), member.order("CLUSTER", "INFO").splitlines()[:7]

        with socket.create_connection(("127.0.0.1", member.port + 10000), timeout=5) as link:
            before = exchange(stranger)
            claim = ping(member.id, myslots=b"\xff" * 2048, config_epoch=99, current_epoch=99)
            after = exchange(encode_message(claim) * 3 + stranger)

    assert after == before


def test_all_connections_together_are_bounded_and_the_others_go_on():
    """Clients with halves of a bulk and links with halves of a message: who goes beyond is cut off, and memory comes back."""
    half_bulk = b"*1\r\n$1000000\r\n" + b"x" * 600_000
    half_message = SIGNATURE + (1_000_000).to_bytes(4, "big") + b"\0" * 600_000
    with living(node_timeout_ms=T_MS) as member:
        budget = member.member.budget
        budget.bytes_max = 2_000_000
        with ExitStack() as stack:
            for number in range(12):
                port, raw = ((member.port, half_bulk), (member.port + 10000, half_message))[number % 2]
                link = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
                with suppress(OSError):
                    link.sendall(raw)
            wait_for(lambda: 0 < budget.used <= 2_000_000, "those beyond the bound to be cut off")
            assert "slots" in member.order("CLUSTER", "INFO")
            with socket.create_connection(("127.0.0.1", member.port), timeout=5) as client:
                client.sendall(b"*1\r\n$4\r\nPING\r\n")
                assert client.recv(100) == b"+PONG\r\n"
        wait_for(lambda: budget.used == 0, "the bytes of all that have gone to be given back")


def is_hung_up(link: socket.socket) -> bool:
    """Whether the other side has closed; it may have left bytes unread, which resets the connection."""
    with suppress(ConnectionResetError):
        return link.recv(10) == b""
    return True


def test_who_says_nothing_is_hung_up_on_and_peers_are_kept():
    """A client, a slow one and a link without a message go; a peer that pings and a client that listens to a channel stay."""
    late_s = time.monotonic() + CLIENT_IDLE_S - 1
    with living(node_timeout_ms=T_MS) as member, ExitStack() as stack:

        def connect(port: int, raw: bytes) -> socket.socket:
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
            link.sendall(raw)
            return link

        idle, slow = connect(member.port, b""), connect(member.port, b"*1\r\n$4\r\nPI")
        listening = connect(member.port, b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n")
        stranger = connect(member.port + 10000, SIGNATURE)
        wait_for(lambda: len(member.member._clients) == 3 and len(member.member._links) == 1, "all to be connected")
        listening.recv(1000)
        member.loop.call_soon_threadsafe(member.member.sweep, late_s)
        assert is_hung_up(stranger)
        peer = connect(member.port + 10000, encode_message(ping("f" * 40)))
        assert decode_message(peer.recv(1 << 16)).header.type == MessageType.PONG
        member.loop.call_soon_threadsafe(member.member.sweep, time.monotonic() + BUS_IDLE_S - 1)
        peer.sendall(encode_message(ping("f" * 40)))
        assert decode_message(peer.recv(1 << 16)).header.type == MessageType.PONG
        member.loop.call_soon_threadsafe(member.member.sweep, time.monotonic() + CLIENT_IDLE_S + 1)
        assert is_hung_up(idle)
        assert is_hung_up(slow)
        listening.sendall(b"*1\r\n$4\r\nPING\r\n")
        assert listening.recv(100) == b"+PONG\r\n"


def test_a_client_that_waits_for_the_end_of_a_pause_gets_its_replies_in_order():
    """While writes are paused (R98), nothing behind a write is answered before it."""
    with living(node_timeout_ms=T_MS) as member:
        member.order("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        wait_for(lambda: "cluster_state:ok" in member.order("CLUSTER", "INFO"), "its state to be ok")
        member.loop.call_soon_threadsafe(member.member._carry_out, PauseClients(member.member.now_ms() + 700))
        with socket.create_connection(("127.0.0.1", member.port), timeout=5) as client:
            client.sendall(b"GET k\r\nSET k 1\r\nGET k\r\nPING\r\n")
            assert client.recv(100) == b"$-1\r\n"
            told = b""
            while not told.endswith(b"PONG\r\n"):
                told += client.recv(100)

    assert told == b"+OK\r\n$1\r\n1\r\n+PONG\r\n"


@pytest.mark.parametrize("owns_a_slot", [False, True])
def test_the_command_leaves_when_it_is_told_to(tmp_path, owns_a_slot):
    """Every node forgets it; while it owns slots it says so, and ends when it is told once more."""
    with cluster_of(VALKEY_9_1, masters=2) as cluster:
        first, port = cluster.masters[0], free_port()
        words = [
            "node",
            "--join",
            f"localhost:{first.port}",
            "--port",
            str(port),
            "--node-timeout",
            str(T_MS),
            "--folder",
            str(tmp_path),
        ]
        process = subprocess.Popen([sys.executable, "-m", "jobs.main", *words], stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: (tmp_path / "nodes.conf").exists(), "nodes.conf")
            my_id = next(line[:40] for line in (tmp_path / "nodes.conf").read_text().splitlines() if "myself" in line)
            wait_for(lambda: all(is_well(line_of(node, my_id)) for node in cluster.nodes), "all nodes to know it")
            if owns_a_slot:
                for node in (first, cluster.masters[1]):
                    node.call("CLUSTER", "SETSLOT", 0, "NODE", my_id)
                mine = redis.Redis(port=port, protocol=2)
                mine.execute_command("CLUSTER", "SETSLOT", 0, "IMPORTING", first.call("CLUSTER", "MYID"))
                mine.execute_command("CLUSTER", "SETSLOT", 0, "NODE", my_id)
                mine.close()
            process.send_signal(signal.SIGINT)
            if owns_a_slot:
                time.sleep(1)
                assert process.poll() is None
                process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=15)
            known = [bool(line_of(node, my_id)) for node in cluster.nodes]
        finally:
            process.kill()

    assert process.returncode == 0
    assert "no authentication" in told
    assert known == [owns_a_slot] * 2
    assert ("owns 1 slots" in told) == owns_a_slot
    assert ("2 of 2 nodes have forgotten us" in told) != owns_a_slot
