"""A simulated cluster behind real sockets, for servers that cannot be installed here."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from cluster_core.sim.host import Host
from tests.benches.resp import RespParser, encode_value
from tests.benches.simulated_cluster import SimulatedCluster

QUESTION_US: Final = 100_000
"""Virtual time that passes with every command: jobs of the servers go on while a client looks at them."""


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class _Conversation(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        parser = RespParser()
        while data := self.request.recv(1 << 16):
            for arguments in parser.feed(data):
                with self.server.lock:
                    self.request.sendall(self.server.answer([bytes(word) for word in arguments]))


class _Server(socketserver.ThreadingTCPServer):
    """One node of a simulated cluster on loopback."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, cluster: SimulatedCluster, host: Host, lock: threading.Lock) -> None:
        super().__init__((host.ip, host.settings.port), _Conversation)
        self.cluster, self.host, self.lock = cluster, host, lock
        self.asked: list[str] = []

    def answer(self, arguments: list[bytes]) -> bytes:
        self.asked.append(b" ".join(arguments[:3]).decode("utf-8", "replace"))
        self.cluster.pass_time(QUESTION_US)
        return encode_value(self.cluster.ask(self.host, *arguments), protocol=2)


@contextmanager
def serving(cluster: SimulatedCluster) -> Iterator[dict[str, _Server]]:
    """Every node of *cluster* on its port inside the ``with`` block."""
    lock = threading.Lock()
    with ExitStack() as stack:
        servers = {}
        for name, host in cluster.hosts.items():
            server = servers[name] = _Server(cluster, host, lock)
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            stack.callback(server.shutdown)
        yield servers


@contextmanager
def scripted(answer: Callable[[list[bytes]], bytes | None]) -> Iterator[tuple[int, list[list[bytes]]]]:
    """A server that answers each command with the bytes of *answer*, or not at all; yields its port and the received commands."""
    asked: list[list[bytes]] = []

    class Conversation(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            parser = RespParser()
            with suppress(OSError):
                while data := self.request.recv(1 << 16):
                    for arguments in parser.feed(data):
                        asked.append(arguments)
                        self.request.sendall(answer(arguments) or b"")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
