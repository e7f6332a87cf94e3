"""Announcements to all nodes, and receivers of extensions, as in captures of the servers."""

from __future__ import annotations

from random import Random

import pytest

from cluster_core.gossip.events import LinkAccepted, MessageReceived
from cluster_core.gossip.flags import EXTENSIONS_SUPPORTED, HANDSHAKE, MASTER, MYSELF
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.node.events import SendMessage
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.wire.bus import Gossip, MessageType
from tests.benches.node_cluster import START_MS, Cluster
from tests.builders.gossip_builder import ME, A, B, entry, ping

PONG = MessageType.PONG


def announced(cluster: Cluster, index: int) -> int:
    """PONGs that a host sent on its own links, to hosts other than itself; answers leave on the others' links."""
    sent = [link for connection, link, message in cluster.spoken if connection[0] == index and message.type == PONG]
    return sum(link % 2 == 0 for link in sent)


@pytest.mark.parametrize(("profile", "pongs"), [(REDIS_7_0, 0), (VALKEY_9_1, 3)], ids=["redis-7.0", "valkey-9.1"])
@pytest.mark.parametrize("order", ["REPLICATE", "BUMPEPOCH"])
def test_an_order_is_announced_once_to_each_node(profile: Profile, pongs: int, order: str) -> None:
    """R67, R79: Valkey 9.1 announces a new role and a new epoch, once."""
    cluster = Cluster(4, profile=profile)
    cluster.form(3, 1)
    cluster.run(3000)
    cluster.keep_messages = True
    index = 3 if order == "REPLICATE" else 0
    arguments = ("REPLICATE", cluster.hosts[1].id) if order == "REPLICATE" else ("BUMPEPOCH",)

    cluster.command(index, "CLUSTER", *arguments)
    cluster.run(20)

    assert announced(cluster, index) == pongs


def lone(profile: Profile) -> Node:
    """An unknown node with an accepted link 1."""
    node = Node(NodeSettings(profile, 2000), Random(1), START_MS, my_id=ME)
    node.handle(LinkAccepted(1, "127.0.0.1"), START_MS)
    return node


@pytest.mark.parametrize(
    ("profile", "extended"), [(VALKEY_8_1, False), (VALKEY_9_1, True)], ids=["valkey-8.1", "valkey-9.1"]
)
def test_a_stranger_is_answered_with_extensions(profile: Profile, extended: bool) -> None:
    """R16: Valkey 9.1 puts them into every PONG."""
    effects = lone(profile).handle(MessageReceived(1, ping(A), "127.0.0.1"), START_MS)

    (sent,) = [effect.message for effect in effects if isinstance(effect, SendMessage)]
    assert isinstance(sent.body, Gossip)
    assert bool(sent.body.extensions) is extended


@pytest.mark.parametrize(
    ("profile", "known"), [(REDIS_7_0, False), (VALKEY_9_1, True)], ids=["redis-7.0", "valkey-9.1"]
)
def test_the_gossip_of_a_meet_introduces_nodes_where_its_link_is_bound(profile: Profile, known: bool) -> None:
    """R46, R56: the link of a MEET has a node at once in Valkey, so its gossip is trusted."""
    node = lone(profile)

    node.handle(MessageReceived(1, ping(A, entry(B), kind=MessageType.MEET), "127.0.0.1"), START_MS)

    assert (B in node.view.nodes) is known
    assert sum(bool(peer.flags & HANDSHAKE) for peer in node.view.nodes.values()) == 1


@pytest.mark.parametrize(("profile", "pongs"), [(VALKEY_8_1, 0), (VALKEY_9_1, 1)], ids=["valkey-8.1", "valkey-9.1"])
def test_an_epoch_taken_after_a_collision_is_announced(profile: Profile, pongs: int) -> None:
    """R80."""
    cluster = Cluster(2, profile=profile)
    cluster.form(2)
    cluster.run(3000)
    small, other = sorted(cluster.hosts, key=lambda host: host.id)
    node = small.node
    peer = node.view.nodes[other.id]
    assert peer.inbound is not None
    assert node.view.links[peer.inbound].node == other.id
    flags = MASTER | MYSELF | EXTENSIONS_SUPPORTED
    epoch, port = node.view.myself.config_epoch, peer.port
    clash = ping(other.id, flags=flags, config_epoch=epoch, current_epoch=9, port=port, cport=port + 10_000)

    effects = node.handle(MessageReceived(peer.inbound, clash, peer.ip), node.state.now_ms)

    own = [effect for effect in effects if isinstance(effect, SendMessage) and effect.message.type == PONG]
    assert sum(effect.link == peer.outbound for effect in own) == pongs
