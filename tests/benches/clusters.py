"""Small real clusters for tests and recordings: formed, waited for, and always stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from cluster_core.rdb.export import command_of
from cluster_core.topology.node import Topology
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.resp import RespError
from tests.benches.resp import RespParser
from tests.benches.servers import SLOT_COUNT, Server, running, wait_for


@dataclass(slots=True)
class Cluster:
    """A running cluster: the masters first, then the replicas, replica number i of master i modulo their number."""

    masters: list[Server]
    replicas: list[Server] = field(default_factory=list)

    @property
    def nodes(self) -> list[Server]:
        return [*self.masters, *self.replicas]

    def slots_of(self, index: int) -> tuple[int, int]:
        count = len(self.masters)
        return SLOT_COUNT * index // count, SLOT_COUNT * (index + 1) // count - 1

    def settle(self, **info: Any) -> None:
        """Wait until every node says *info* (``cluster_state="ok"``) in CLUSTER INFO."""
        wanted = [f"{name}:{value}\r\n".encode() for name, value in info.items()]
        wait_for(
            lambda: all(all(want in node.call("CLUSTER", "INFO") for want in wanted) for node in self.nodes),
            f"all nodes to say {info}",
        )


def topology_of(node: Server) -> Topology:
    """What a node answers to CLUSTER NODES."""
    return read_nodes(node.call("CLUSTER", "NODES"))


@contextmanager
def running_cluster(
    binary: str,
    *,
    masters: int,
    replicas: int = 0,
    first_port: int = 0,
    before: Callable[[Cluster], object] = lambda cluster: None,
    **settings: Any,
) -> Iterator[Cluster]:
    """A cluster that serves all slots inside the ``with`` block; *settings* are directives of every node.

    Ports count from *first_port*, where they are free; *before* is called with the nodes before they meet.
    """
    with ExitStack() as stack:
        ports = [first_port and first_port + index for index in range(masters + replicas)]
        servers = [stack.enter_context(running(binary, cluster=True, port=port, **settings)) for port in ports]
        cluster = Cluster(servers[:masters], servers[masters:])
        before(cluster)
        form(cluster)
        yield cluster


def form(cluster: Cluster) -> None:
    """Give each node its epoch and slots, join them, attach the replicas."""
    first = cluster.masters[0]
    for index, node in enumerate(cluster.masters):
        node.call("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
        start, end = cluster.slots_of(index)
        node.call("CLUSTER", "ADDSLOTS", *range(start, end + 1))  # before Redis 7 there is no ADDSLOTSRANGE
    for node in cluster.nodes[1:]:
        first.call("CLUSTER", "MEET", "127.0.0.1", node.port)
    cluster.settle(cluster_known_nodes=len(cluster.nodes), cluster_slots_assigned=SLOT_COUNT)
    for index, node in enumerate(cluster.replicas):
        master = cluster.masters[index % len(cluster.masters)]
        wait_for(lambda node=node, master=master: knows(node, master), "the replica to know its master")
        node.call("CLUSTER", "REPLICATE", master.call("CLUSTER", "MYID"))
    for node in cluster.replicas:
        wait_for(lambda node=node: b"master_link_status:up" in node.call("INFO", "replication"), "the replica to sync")
    cluster.settle(cluster_state="ok", cluster_size=len(cluster.masters))
    wait_for(
        lambda: {masters_seen(node) for node in cluster.nodes} == {len(cluster.masters)}, "all to know the replicas"
    )


def masters_seen(node: Server) -> int:
    return sum(entry.is_master for entry in topology_of(node).nodes)


def knows(node: Server, other: Server) -> bool:
    return other.call("CLUSTER", "MYID").decode() in topology_of(node).by_id


def converse(node: Server, commands: Sequence[Sequence[bytes]]) -> list[Any]:
    """Send *commands* on a connection of their own and return the replies; errors are values (`RespError`)."""
    request = b"".join(command_of(*command) for command in commands)
    parser = RespParser()
    replies: list[Any] = []
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as link:
        link.sendall(request)
        while len(replies) < len(commands):
            data = link.recv(1 << 16)
            if not data:
                raise ConnectionError("the server hung up")
            replies += parser.feed(data)
    return replies


def error_text(reply: Any) -> str:
    return reply.text if isinstance(reply, RespError) else ""


def commands_of(*nodes: Server) -> set[str]:
    """What *nodes* were asked since their statistics were reset."""
    stats = b"".join(node.call("INFO", "commandstats") for node in nodes).decode()
    return {line.split(":")[0].removeprefix("cmdstat_") for line in stats.split() if line.startswith("cmdstat_")}


def memory_of(server: Server) -> int:
    """MEMORY USAGE of all keys with every element of every value."""
    keys = list(server.client().scan_iter(count=5000))
    return sum(server.ask([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]))
