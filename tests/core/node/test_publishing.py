"""PUBLISH goes to all nodes, SPUBLISH to the shard, under the header that the receiver can read (R6 to R8, R11)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.flags import LIGHT_HEADER_PUBLISH
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1, Profile
from cluster_core.slots.key_slot import key_slot
from cluster_core.wire.bus import LightHeader, MessageType, encode_message
from tests.benches.node_cluster import Cluster

every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))


@every_profile
def test_every_node_delivers_what_is_published_once(profile: Profile) -> None:
    """R11: with exact sizes: 32 bytes in Valkey, 2272 in Redis."""
    cluster = Cluster(6, profile=profile)
    cluster.form(3, 3)
    cluster.keep_messages = True
    cluster.command(0, "PUBLISH", "ch", "hello1")
    cluster.run(10)

    assert [host.delivered for host in cluster.hosts[1:]] == [[(b"ch", b"hello1", False)]] * 5
    sizes = {len(encode_message(m)) for *_, m in cluster.messages if m.type == MessageType.PUBLISH}
    assert sizes == {32 if profile.capabilities & LIGHT_HEADER_PUBLISH else 2272}
    assert cluster.hosts[1].node.state.received[MessageType.PUBLISH] == 1


@every_profile
def test_a_sharded_message_stays_in_its_shard(profile: Profile) -> None:
    """R8: the master and its replicas; elsewhere the client is redirected."""
    cluster = Cluster(6, profile=profile)
    cluster.form(3, 3)
    channel = b"news{06S}"
    assert key_slot(channel) == 0
    cluster.command(0, "SPUBLISH", channel, "x")
    cluster.run(10)

    assert [bool(host.delivered) for host in cluster.hosts] == [False, False, False, True, False, False]
    assert cluster.command(1, "SPUBLISH", channel, "x").text == "MOVED 0 127.0.0.1:7000"


def test_a_light_message_is_only_sent_to_who_reads_it() -> None:
    """R8: mixed versions."""
    cluster = Cluster(3, profile=VALKEY_9_1)
    cluster.form(3, 0)
    old = cluster.hosts[0].node.view.nodes[cluster.hosts[1].id]
    old.flags &= ~0x800
    cluster.keep_messages = True
    cluster.command(0, "PUBLISH", "ch", "x")
    light = {other: isinstance(m.header, LightHeader) for _, _, other, m in cluster.messages}

    assert light == {1: False, 2: True}
