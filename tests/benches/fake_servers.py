"""A simulated cluster behind real sockets: what a client of a server that cannot be installed here would meet."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from cluster_core.rebalance.execution.effects import Answered
from cluster_core.rebalance.execution.reshard import Refused, Send
from cluster_core.wire.resp import RespParser
from tests.benches.simulated_cluster import SimulatedCluster, SimulatedNode


class _Conversation(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        parser = RespParser()
        while data := self.request.recv(1 << 16):
            for words in parser.feed(data):
                with self.server.lock:
                    self.request.sendall(_encode(self.server.answer([bytes(word) for word in words])))


class _Server(socketserver.ThreadingTCPServer):
    """One node of a simulated cluster on loopback."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, cluster: SimulatedCluster, node: SimulatedNode, ports: dict[str, int], lock: threading.Lock
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.cluster, self.node, self.ports, self.lock = cluster, node, ports, lock
        self.asked: list[str] = []
        ports[node.id] = self.server_address[1]

    def answer(self, words: list[bytes]) -> Any:
        texts = [word.decode("utf-8", "replace") for word in words]
        said = " ".join(texts).upper()
        self.asked.append(" ".join(texts[:3]))
        if said == "CLUSTER MYID":
            return self.node.id.encode()
        if said == "CLUSTER NODES":
            return self.nodes()
        if said == "CLUSTER INFO":
            return b"cluster_state:ok\r\ncluster_slots_ok:16384\r\n"
        if said == "INFO":
            return (
                b"# Server\r\nredis_version:%s\r\nused_memory:1000\r\n"
                % ".".join(map(str, self.cluster.version)).encode()
            )
        if said == "CONFIG GET CLUSTER-NODE-TIMEOUT":
            return [b"cluster-node-timeout", b"15000"]
        if said == "CLUSTER MIGRATION STATUS ALL":
            self.cluster.work_on_jobs()
            self.cluster.gossip()
            return self.tasks()
        reply = self.cluster.call(Send(self.node.id, tuple(texts)))
        return reply.value if isinstance(reply, Answered) else reply

    def nodes(self) -> bytes:
        """CLUSTER NODES as this node would answer."""
        seen, lines = self.node.sees(), []
        for node in self.cluster.nodes.values():
            port = self.ports[node.id]
            flags = ("myself," if node is self.node else "") + ("master" if node.is_master else "slave")
            slots = str(seen.get(node.id, ""))
            lines.append(
                f"{node.id} 127.0.0.1:{port}@{port + 10000} {flags} - 0 0 {node.epoch} connected {slots}".rstrip()
            )
        return ("\n".join(lines) + "\n").encode()

    def tasks(self) -> list[list[Any]]:
        """CLUSTER MIGRATION STATUS ALL, in the fields of its documentation."""
        return [
            [b"id", job["name"].encode(), b"slots", str(job["slots"]).encode(), b"source", job["source"].encode(),
             b"dest", job["target"].encode(), b"operation", b"migrate" if job["source"] == self.node.id else b"import",
             b"state", job["state"].encode(), b"last_error", job.get("message", "").encode(),
             b"retries", job.get("retries", 0), b"create_time", 1, b"start_time", 1, b"end_time", -1, b"write_pause_ms", 0]
            for job in self.node.jobs
        ]  # fmt: skip


def _encode(value: Any) -> bytes:
    if isinstance(value, Refused):
        return b"-%s\r\n" % value.text.encode()
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(_encode, value))
    if isinstance(value, int):
        return b":%d\r\n" % value
    raw = value.encode() if isinstance(value, str) else value
    return b"$%d\r\n%s\r\n" % (len(raw), raw)


@contextmanager
def serving(cluster: SimulatedCluster) -> Iterator[dict[str, _Server]]:
    """Every node of *cluster* on a port of its own inside the ``with`` block; its ids must be 40 digits long."""
    ports: dict[str, int] = {}
    lock = threading.Lock()
    with ExitStack() as stack:
        servers = {}
        for node in cluster.nodes.values():
            server = servers[node.id] = _Server(cluster, node, ports, lock)
            stack.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            stack.callback(server.shutdown)
        yield servers


@contextmanager
def scripted(answer: Callable[[list[bytes]], bytes | None]) -> Iterator[tuple[int, list[list[bytes]]]]:
    """A server that answers each command with the bytes of *answer*, or not at all; yields its port and what it was asked."""
    asked: list[list[bytes]] = []

    class Conversation(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            parser = RespParser()
            with suppress(OSError):
                while data := self.request.recv(1 << 16):
                    for words in parser.feed(data):
                        asked.append(words)
                        self.request.sendall(answer(words) or b"")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Conversation) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1], asked
        finally:
            server.shutdown()
