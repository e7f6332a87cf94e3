"""CLUSTER NODES answers as evidence."""

from __future__ import annotations

from cluster_core.gossip.view import slot_bits
from cluster_core.replay.evidence import NodePoll, PolledNode
from cluster_core.topology.node import Topology


def poll_of(ts_ns: int, topology: Topology) -> NodePoll:
    """Turn a read CLUSTER NODES answer (R128) into evidence; *ts_ns* is when the answer was complete."""
    return NodePoll(
        ts_ns,
        tuple(
            PolledNode(
                node.id,
                int(node.flags),
                node.master_id or "",
                node.config_epoch,
                slot_bits(node.slots.to_wire()),
                node.ip,
                node.port,
                node.cport or 0,
                node.hostname,
            )
            for node in topology.nodes
        ),
    )
