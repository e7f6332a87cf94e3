"""Leaving a cluster politely: every node that we know is told to forget us."""

from __future__ import annotations

from collections.abc import Sequence

import redis

from jobs.sources.live_cluster import Access, Address


def say_farewell(my_id: str, nodes: Sequence[Address], access: Access) -> list[str]:
    """Send CLUSTER FORGET *my_id* to every node; return a line of log for each that did not take it.

    Nodes gossip about us for a minute to come, which those that were told do not believe (R61).
    """
    refused = []
    for node in nodes:
        try:
            connection = access.connect(node)
            try:
                connection.send_command("CLUSTER", "FORGET", my_id)
                connection.read_response()
            finally:
                connection.disconnect()
        except (redis.RedisError, OSError) as error:
            refused.append(f"# {node} does not forget us: {error}")
    return [*refused, f"* {len(nodes) - len(refused)} of {len(nodes)} nodes have forgotten us"]
