"""`slotscope lab sentinel` from outside: how it starts, what it refuses, how it leaves, and peers that are no servers."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest
import redis

from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.state import SentinelSettings
from slotscope.live import connections
from slotscope.live.connections import ANSWER_BYTES_MAX, RespLink
from slotscope.runtime.failure import BAD_INPUT
from tests.benches.live_sentinel import living_sentinel
from tests.benches.program import slotscope
from tests.benches.sentinels import running_sentinel, sentinel_conf
from tests.benches.servers import free_port, redis_binary, running, wait_for

START = (sys.executable, "-m", "jobs.main", "sentinel")


@contextmanager
def shell(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*START, *options], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def redis_server() -> str:
    binary = redis_binary()
    if binary is None:
        pytest.skip("redis-server is not installed")
    return binary


def test_it_joins_through_a_sentinel_and_leaves_on_ctrl_c(redis_server, tmp_path):
    """Options come from the sentinel that is there; its file is kept; it says that nobody must log in, and who still counts it."""
    port = free_port()
    with running(redis_server) as master, running_sentinel(redis_server, master.port, quorum=1) as other:
        options = ("--join", f"localhost:{other.port}", "--port", str(port), "--folder", str(tmp_path))
        with shell(*options) as process:
            wait_for(lambda: len(other.call("SENTINEL", "SENTINELS", "mymaster")) == 1, "the real one to know ours")
            with redis.Redis(port=port, protocol=2) as client:
                told = client.sentinel_master("mymaster")
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=20)
            assert process.returncode == 0
        facts = dict(told)
        config = (tmp_path / "sentinel.conf").read_text()

        assert "there is no authentication" in log
        assert "1 other sentinels still count this one" in log
        assert log.rstrip().endswith("* gone")
        assert (int(facts["quorum"]), int(facts["down-after-milliseconds"])) == (1, 1000)
        assert f"sentinel monitor mymaster 127.0.0.1 {master.port} 1" in config
        assert f"sentinel known-sentinel mymaster 127.0.0.1 {other.port} " in config

        with shell("--port", str(port), "--folder", str(tmp_path), "--forget", "--duration", "1") as process:
            _, log = process.communicate(timeout=20)
        assert "1 of 1 sentinels have forgotten us" in log


def test_what_cannot_be_is_said_in_one_line(tmp_path, capsys):
    """InputError, and what to do."""

    def refused(*options: str) -> str:
        assert slotscope("sentinel", *options) == BAD_INPUT
        said = [line for line in capsys.readouterr().err.splitlines() if "* " not in line]
        assert len(said) <= 2
        return "".join(said)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot listen on 127.0.0.1" in refused("--monitor", "127.0.0.1:1", "--port", port)
    assert "--monitor HOST:PORT" in refused()
    assert "--port" in refused("--monitor", "127.0.0.1:1", "--port", "0")
    assert "--join 127.0.0.1:1" in refused("--join", "127.0.0.1:1")
    assert "no such folder" in refused("--monitor", "127.0.0.1:1", "--folder", str(tmp_path / "none"))
    (tmp_path / "sentinel.conf").write_text("sentinel monitor a b c d\n")
    assert "Quorum must be 1 or greater" in refused("--folder", str(tmp_path))


@contextmanager
def peer(answer: bytes, *, forever: bool = False) -> Iterator[int]:
    """Something that answers whatever it hears with *answer*, or with it again and again."""
    server = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def serve(link: socket.socket) -> None:
        with link:
            try:
                while not ended.is_set() and link.recv(4096):
                    link.sendall(answer)
                    while forever and not ended.is_set():
                        link.sendall(answer)
            except OSError:
                pass

    def accept() -> None:
        while not ended.is_set():
            try:
                link, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        ended.set()
        server.close()


@pytest.mark.parametrize(
    "answer",
    [b"\x00\xff garbage \r\n", b"$99999999999\r\n", b"*" + b"9" * 20 + b"\r\n", b"*1\r\n" * 5000, b"+PONG", b"-\r\n"],
)
def test_a_peer_that_is_no_server_is_down_and_nothing_else(answer):
    """Garbage, sizes that lie, arrays within arrays, answers without an end: the link is made anew, the master is down."""
    with peer(answer) as port, living_sentinel(port, down_after_ms=500) as ours:
        wait_for(lambda: ours.said("+sdown master mymaster"), "the peer to be down")

        assert ours.order("PING") == "PONG"


def test_a_peer_that_never_ends_its_answer_loses_the_link():
    """Memory is bounded by `ANSWER_BYTES_MAX`."""
    lost: list[int] = []

    async def run(port: int) -> None:
        link = RespLink(1, opened=lambda number, ip: link.send((b"INFO",)), heard=lambda *_: None, lost=lost.append)
        await asyncio.wait_for(link.run("127.0.0.1", port), 30)

    with peer(b"$%d\r\n" % (ANSWER_BYTES_MAX * 8) + b"x" * 65_536, forever=True) as port:
        asyncio.run(run(port))

    assert lost == [1]


def test_clients_that_send_garbage_are_cut_off_and_others_served():
    """The client port has the limits of the node's (`ClientLink`)."""
    with living_sentinel(1) as ours:
        with socket.create_connection(("127.0.0.1", ours.port), 5) as link:
            link.sendall(b"*1\r\n$99999999999\r\n")
            assert link.recv(100).startswith(b"-ERR Protocol error")
        with redis.Redis(port=ours.port, protocol=3) as client:
            assert client.execute_command("SENTINEL", "MYID") == ours.id.encode()
            listener = client.pubsub()
            listener.psubscribe("+*")
            listener.get_message(timeout=5)
            client.execute_command("SENTINEL", "SET", "mymaster", "quorum", "1")
            heard = listener.get_message(timeout=5)
        assert heard is not None
        assert heard["channel"] == b"+set"
        assert heard["data"] == b"master mymaster 127.0.0.1 1 quorum 1"


def test_a_listener_that_reads_nothing_is_cut_off(monkeypatch):
    """What waits for a client is bounded, whoever makes the events."""
    monkeypatch.setattr(connections, "REPLY_BYTES_MAX", 1 << 20)
    with living_sentinel(1) as ours, socket.create_connection(("127.0.0.1", ours.port), 5) as link:
        link.sendall(b"*2\r\n$10\r\nPSUBSCRIBE\r\n$1\r\n*\r\n")
        assert link.recv(100).startswith(b"*3")
        for _ in range(200):
            ours.order("SENTINEL", "SET", "mymaster", "auth-user", "x" * 100_000)
        wait_for(lambda: not ours.member.sentinel.state.clients.keys() - {0}, "the listener to be forgotten")


def test_a_configuration_of_a_real_sentinel_is_taken_over(redis_server):
    """A file that redis-sentinel has rewritten is one that ours can go on with."""
    with running(redis_server) as master, running_sentinel(redis_server, master.port) as other:
        text = (other.directory / "sentinel.conf").read_text()
        my_id = other.call("SENTINEL", "MYID").decode()
        ours = Sentinel(SentinelSettings(), Random(1), 0, config=text)

    assert ours.my_id == my_id
    assert sentinel_conf(other.port, master.port).splitlines()[2] in ours.config_text()
