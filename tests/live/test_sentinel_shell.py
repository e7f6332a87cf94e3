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

import pytest
import redis

from slotscope.live.connections import ANSWER_BYTES_MAX, RespLink
from slotscope.runtime.failure import BAD_INPUT
from tests.benches.live_sentinel import living_sentinel
from tests.benches.program import slotscope
from tests.benches.sentinels import running_sentinel
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


def test_it_joins_through_a_sentinel_and_leaves_on_ctrl_c(redis_server):
    """Options come from the sentinel that is there; it says that nobody must log in, and has itself forgotten."""
    port = free_port()
    with running(redis_server) as master, running_sentinel(redis_server, master.port, quorum=1) as other:
        options = ("--join", f"localhost:{other.port}", "--port", str(port), "--forget")
        with shell(*options) as process:
            wait_for(lambda: len(other.call("SENTINEL", "SENTINELS", "mymaster")) == 1, "the real one to know ours")
            with redis.Redis(port=port, protocol=2) as client:
                told = client.sentinel_master("mymaster")
            process.send_signal(signal.SIGINT)
            _, log = process.communicate(timeout=20)
            assert process.returncode == 0
        facts = dict(told)

        assert "there is no authentication" in log
        assert "1 of 1 sentinels have forgotten us" in log
        assert log.rstrip().endswith("* gone")
        assert (int(facts["quorum"]), int(facts["down-after-milliseconds"])) == (1, 1000)


def test_what_cannot_be_is_said_in_one_line(capsys):
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
