"""Whatever a node is told, it stays up: it raises nothing, and what it says can be sent and saved."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.gossip import events as belief
from cluster_core.gossip.flags import FAILURES, HANDSHAKE, MYSELF
from cluster_core.gossip.profile import PROFILES, VALKEY_9_1
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.topology.nodes_text import read_nodes
from cluster_core.wire.bus import Message, encode_message
from tests.benches.resp import encode_value
from tests.builders.gossip_builder import ME, TIMEOUT_MS, A, header, ping
from tests.builders.gossip_messages import ids, messages, profiles
from tests.examples import examples

NOW_MS = 1_700_000_000_000
links = st.sampled_from([1, 2, 3, 4, 5, 6, 99])
words = st.one_of(
    st.sampled_from(
        [
            "MEET",
            "FORGET",
            "REPLICATE",
            "RESET",
            "HARD",
            "FAILOVER",
            "FORCE",
            "TAKEOVER",
            "SETSLOT",
            "NODE",
            "STABLE",
            "MIGRATING",
            "IMPORTING",
            "ADDSLOTS",
            "ADDSLOTSRANGE",
            "DELSLOTS",
            "BUMPEPOCH",
            "NODES",
            "INFO",
            "MYID",
            "KEYSLOT",
            "COUNTKEYSINSLOT",
            "GETKEYSINSLOT",
            "COUNT-FAILURE-REPORTS",
            "SET-CONFIG-EPOCH",
            "SAVECONFIG",
            "FLUSHSLOTS",
            "0",
            "1",
            "5",
            "16383",
            "16384",
            "-1",
            "127.0.0.1",
            "7001",
        ]
    ).map(str.encode),
    ids.map(lambda text: text.encode("latin-1")),
    st.binary(max_size=12),
)
commands = st.one_of(
    st.lists(words, max_size=4).map(lambda rest: (b"CLUSTER", *rest)),
    st.lists(words, max_size=3).map(tuple),
    st.sampled_from([(b"GET", b"a"), (b"MULTI",), (b"EXEC",), (b"ASKING",)]),
)
events = st.one_of(
    st.builds(belief.MessageReceived, links, messages(), st.just("127.0.0.1")),
    st.builds(belief.MessageReceived, links, messages(), st.just("127.0.0.1")),
    st.just(belief.Tick()),
    st.just(belief.Tick()),
    st.builds(belief.LinkAccepted, st.sampled_from([1, 3, 5]), st.sampled_from(["", "127.0.0.1"])),
    st.builds(ev.LinkOpened, links),
    st.builds(belief.LinkClosed, links),
    st.sampled_from([ev.ReplicationUp(), ev.ReplicationDown(), ev.ReplicationOffset(7), ev.ReplicationOffset(0)]),
    st.builds(ev.ClientCommand, st.integers(1, 2), commands),
    st.builds(ev.ClientClosed, st.integers(1, 2)),
)


def check(node: Node, effects: list[Any]) -> None:
    """Messages have bytes, replies have bytes, nodes.conf can be read again, and the table makes sense."""
    for effect in effects:
        if isinstance(effect, ev.SendMessage):
            assert len(encode_message(effect.message)) == effect.message.header.totlen
        elif isinstance(effect, ev.Reply):
            assert encode_value(effect.value, protocol=2)
            assert encode_value(effect.value, protocol=3)
        elif isinstance(effect, ev.LogLine):
            assert effect.level in ".-*#"
    view = node.view
    assert view.nodes[view.myself.id] is view.myself
    assert view.myself.flags & MYSELF
    assert not view.myself.flags & FAILURES


@given(profiles, st.integers(0, 99), st.lists(st.tuples(st.sampled_from([0, 1, 100, 900, 5000]), events), max_size=40))
@settings(max_examples=examples(150), deadline=None)
def test_no_sequence_of_events_makes_a_node_raise(profile: Any, seed: int, sequence: list[tuple[int, Any]]) -> None:
    """R18, R68: messages, links, time and clients in any order."""
    node = Node(NodeSettings(profile, TIMEOUT_MS, 7000), Random(seed), NOW_MS, my_id=ME)
    now_ms = NOW_MS
    for wait_ms, event in sequence:
        now_ms += wait_ms

        check(node, node.handle(event, now_ms))

    text = node.config_text()
    assert len(read_nodes(text.encode()).nodes) == sum(not p.flags & HANDSHAKE for p in node.view.nodes.values())


def test_an_epoch_at_the_end_of_its_range_can_still_be_sent() -> None:
    """A header may say anything: the next epoch wraps like the servers' 64 bits."""
    node = Node(NodeSettings(VALKEY_9_1, TIMEOUT_MS), Random(1), NOW_MS)
    node.view.current_epoch = node.view.myself.config_epoch = (1 << 64) - 1
    node.view.myself.config_epoch = 0

    effects = node.handle(ev.ClientCommand(1, (b"CLUSTER", b"BUMPEPOCH")), NOW_MS)

    assert effects
    assert node.view.current_epoch == 0


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
def test_an_address_that_is_no_word_does_not_reach_the_file(profile: Any) -> None:
    """R129: a peer must not write lines of our nodes.conf."""
    node = Node(NodeSettings(profile, TIMEOUT_MS, 7000), Random(1), NOW_MS, my_id=ME)
    node.handle(belief.LinkAccepted(1, "127.0.0.1"), NOW_MS)
    meet = Message(header(A, 2, myip="1 myself,master\nx"), ping(A).body)
    effects = node.handle(belief.MessageReceived(1, meet, "127.0.0.1"), NOW_MS)
    link = next((e.link for e in node.handle(belief.Tick(), NOW_MS + 100) if isinstance(e, ev.OpenLink)), 2)
    node.handle(ev.LinkOpened(link), NOW_MS + 100)
    pong = Message(header(A, 1, myip="1 myself,master\nx"), ping(A).body)
    node.handle(belief.MessageReceived(link, pong, "127.0.0.1"), NOW_MS + 101)

    assert effects
    assert A in node.view.nodes
    assert node.config_text().count("myself") == 1
    assert len(read_nodes(node.config_text().encode()).nodes) == 2
