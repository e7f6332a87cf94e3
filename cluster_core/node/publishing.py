"""PUBLISH to the whole cluster, SPUBLISH to the shard (R7, R8, R11, clusterPropagatePublish)."""

from __future__ import annotations

from cluster_core.gossip.flags import HANDSHAKE, MASTER, MYSELF
from cluster_core.gossip.view import Peer
from cluster_core.node.headers import publish_messages, reads_light
from cluster_core.node.state import NodeState


def publish(state: NodeState, channel: bytes, text: bytes, *, sharded: bool) -> None:
    """Send a message of one of our clients to the nodes whose clients may wait for it."""
    full, light = publish_messages(state, channel, text, sharded=sharded)
    for peer in receivers(state, sharded=sharded):
        if peer.outbound is not None:
            message = light if reads_light(state, peer) else full
            state.pubsub_sent_bytes += message.header.totlen  # type: ignore[union-attr]  # what we send is whole
            state.send(peer.outbound, message)


def receivers(state: NodeState, *, sharded: bool) -> list[Peer]:
    """Every node that has a name, or those of our shard."""
    myself = state.view.myself
    named = [peer for peer in state.peers() if not peer.flags & (MYSELF | HANDSHAKE)]
    if not sharded:
        return named
    master = myself.id if myself.flags & MASTER else myself.replicaof
    return [peer for peer in named if peer.id == master or (master and peer.replicaof == master)]
