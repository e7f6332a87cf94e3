"""Leaving a cluster politely: every node that we know is told to forget us."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.wire.resp import RespError
from slotscope.servers.node_link import Access, Address, LinkError


def say_farewell(my_id: str, nodes: Sequence[Address], access: Access) -> list[str]:
    """Send CLUSTER FORGET *my_id* to every node; return a line of log for each that did not take it.

    Nodes gossip about us for a minute to come, which those that were told do not believe (R61).
    """
    refused = []
    for node in nodes:
        try:
            link = access.connect(node)
            try:
                (reply,) = link.ask([("CLUSTER", "FORGET", my_id)])
            finally:
                link.close()
            error = reply.text if isinstance(reply, RespError) else ""
        except LinkError as lost:
            error = access.safe(lost)
        if error:
            refused.append(f"# {node} does not forget us: {error}")
    return [*refused, f"* {len(nodes) - len(refused)} of {len(nodes)} nodes have forgotten us"]
