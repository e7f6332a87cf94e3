"""Content, times and cost of PINGs (R16, R28 to R44, R172)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.gossip.events import LinkClosed, MessageReceived, Tick
from cluster_core.gossip.flags import FAIL, HANDSHAKE, NOADDR, PFAIL
from cluster_core.gossip.profile import (
    PROFILES,
    REDIS_6_2,
    REDIS_7_0,
    REDIS_8,
    VALKEY_8_0,
    VALKEY_9_1,
    Profile,
    ShardIds,
)
from cluster_core.gossip.view import Peer
from cluster_core.node.agenda import make_all_due
from cluster_core.node.events import LinkOpened, OpenLink, SendMessage
from cluster_core.node.machine import Node
from cluster_core.node.pings import build_ping, choose_entries, entries_wanted
from cluster_core.node.state import NodeSettings
from cluster_core.sim import host as sim
from cluster_core.wire.bus import Gossip, Header, Message, MessageType, decode_message, encode_message
from tests.benches.node_cluster import START_MS, Cluster, every_profile, formed
from tests.benches.simulated_servers import Servers
from tests.examples import examples


@every_profile
def test_messages_have_the_size_and_the_bytes_of_real_ones(profile: Profile) -> None:
    """R172: 2568 bytes at six nodes in Redis, 48 more for the shard id since 7.2; bytes decode to the sent message."""
    cluster = formed(profile)
    cluster.run(10_000)
    pings = [m for *_, m in cluster.messages if m.type <= MessageType.PONG]

    sizes = [len(encode_message(m)) for m in pings]
    assert max(sizes) == (2568 if profile.shard_ids is ShardIds.NONE else 2616)
    assert sizes.count(max(sizes)) > 0.8 * len(sizes)  # nine draws do not always hit three nodes
    for message in pings:
        assert decode_message(encode_message(message)) == message
        assert message.header.totlen == len(encode_message(message))


@pytest.mark.parametrize(
    ("profile", "master", "replica"),
    [
        (REDIS_6_2, 0x111, 0x012),
        (REDIS_7_0, 0x111, 0x012),
        (REDIS_8, 0x111, 0x012),
        (VALKEY_8_0, 0x911, 0x812),
        (VALKEY_9_1, 0x1D11, 0x1C12),
    ],
    ids=lambda value: value.name if isinstance(value, Profile) else hex(value),
)
def test_headers_carry_the_flags_of_the_servers(profile: Profile, master: int, replica: int) -> None:
    """R6, R20: as they were seen on the wire."""
    cluster = formed(profile)
    cluster.run(3000)
    headers = {sender: m.header for _, sender, _, m in cluster.messages if m.type == MessageType.PING}

    assert [headers[index].flags for index in range(6)] == [master] * 3 + [replica] * 3
    assert {header.mflags[0] for header in headers.values()} == {0 if profile.shard_ids is ShardIds.NONE else 4}
    assert headers[3].replicaof == cluster.hosts[0].id
    assert headers[3].myslots == headers[0].myslots
    assert headers[3].config_epoch == headers[0].config_epoch


def test_a_pending_ping_stays_pending_over_a_new_link() -> None:
    """R30: reconnecting hides no outage."""
    cluster = formed(VALKEY_9_1)
    node = cluster.hosts[0].node
    peer = node.view.nodes[cluster.hosts[1].id]
    peer.ping_sent_ms = cluster.now_ms - 700
    node.handle(LinkClosed(peer.outbound or 0), cluster.now_ms)
    opened = [e for e in node.handle(Tick(), cluster.now_ms) if isinstance(e, OpenLink)]

    effects = node.handle(LinkOpened(opened[0].link), cluster.now_ms)

    assert [e.message.type for e in effects if isinstance(e, SendMessage)] == [MessageType.PING]
    assert peer.ping_sent_ms == cluster.now_ms - 700


@every_profile
def test_every_pfail_node_is_in_every_ping(profile: Profile) -> None:
    """R40."""
    cluster = formed(profile, 5, 5)
    cluster.cut((0, 9))
    host = cluster.hosts[0]
    assert cluster.run_until(lambda: bool(host.node.view.nodes[cluster.hosts[9].id].flags & PFAIL), 4000)
    cluster.hosts[0].node.handle(Tick(), cluster.now_ms)
    message = build_ping(host.node.state, MessageType.PING, host.node.view.nodes[cluster.hosts[1].id])

    assert isinstance(message.body, Gossip)
    assert [e.node for e in message.body.entries if e.flags & PFAIL] == [cluster.hosts[9].id]


@pytest.mark.long
@given(st.integers(2, 60), st.integers(0, 2**32), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_gossip_names_each_fit_node_at_most_once(nodes: int, seed: int, data: st.DataObject) -> None:
    """R38, R39: never ourselves, handshakes, nodes without address or doubted ones; never more than wanted."""
    cluster = Cluster(1, profile=data.draw(st.sampled_from(list(PROFILES.values()))), seed=seed)
    state = cluster.hosts[0].node.state
    view = state.view
    for index in range(nodes - 1):
        flags = data.draw(st.sampled_from([1, 1, 1, 2, 1 | PFAIL, 1 | NOADDR, HANDSHAKE]))
        peer = view.nodes[f"{index:040d}"] = Peer(f"{index:040d}", flags, START_MS)
        peer.outbound = data.draw(st.sampled_from([None, 2]))
        peer.slots = data.draw(st.sampled_from([0, 1]))
    receiver = view.nodes["0" * 40]

    entries = choose_entries(state, receiver)

    named = [entry.node for entry in entries]
    assert len(named) == len(set(named)) <= entries_wanted(nodes)
    for node in named:
        peer = view.nodes[node]
        assert peer is not view.myself
        assert not peer.flags & (PFAIL | NOADDR | HANDSHAKE)
        assert peer.outbound is not None or peer.slots
        assert peer is not receiver or view.profile.receiver_gossiped


class WatchfulWorld(Servers):
    """Its nodes look at everybody in each cron, as the servers do."""

    def _tick(self, host: sim.Host, life: int) -> None:
        if host.life == life and host.answers:
            make_all_due(host.node.state)
        super()._tick(host, life)


class Watchful(Cluster):
    """A cluster in such a world."""

    world_class = WatchfulWorld


@pytest.mark.long
@given(
    st.sampled_from(list(PROFILES.values())), st.integers(0, 1000), st.integers(0, 5), st.sampled_from([0, 300, 900])
)
@settings(max_examples=examples(8), deadline=None)
def test_looking_only_when_it_is_due_changes_nothing(
    profile: Profile, seed: int, victim: int, interval_ms: int
) -> None:
    """R28: the agenda is a shortcut; message by message a cluster that looks at all nodes each time does the same."""
    actual = []
    for kind in (Cluster, Watchful):
        cluster = kind(6, profile=profile, seed=seed, node_timeout_ms=1000, ping_interval_ms=interval_ms)
        cluster.form(3, 3)
        cluster.keep_messages = True
        cluster.cut((victim, (victim + 1) % 6))
        cluster.run(2500)
        cluster.heal()
        cluster.crash(victim)
        cluster.run(5000)
        cluster.restart(victim)
        cluster.run(4000)
        actual.append([(at, sender, receiver, m.type) for at, sender, receiver, m in cluster.messages])

    assert sorted(actual[0]) == sorted(actual[1])


@every_profile
def test_cached_gossip_equals_fresh_gossip(profile: Profile) -> None:
    """R9: entries are kept, shared between nodes, and asked instead of the table; none may be out of date."""
    cluster = Cluster(6, profile=profile, seed=3, node_timeout_ms=1000)
    cluster.form(3, 3)
    kept = 0
    for step in range(60):
        if step == 20:
            cluster.crash(1)
        if step == 45:
            cluster.restart(1)
        cluster.run(150)
        for state in (host.node.state for host in cluster.hosts if host.alive):
            view = state.view
            for peer in state.peers() if view.entries_version == view.version else ():
                if (entry := view.entries[peer.place]) is not None:
                    times = peer.ping_sent_ms // 1000, peer.pong_received_ms // 1000
                    expected = (peer.id, *times, peer.ip, peer.port, peer.cport, peer.flags & 0xFFFF, peer.pport, 0)
                    kept += 1

                    assert entry == expected

    assert kept


def test_messages_on_closed_links_are_ignored() -> None:
    """A driver may still hold some."""
    node = Node(NodeSettings(), Random(1), START_MS)

    assert node.handle(MessageReceived(99, Message(Header()), ""), START_MS) == []


def test_many_dead_nodes_are_all_marked_pfail_in_time() -> None:
    """R29, R34, R53: no node is left out because of too many connections."""
    cluster = formed(VALKEY_9_1, 8, 0)
    for index in range(5):
        cluster.crash(index)
    cluster.run(4200)
    view = cluster.hosts[7].node.view

    assert all(view.nodes[cluster.hosts[index].id].flags & (PFAIL | FAIL) for index in range(5))
