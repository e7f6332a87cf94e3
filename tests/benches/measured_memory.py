"""Memory of all keys of real servers, with every element of every value: what estimates are compared with."""

from __future__ import annotations

from tests.benches.clusters import Cluster
from tests.benches.servers import Server

KEYS_AT_ONCE = 5000


def memory_of(server: Server) -> int:
    """What MEMORY USAGE with SAMPLES 0 of all keys adds up to."""
    keys = list(server.client().scan_iter(count=KEYS_AT_ONCE))
    return sum(server.ask([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]))


def memory_by_master(cluster: Cluster) -> dict[str, int]:
    """The same for each master, by its address."""
    return {f"127.0.0.1:{node.port}": memory_of(node) for node in cluster.masters}
