"""Any events in any order: nothing raises, and the sentinel's state stays consistent."""

from __future__ import annotations

from random import Random

import pytest

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import FailoverState, Flag
from cluster_core.wire.resp import RespError
from tests.benches.resp import encode_value
from tests.benches.sentinel_bench import MAIN, MASTER, MORE, MY_ID, Bench, info_of_master, info_of_replica

WATCHED = (
    MAIN._replace(down_after_ms=1000, failover_timeout_ms=3000),
    MORE._replace(quorum=1, down_after_ms=1000, failover_timeout_ms=2000),
)
PLACES = [(f"10.0.0.{number}", 6379) for number in range(1, 7)]
SENTINELS = [(f"10.0.9.{number}", 26379) for number in range(1, 4)]
IDS = [*(f"{number:040x}" for number in range(1, 4)), MY_ID]
RUNS, STEPS = 25, 400


def act(bench: Bench, chance: Random) -> None:
    """One event by chance, more often than not one that makes sense."""
    kind = chance.randrange(12)
    place = chance.choice(PLACES)
    links = list(bench.sentinel.state.connections)
    if kind <= 4:
        bench.pass_ms(chance.choice((60, 100, 900, 1500)), 100)
    elif kind == 5:
        bench.infos[place] = chance.choice(
            (
                info_of_master(*chance.sample(PLACES, 2)),
                info_of_replica(chance.choice(PLACES), up=chance.random() < 0.7),
            )
        )
    elif kind == 6 and place in bench.silent:
        bench.wake(place)
    elif kind == 6:
        bench.silent.add(place)
    elif kind == 7:
        say_hello(bench, chance)
    elif kind == 8:
        bench.opinions[chance.choice(SENTINELS)] = [
            chance.randrange(2),
            chance.choice(IDS).encode(),
            chance.randrange(9),
        ]
    elif kind == 9 and links:
        bench.handle(ev.LinkClosed(chance.choice(links)))
    elif kind == 10 and links:
        value = chance.choice(("PONG", RespError("BUSY"), None, [], [1, b"x", 2], b"role:slave\r\n", 5))
        bench.handle(ev.ReplyReceived(chance.choice(links), value))
    else:
        arguments = ("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", MASTER[0], str(MASTER[1]), str(chance.randrange(12)))
        bench.say(*arguments, chance.choice(IDS), client=chance.randrange(3))


def say_hello(bench: Bench, chance: Random) -> None:
    ip, port = chance.choice(SENTINELS)
    name, (host, master_port) = chance.choice(("main", "more", "nobody")), chance.choice(PLACES)
    runid, epoch, config_epoch = chance.choice(IDS), chance.randrange(12), chance.randrange(12)
    bench.hello(f"{ip},{port},{runid},{epoch},{name},{host},{master_port},{config_epoch}")


def check(bench: Bench) -> None:
    """What holds between any two events."""
    state = bench.sentinel.state
    alive = set()
    for master in state.masters.values():
        fails = bool(master.flags & Flag.FAILOVER_IN_PROGRESS)
        assert fails == (master.failover_state is not FailoverState.NONE)
        promoted = [replica for replica in master.replicas.values() if replica.flags & Flag.PROMOTED]
        assert promoted == ([master.promoted] if master.promoted is not None else [])
        assert master.failover_state < FailoverState.SEND_SLAVEOF_NOONE or promoted
        assert master.leader_epoch <= state.current_epoch
        assert MY_ID not in master.sentinels
        assert str(master.address) not in master.replicas or fails or master.promoted is None
        for each in (master, *master.replicas.values(), *master.sentinels.values()):
            assert not each.is_gone
            alive |= {number for number in (each.link.command, each.link.pubsub) if number}
            assert each.link.disconnected or each.link.command
            assert each.link.pending_commands >= 0
    assert set(state.connections) == alive


@pytest.mark.long
@pytest.mark.parametrize("run", range(RUNS))
def test_nothing_breaks_whatever_happens(run):
    """A sentinel with two masters, six servers, three other sentinels, and events by chance."""
    chance, bench = Random(f"events/{run}"), Bench(*WATCHED, seed=run)
    bench.infos = {place: info_of_replica() for place in PLACES}
    bench.infos[MASTER] = info_of_master(*PLACES[1:3])
    bench.infos[PLACES[4]] = info_of_master(PLACES[5])
    last_epoch = 0
    for _ in range(STEPS):
        act(bench, chance)
        check(bench)
        assert bench.sentinel.state.current_epoch >= last_epoch
        last_epoch = bench.sentinel.state.current_epoch
        assert all(encode_value(reply, protocol=2) for reply in bench.replies)
