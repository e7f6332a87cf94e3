"""Whatever arrives, in any order: no crash, one owner a slot, no FAIL on oneself, and the pre-filter changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.gossip import events as ev
from cluster_core.gossip.flags import FAILURES, MASTER, MYSELF
from cluster_core.gossip.node import ClusterNode
from cluster_core.gossip.prefilter import Prefilter
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_9_1, Profile
from cluster_core.gossip.view import row_of
from cluster_core.wire.bus import (
    Gossip,
    GossipEntry,
    LightHeader,
    Message,
    MessageType,
    Unknown,
)
from tests.builders.gossip_builder import ME, A, B, Bench, D, entry, header, ping
from tests.builders.gossip_messages import SLOTS, ids, messages, profiles
from tests.examples import examples

events = st.one_of(
    st.builds(ev.MessageReceived, st.sampled_from([10, 11, 20, 21, 30, 31, 77, 990]), messages(), st.just("127.0.0.1")),
    st.builds(ev.PingSent, ids, st.booleans()),
    st.just(ev.Tick()),
    st.builds(ev.LinkConnected, st.sampled_from([10, 20, 77]), ids),
    st.builds(ev.LinkAccepted, st.sampled_from([11, 50])),
    st.builds(ev.LinkClosed, st.sampled_from([10, 11, 20, 50, 77])),
    st.builds(ev.MeetOrdered, st.just("127.0.0.1"), st.just(7004), st.just(17004)),
    st.builds(ev.ForgetOrdered, ids),
    st.builds(ev.FailSent, ids),
    st.builds(ev.ResetOrdered, st.sampled_from(["", D])),
    st.just(ev.Restarted()),
    st.builds(ev.HeaderSent, st.builds(header, st.just(ME), slots=st.sampled_from(SLOTS))),
)
steps = st.lists(st.tuples(st.integers(0, 900), events), max_size=30)


def check(node: ClusterNode) -> None:
    """The invariants of the table (R68, R167, R55)."""
    view, seen = node.view, 0
    assert view.nodes[view.myself.id] is view.myself
    assert not view.myself.flags & FAILURES
    assert sum(bool(peer.flags & MYSELF) for peer in view.nodes.values()) == 1
    for node_id, peer in view.nodes.items():
        assert peer.id == node_id
        assert not seen & peer.slots
        seen |= peer.slots
    assert not view.unclaimed & ~seen


@given(profiles, steps)
@settings(max_examples=examples(150), deadline=None)
def test_no_sequence_of_events_breaks_the_table(profile: Profile, sequence: list[tuple[int, ev.Event]]) -> None:
    """R68: one owner a slot; R55: never FAIL on oneself."""
    bench = Bench(profile=profile, slots={ME: "0-2", A: "3-9"})
    check(bench.node)
    for wait_ms, event in sequence:
        bench.now_ms += wait_ms
        bench.node.handle(event, bench.now_ms)

        check(bench.node)


def state_of(node: ClusterNode) -> object:
    """All state that determines the machine's behaviour."""
    view = node.view
    peers = [
        (*row_of(view, p), p.flags, p.ping_sent_ms, p.pong_received_ms, p.data_received_ms, p.reports, p.repl_offset)
        for p in view.nodes.values()
    ]
    return (list(view.nodes), peers, view.current_epoch, view.unclaimed, view.ok, view.blacklist)


@given(profiles, steps, st.data())
@settings(max_examples=examples(150), deadline=None)
def test_the_pre_filter_changes_nothing(
    profile: Profile, sequence: list[tuple[int, ev.Event]], data: st.DataObject
) -> None:
    """Quiet messages move the same clocks and get the same answers as in the full machine."""
    filtered, full = Bench(profile=profile, slots={ME: "0-2"}), Bench(profile=profile, slots={ME: "0-2"})
    prefilter, now_ms = Prefilter(filtered.node), filtered.now_ms
    steady = [ev.MessageReceived(11, ping(A, entry(B, pong_received_s=now_ms // 1000 + i)), "") for i in range(3)]
    for wait_ms, event in [*((1, e) for e in steady), *sequence]:
        for repeat in range(data.draw(st.integers(1, 3))):
            now_ms += wait_ms if repeat == 0 else 1

            assert prefilter.handle(event, now_ms) == full.node.handle(event, now_ms)
            assert state_of(filtered.node) == state_of(full.node)
    assert now_ms > filtered.now_ms


def test_a_repeated_ping_takes_the_short_way() -> None:
    bench = Bench(slots={A: "0-99"})
    message = ping(A, entry(B), slots="0-99")
    prefilter, event = Prefilter(bench.node), ev.MessageReceived(11, message, "127.0.0.1")
    prefilter.handle(event, bench.now_ms)

    assert prefilter.settle(event, bench.now_ms) == [ev.ReplyPong(11)]


@pytest.mark.parametrize("profile", [REDIS_7_0, VALKEY_9_1], ids=lambda p: p.name)
def test_hostile_messages_are_counted_and_change_nothing(profile: Profile) -> None:
    """R18, R42: unknown types, odd ids, overrunning claims, light headers without a sender."""
    bench = Bench(profile=profile)
    before = list(bench.view.nodes)
    hostile = [
        Message(header(A, 99), Unknown(b"x", "type 99 is not known")),
        Message(header(A, ver=7), Gossip()),
        Message(header(A, count=65_535), Gossip(), Unknown(b"", "gossip count 65535 overruns the message after 0")),
        ping(A, entry("x" * 39 + "!")),
        ping(ME),
        Message(LightHeader(), Unknown(b"", "no body")),
        Message(LightHeader(type=MessageType.PUBLISH)),
    ]

    for message in hostile:
        effects = bench.hear(message, link=990 if isinstance(message.header, LightHeader) else None)

        assert any(isinstance(effect, ev.Ignored) for effect in effects)
    assert list(bench.view.nodes) == before


@pytest.mark.long
def test_a_flood_of_introductions_is_bounded() -> None:
    """A sender may name 65,535 nodes; the table has a bound."""
    bench = Bench((A,))
    entries = tuple(GossipEntry(f"{i:040x}", cport=1, flags=MASTER) for i in range(65_535))

    bench.hear(Message(header(A, count=65_535), Gossip(entries)))

    assert len(bench.view.nodes) <= 20_000
