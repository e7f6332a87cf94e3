"""Ports of this machine that servers of the tests listen on."""

from __future__ import annotations

import socket
import time
from contextlib import closing

START_SECONDS_MAX = 120


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """Wait until somebody listens on *port*; raises TimeoutError."""
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        with closing(socket.socket()) as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")
