"""Links between hosts behave as TCP does: in order, held up by losses and walls, refused, reset."""

from __future__ import annotations

from random import Random

import pytest

from cluster_core.gossip.profile import REDIS_7_0
from cluster_core.node.state import NodeSettings
from cluster_core.sim.host import NetworkPath, retry_after_us
from cluster_core.sim.layouts import Layout, places_of
from cluster_core.sim.stage import Stage
from cluster_core.wire.bus import Header, Message
from tests.benches.simulated_servers import Servers

TIMEOUT_MS = 3_600_000
"""Nodes without pings for an hour keep out of the way."""


@pytest.fixture
def stage():
    settings = NodeSettings(profile=REDIS_7_0, node_timeout_ms=TIMEOUT_MS)
    places = places_of(Layout(2, 0), lambda name: settings, Random(1))
    made = Stage(Servers(Random, 1, path=NetworkPath(1000, 500)), places)
    made.world.run_to(1_500_000)
    return made


def link_between(stage, near, peer):
    return next(
        s for s in stage.world.hosts[near].streams.values() if s.target is stage.world.hosts[peer] and s.is_ours
    )


def listen(stage):
    """The numbers of our messages that arrive, in order, and when; the nodes' own messages are left out."""
    arrived = []

    class Ears:
        def delivered(self, stream, message):
            if message.header.type == 3:
                arrived.append((message.header.offset, stage.world.now_us))

        def connected(self, stream):
            arrived.append(("open", stage.world.now_us))

        def closed(self, stream):
            arrived.append(("closed", stage.world.now_us))

    stage.world.recorder = Ears()
    return arrived


def numbered(number):
    return Message(Header(sender="f" * 40, offset=number, type=3))


def test_messages_of_a_link_arrive_in_order(stage):
    """Jitter and losses hold up, they do not turn around."""
    stage.faults.change_paths(stage.world.hosts[:1], stage.world.hosts[1:], loss=0.3)
    stream, arrived = link_between(stage, 0, 1), listen(stage)

    for number in range(200):
        stage.world.network.send(stage.world.hosts[0], stream.link, numbered(number))
    stage.world.run_to(stage.world.now_us + 300_000_000)

    assert [number for number, _ in arrived if isinstance(number, int)][:200] == list(range(200))
    assert arrived[199][1] - arrived[0][1] >= 200_000


def test_blocked_packets_are_delivered_after_a_partition(stage):
    """The sender's timeouts double meanwhile (RFC 6298)."""
    world, stream, arrived = stage.world, link_between(stage, 0, 1), listen(stage)
    stage.faults.cut(world.hosts[:1], world.hosts[1:])
    cut_us = world.now_us

    world.network.send(world.hosts[0], stream.link, numbered(1))
    world.run_to(cut_us + 1_000_000)
    before = list(arrived)
    stage.faults.heal()
    world.run_to(cut_us + 3_000_000)

    assert before == []
    ((number, at_us), *_) = arrived
    assert number == 1
    assert at_us - cut_us >= 1_400_000


def test_a_machine_without_power_sends_nothing(stage):
    """No FIN, no reset: the other side thinks that the link stands."""
    world, arrived = stage.world, listen(stage)
    stage.faults.switch_off(world.hosts[1])
    world.run_to(world.now_us + 5_000_000)

    assert arrived == []
    assert len(world.hosts[0].streams) == 2

    stage.faults.restart(world.hosts[1])
    world.run_to(world.now_us + 1_000_000)

    assert all(stream.is_open for stream in world.hosts[0].streams.values())


@pytest.mark.parametrize(("held_us", "wait_us"), [(0, 200_000), (199_999, 1), (200_000, 400_000), (10**12, None)])
def test_a_sender_tries_again_when_its_timeout_comes(held_us, wait_us):
    """0.2, 0.6, 1.4 s … after the first loss, two minutes apart at last."""
    wait = retry_after_us(held_us)

    assert 0 < wait <= 120_000_000
    assert wait_us is None or wait == wait_us


@pytest.mark.parametrize("hindrance", ["power", "wall", "wall back"])
@pytest.mark.parametrize(
    ("gone_us", "open_us"), [(500_000, 1_000_000), (1_000_001, 3_000_000), (9_000_000, 15_000_000)]
)
def test_a_connection_is_asked_for_when_the_next_syn_is_due(stage, hindrance, gone_us, open_us):
    """SYNs go out after 0, 1, 3, 7, 15 … s, whenever the obstacle goes, and take 1 to 1.5 ms."""
    world, (near, peer), far = stage.world, stage.world.hosts, 1 << 40
    if hindrance == "power":
        stage.faults.switch_off(peer)
    else:
        stage.faults.cut(*([peer], [near]) if hindrance == "wall back" else ([near], [peer]), both_ways=False)
    begun_us = world.now_us
    world.network.open(near, far, peer.ip, peer.settings.bus_port)
    asked = near.streams[far]
    world.run_to(begun_us + gone_us)
    if hindrance == "power":
        stage.faults.restart(peer)
    else:
        stage.faults.heal()
    while asked.reverse is None and world.now_us < begun_us + open_us + 10_000:
        world.run_to(world.now_us + 500)

    assert open_us + 1_000 <= world.now_us - begun_us <= open_us + 2_000


@pytest.mark.parametrize("falls_us", [None, 126_000_000])
def test_an_unanswered_connection_is_given_up_after_two_minutes(stage, falls_us):
    """127 s, as Linux has it; a wall that fell and stands again before a SYN came through changes nothing."""
    world, (near, peer), far = stage.world, stage.world.hosts, 1 << 40
    stage.faults.cut([near], [peer])
    begun_us = world.now_us
    world.network.open(near, far, peer.ip, peer.settings.bus_port)
    if falls_us is not None:
        world.run_to(begun_us + falls_us)
        stage.faults.heal()
        stage.faults.cut([near], [peer])
    world.run_to(begun_us + 126_999_999)
    before = far in near.streams
    world.run_to(begun_us + 127_000_000)

    assert before
    assert far not in near.streams
