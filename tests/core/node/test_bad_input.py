"""Any input leaves a node running: it raises nothing, and its messages can be sent."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.gossip import events as belief
from cluster_core.gossip.flags import FAILURES, MYSELF
from cluster_core.gossip.profile import VALKEY_9_1
from cluster_core.node import events as ev
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.wire.bus import encode_message
from tests.benches.node_commands import order
from tests.benches.resp import encode_value
from tests.builders.gossip_builder import ME, TIMEOUT_MS
from tests.builders.gossip_messages import messages, profiles
from tests.examples import examples

NOW_MS = 1_700_000_000_000
links = st.sampled_from([1, 2, 3, 4, 5, 6, 99])
commands = st.lists(st.one_of(st.sampled_from([b"GET", b"MGET", b"SET", b"EVAL", b"1"]), st.binary(max_size=12)))
events = st.one_of(
    st.builds(belief.MessageReceived, links, messages(), st.just("127.0.0.1")),
    st.builds(belief.MessageReceived, links, messages(), st.just("127.0.0.1")),
    st.just(belief.Tick()),
    st.just(belief.Tick()),
    st.builds(belief.LinkAccepted, st.sampled_from([1, 3, 5]), st.sampled_from(["", "127.0.0.1"])),
    st.builds(ev.LinkOpened, links),
    st.builds(belief.LinkClosed, links),
    st.sampled_from([ev.ReplicationUp(), ev.ReplicationDown(), ev.ReplicationOffset(7), ev.ReplicationOffset(0)]),
    st.builds(ev.ClientCommand, st.integers(1, 2), commands.map(tuple), st.booleans()),
)


def check(node: Node, effects: list[Any]) -> None:
    """Messages have bytes, replies have bytes, and the table makes sense."""
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

    assert node.view.nodes[ME] is node.view.myself


def test_an_epoch_at_the_end_of_its_range_can_still_be_sent() -> None:
    """A header may say anything: the next epoch wraps like the servers' 64 bits."""
    node = Node(NodeSettings(VALKEY_9_1, TIMEOUT_MS), Random(1), NOW_MS)
    node.view.current_epoch = node.view.myself.config_epoch = (1 << 64) - 1
    node.view.myself.config_epoch = 0

    effects = node.handle(order(1, (b"CLUSTER", b"BUMPEPOCH")), NOW_MS)

    assert effects
    assert node.view.current_epoch == 0
