"""Handshakes, introductions, FORGET, RESET, impostors (R24, R46, R56 to R62, R82)."""

from __future__ import annotations

import pytest

from cluster_core.gossip.events import (
    Changed,
    CloseLink,
    ForgetOrdered,
    LinkConnected,
    MeetOrdered,
    NodeAdded,
    NodeRemoved,
    NodeRenamed,
    ReplyPong,
    ResetOrdered,
    Restarted,
    Tick,
)
from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, NOADDR, PFAIL
from cluster_core.gossip.profile import REDIS_7_0, VALKEY_8_1, VALKEY_9_1, Profile
from cluster_core.slots.slot_set import slot_bits
from cluster_core.wire.bus import Gossip, Message, MessageType
from cluster_core.wire.bus_message import forgotten_node_extension, text_extension
from tests.builders.gossip_builder import ME, TIMEOUT_MS, A, B, Bench, C, D, entry, header, ping


def meet_d(bench: Bench) -> str:
    """Order a MEET with D and return the id of the handshake."""
    (added,) = bench.node.handle(MeetOrdered("127.0.0.1", 7004, 17004), bench.now_ms)
    assert isinstance(added, NodeAdded)
    bench.node.handle(LinkConnected(77, added.node), bench.now_ms)
    return added.node


def test_a_pong_gives_a_handshake_its_name() -> None:
    """R57."""
    bench = Bench((A,))
    handshake = meet_d(bench)

    effects = bench.hear(ping(D, kind=MessageType.PONG), link=77)

    assert NodeRenamed(handshake, D) in effects
    assert bench.peer(D).flags & (HANDSHAKE | MASTER) == MASTER


def test_a_handshake_with_a_node_that_we_know_is_dropped() -> None:
    """R57."""
    bench = Bench((A, D))
    handshake = meet_d(bench)

    effects = bench.hear(ping(D, kind=MessageType.PONG), link=77)

    assert CloseLink(77) in effects
    assert handshake not in bench.view.nodes


def test_a_handshake_does_not_live_longer_than_the_timeout() -> None:
    """R59."""
    bench = Bench((A,))
    handshake = meet_d(bench)

    effects = bench.node.handle(Tick(), bench.now_ms + TIMEOUT_MS + 1)

    assert NodeRemoved(handshake, "R59") in effects


def test_a_stranger_that_meets_us_is_greeted_and_answered() -> None:
    """R56, R41."""
    bench = Bench((A,))

    effects = bench.hear(ping(D, kind=MessageType.MEET), link=50)

    assert ReplyPong(50) in effects
    assert [peer.cport for peer in bench.view.nodes.values() if peer.flags & HANDSHAKE] == [17004]


def test_a_known_node_introduces_others() -> None:
    """R46."""
    bench = Bench((A,))

    bench.hear(ping(A, entry(D)))

    assert bench.peer(D).cport == 17004


def test_a_stranger_introduces_nobody() -> None:
    """R46."""
    bench = Bench((A,))

    bench.hear(ping(C, entry(D)), link=50)

    assert D not in bench.view.nodes


def test_a_forgotten_node_stays_out_for_a_minute() -> None:
    """R61, R24."""
    bench = Bench((A, B), slots={B: "0-9"})
    bench.node.handle(ForgetOrdered(B), bench.now_ms)
    bench.hear(ping(A, entry(B)))
    assert B not in bench.view.nodes

    bench.now_ms += 60_001
    bench.hear(ping(A, entry(B)))

    assert B in bench.view.nodes


def test_forget_spreads_in_an_extension() -> None:
    """R61: Redis 7.2 and Valkey."""
    bench = Bench((A, B), profile=VALKEY_9_1)
    body = Gossip((), (forgotten_node_extension(B, 60),))

    effects = bench.hear(Message(header(A), body))

    assert NodeRemoved(B, "R61") in effects


def test_nobody_forgets_itself_or_its_master() -> None:
    """R61."""
    bench = Bench((A,), slots={A: "0-9"})
    bench.view.myself.replicaof = A

    for node in (ME, A):
        bench.node.handle(ForgetOrdered(node), bench.now_ms)

    assert {ME, A} <= set(bench.view.nodes)


def test_removing_a_node_leaves_no_trace_of_it() -> None:
    """R24."""
    bench = Bench((A, B, C), slots={B: "0-9"})
    bench.peer(C).replicaof = B
    bench.peer(A).reports[B] = bench.now_ms
    bench.view.migrating[5] = B

    bench.node.handle(ForgetOrdered(B), bench.now_ms)

    assert (bench.peer(C).replicaof, bench.peer(A).reports, bench.view.migrating) == ("", {}, {})
    assert not bench.view.assigned() & slot_bits("0-9")


@pytest.mark.parametrize(("profile", "failed"), [(REDIS_7_0, False), (VALKEY_8_1, True)])
def test_another_id_at_a_node_s_address_costs_it_the_address(profile: Profile, failed: bool) -> None:
    """R58."""
    bench = Bench((A,), profile=profile)

    effects = bench.hear(ping(D, kind=MessageType.PONG), link=10)

    assert CloseLink(10) in effects
    assert bench.peer(A).flags & NOADDR
    assert bool(bench.peer(A).flags & FAIL) == failed


def test_a_ping_on_the_other_link_moves_the_address() -> None:
    """R62."""
    bench = Bench((A,))

    effects = bench.hear(ping(A, port=7100, cport=17100))

    assert Changed(A, "address", "R62") in effects
    assert bench.peer(A).cport == 17100


def test_a_host_name_comes_and_goes_with_its_extension() -> None:
    """R15."""
    bench = Bench((A,))
    bench.hear(Message(header(A), Gossip((), (text_extension(0, "host-a"),))))
    assert bench.peer(A).hostname == "host-a"

    bench.hear(ping(A))

    assert bench.peer(A).hostname == ""


def test_reset_hard_leaves_a_new_node_alone() -> None:
    """R82."""
    bench = Bench((A, B), slots={ME: "0-9"}, epochs={ME: 4})

    bench.node.handle(ResetOrdered(D), bench.now_ms)

    assert list(bench.view.nodes) == [D]
    assert (bench.view.myself.slots, bench.view.myself.config_epoch, bench.view.current_epoch) == (0, 0, 0)


def test_a_restart_keeps_fail_and_drops_pfail() -> None:
    """R129: nodes.conf."""
    bench = Bench((A, B))
    bench.peer(A).flags |= PFAIL
    bench.peer(B).flags |= FAIL

    bench.node.handle(Restarted(), bench.now_ms)

    assert not bench.peer(A).flags & PFAIL
    assert bench.peer(B).flags & FAIL
    assert not bench.view.links
