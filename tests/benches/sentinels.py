"""Real sentinels for tests: started on loopback with a sentinel.conf of their own, and always stopped."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.benches.servers import Server, free_port, wait_for


def sentinel_conf(port: int, master_port: int, *, quorum: int, down_after_ms: int, name: str = "mymaster") -> str:
    """A configuration that watches one master on loopback, with short times."""
    return (
        f"port {port}\nbind 127.0.0.1\n"
        f"sentinel monitor {name} 127.0.0.1 {master_port} {quorum}\n"
        f"sentinel down-after-milliseconds {name} {down_after_ms}\n"
        f"sentinel failover-timeout {name} 10000\n"
    )


@contextmanager
def running_sentinel(
    binary: str, master_port: int, *, quorum: int = 2, down_after_ms: int = 1000, port: int = 0
) -> Iterator[Server]:
    """A sentinel of *binary* that runs inside the ``with`` block."""
    port = free_port(port)
    with tempfile.TemporaryDirectory(prefix="slotscope-sentinel-") as name:
        directory = Path(name)
        config = directory / "sentinel.conf"
        text = sentinel_conf(port, master_port, quorum=quorum, down_after_ms=down_after_ms)
        config.write_text(f'{text}dir "{name}"\n')
        arguments = (binary, str(config), "--sentinel")
        with open(directory / "server.log", "wb") as log:
            process = subprocess.Popen(arguments, cwd=name, stdout=log, stderr=log)
        server = Server(port, directory, process, arguments)
        try:
            wait_for(lambda: _answers(server), "the sentinel to answer")
            yield server
        finally:
            server.stop()


def _answers(server: Server) -> bool:
    try:
        return bool(server.call("PING") == b"PONG")
    except (redis.ConnectionError, redis.TimeoutError):
        return False
