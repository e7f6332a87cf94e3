"""Who is down: in our own eyes, by agreement, and when that ends (S5 to S8, S16)."""

from __future__ import annotations

import pytest

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import Flag
from cluster_core.sentinel.roles import take_info
from cluster_core.wire.resp import RespError
from tests.benches.sentinel_bench import MASTER, Bench, info_of_master, info_of_replica


def test_silence_for_longer_than_down_after_is_down():
    """S6: since the oldest PING that waits."""
    bench = Bench()
    bench.pass_ms(5000)
    bench.silent.add(MASTER)
    bench.pass_ms(2000)
    assert not bench.master.flags & Flag.S_DOWN

    bench.pass_ms(1300)

    assert bench.master.flags & Flag.S_DOWN
    assert ("+sdown", "master main 10.0.0.1 6379") in bench.notices


def test_an_answer_ends_it():
    """S6."""
    bench = Bench()
    bench.silent.add(MASTER)
    bench.pass_ms(4000)
    bench.wake(MASTER)
    bench.pass_ms(20_000)

    assert bench.channels().count("+sdown") == bench.channels().count("-sdown") == 1


@pytest.mark.parametrize(
    ("answer", "is_up"),
    [
        ("PONG", True),
        (RespError("LOADING the dataset"), True),
        (RespError("MASTERDOWN Link with MASTER is down"), True),
        (RespError("BUSY running a script"), False),
        (RespError("NOAUTH Authentication required."), False),
        (b"PONG", False),
        (1, False),
    ],
)
def test_only_some_answers_show_life(answer, is_up):
    """S5."""
    bench = Bench()
    bench.silent.add(MASTER)
    bench.pass_ms(1500)
    number = bench.master.link.command
    while bench.sentinel.state.connections[number].awaited:
        bench.handle(ev.ReplyReceived(number, answer))

    assert (bench.master.link.pending_ping_ms == 0) is is_up


def test_a_busy_script_is_killed_once():
    """sentinelPingReplyCallback: SCRIPT KILL when the instance is down by -BUSY."""
    bench = Bench()
    bench.silent.add(MASTER)
    bench.pass_ms(4000)
    number = bench.master.link.command
    for _ in range(30):
        bench.handle(ev.ReplyReceived(number, RespError("BUSY script")))

    assert len(bench.commands_to(MASTER, "SCRIPT", "KILL")) == 1


def test_a_connection_that_cannot_be_made_is_silence():
    """S6, createInstanceLink: a PING is pending from the beginning."""
    bench = Bench()
    bench.refusing.add(MASTER)
    bench.pass_ms(2200)

    assert bench.master.flags & Flag.S_DOWN


def test_a_master_that_reports_itself_a_replica_is_down_after_a_while():
    """S6: down-after and two INFO periods."""
    bench = Bench()
    bench.pass_ms(1000)
    bench.infos[MASTER] = info_of_replica(("10.0.0.2", 6379))
    bench.pass_ms(10_000 + 20_000)
    assert not bench.master.flags & Flag.S_DOWN

    bench.pass_ms(3000)

    assert bench.master.flags & Flag.S_DOWN


def test_a_reboot_is_noticed():
    """The run id has changed."""
    bench = Bench()
    bench.pass_ms(1000)
    state, master = bench.sentinel.state, bench.master
    take_info(state, master, info_of_master(runid="c" * 40))

    assert state.out[-1] == ev.EventPublished("+reboot", "master main 10.0.0.1 6379")


def test_agreement_needs_the_quorum():
    """S7: ourselves and one more of two."""
    bench = Bench()
    bench.pass_ms(1000)
    places = [bench.meet(1), bench.meet(2)]
    bench.pass_ms(3000)
    bench.silent.add(MASTER)
    bench.pass_ms(5000)
    assert bench.master.flags & Flag.S_DOWN
    assert not bench.master.flags & Flag.O_DOWN

    bench.opinions[places[1]] = [1, b"*", 0]
    bench.pass_ms(1500)

    assert ("+odown", "master main 10.0.0.1 6379 #quorum 2/2") in bench.notices


def test_an_old_opinion_is_forgotten():
    """S8: five ask periods."""
    bench = Bench()
    bench.pass_ms(1000)
    place = bench.meet(1)
    bench.opinions[place] = [1, b"*", 0]
    bench.silent.add(MASTER)
    bench.pass_ms(5000)
    sentinel = next(iter(bench.master.sentinels.values()))
    assert sentinel.flags & Flag.MASTER_DOWN

    bench.silent.add(place)
    bench.pass_ms(7000)

    assert not sentinel.flags & Flag.MASTER_DOWN
    assert "-odown" in bench.channels()


def test_sentinels_are_asked_once_a_second_and_for_votes_in_a_failover():
    """S8: ``*`` before, our id then."""
    bench = Bench()
    bench.pass_ms(1000)
    place = bench.meet(1)
    bench.silent.add(MASTER)
    bench.pass_ms(6000)
    before = bench.commands_to(place, "SENTINEL")
    assert {arguments[-1] for arguments in before} == {"*"}
    assert 2 <= len(before) <= 5

    bench.opinions[place] = [1, b"*", 0]
    bench.pass_ms(2000)

    assert bench.commands_to(place, "SENTINEL")[-1][-1] == bench.sentinel.my_id


@pytest.mark.parametrize("jump_ms", [-1, 2001, 60_000, -60_000])
def test_a_clock_that_jumps_means_tilt(jump_ms):
    """S16: for thirty seconds nothing is done and no instance is marked down."""
    bench = Bench()
    bench.pass_ms(5000)
    bench.silent.add(MASTER)
    bench.now_ms += jump_ms
    bench.handle(ev.Tick())
    assert bench.notices[-1] == ("+tilt", "#tilt mode entered")
    assert bench.say("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "10.0.0.1", "6379", "0", "*")[0] == 0

    bench.pass_ms(29_900)
    assert "+sdown" not in bench.channels()
    bench.pass_ms(300)

    assert [channel for channel in bench.channels() if "tilt" in channel or "sdown" in channel][:2] == [
        "+tilt",
        "-tilt",
    ]


@pytest.mark.parametrize("gap_ms", [0, 2000])
def test_a_late_timer_within_bounds_is_no_tilt(gap_ms):
    """S16: the trigger is more than two seconds."""
    bench = Bench()
    bench.pass_ms(1000)
    bench.now_ms += gap_ms
    bench.handle(ev.Tick())

    assert not bench.sentinel.state.tilt
