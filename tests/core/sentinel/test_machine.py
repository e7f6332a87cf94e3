"""One sentinel on a bench: sent commands and times, discovery, failover and repair."""

from __future__ import annotations

from cluster_core.sentinel import events as ev
from cluster_core.sentinel.instance import Address, Flag
from cluster_core.sentinel.state import MonitoredMaster
from tests.benches.sentinel_bench import MAIN, MASTER, MORE, MY_ID, Bench, info_of_master, info_of_replica

R1, R2 = ("10.0.0.2", 6379), ("10.0.0.3", 6379)
OTHER = ("10.0.9.1", 26379)


def with_replicas(*watched: MonitoredMaster) -> Bench:
    bench = Bench(*watched)
    bench.infos |= {
        MASTER: info_of_master(R1, R2),
        R1: info_of_replica(runid="1" * 40),
        R2: info_of_replica(runid="2" * 40),
    }
    bench.pass_ms(3000)
    return bench


def lose_master(bench: Bench) -> None:
    """The master is silent, the other sentinel agrees and votes for us."""
    bench.meet(1)
    bench.pass_ms(2000)
    bench.silent.add(MASTER)
    bench.opinions[OTHER] = [1, MY_ID.encode(), 1]
    bench.pass_ms(4000)


# -- what is sent ------------------------------------------------------------------------------------------------------


def test_periods_are_those_of_the_server():
    """S2: PING every second, INFO every ten, hello every two, within the step of the timer."""
    bench = Bench()
    bench.pass_ms(60_000)

    assert 50 <= len(bench.commands_to(MASTER, "PING")) <= 61
    assert len(bench.commands_to(MASTER, "INFO")) == 6
    assert 27 <= len(bench.commands_to(MASTER, "PUBLISH")) <= 30


def test_replicas_are_asked_every_second_while_their_master_fails():
    """S2: the failover must not wait ten seconds for a replica's answer."""
    bench = with_replicas()
    lose_master(bench)
    before = len(bench.commands_to(R2, "INFO"))
    bench.pass_ms(5000)

    assert len(bench.commands_to(R2, "INFO")) - before >= 4


def test_a_hello_names_the_sentinel_and_the_master():
    """S3: our end of the connection, our port, our id and epoch, the master and its epoch."""
    bench = Bench()
    bench.pass_ms(3000)

    assert bench.commands_to(MASTER, "PUBLISH")[0][2] == f"10.9.9.9,26379,{MY_ID},0,main,10.0.0.1,6379,0"


def test_the_timer_changes_its_pace():
    """sentinelTimer: 10 to 19 times a second, so that sentinels do not keep step."""
    bench = Bench()
    paces = set()
    for _ in range(100):
        bench.pass_ms(100)
        paces.add(bench.sentinel.tick_ms)

    assert paces == {1000 // hz for hz in range(10, 20)}


# -- whom it meets -----------------------------------------------------------------------------------------------------


def test_a_new_sentinel_is_announced_and_connected():
    """S4."""
    bench = Bench()
    bench.meet(1)
    bench.pass_ms(200)

    assert bench.notices[-1] == ("+sentinel", f"sentinel {1:040x} 10.0.9.1 26379 @ main 10.0.0.1 6379")
    assert bench.commands_to(OTHER, "PING")
    assert not bench.commands_to(OTHER, "SUBSCRIBE")


def test_a_sentinel_that_moves_is_followed_for_every_master():
    """S4: the same id elsewhere."""
    bench = Bench(MAIN, MORE)
    for name in ("main", "more"):
        bench.hello(f"10.0.9.1,26379,{'5' * 40},0,{name},10.0.0.1,6379,0")
    masters = bench.sentinel.state.masters
    assert masters["main"].sentinels["5" * 40].link is masters["more"].sentinels["5" * 40].link

    bench.hello(f"10.0.9.2,26379,{'5' * 40},0,main,10.0.0.1,6379,0")

    assert bench.channels()[-2:] == ["+sentinel-address-switch", "+sentinel-address-update"]
    assert masters["more"].sentinels["5" * 40].address == Address("10.0.9.2", 26379)


def test_a_new_id_at_an_old_address_replaces_the_old_one():
    """S4: +sentinel-invalid-addr."""
    bench = Bench()
    bench.meet(1)
    bench.hello(f"10.0.9.1,26379,{'6' * 40},0,main,10.0.0.1,6379,0")

    assert list(bench.master.sentinels) == ["6" * 40]
    assert "+sentinel-invalid-addr" in bench.channels()


def test_a_newer_configuration_wins():
    """S4: the master moves, the old one becomes a replica; an older one changes nothing."""
    bench = with_replicas()
    bench.hello(f"10.0.9.1,26379,{1:040x},7,main,10.0.0.2,6379,7")

    assert bench.master.address == Address(*R1)
    assert sorted(bench.master.replicas) == ["10.0.0.1:6379", "10.0.0.3:6379"]
    assert bench.channels()[-5:] == ["+new-epoch", "+config-update-from", "+switch-master", "+slave", "+slave"]
    assert bench.notices[-3] == ("+switch-master", "main 10.0.0.1 6379 10.0.0.2 6379")

    bench.hello(f"10.0.9.1,26379,{1:040x},7,main,10.0.0.1,6379,6")

    assert bench.master.address == Address(*R1)


def test_messages_of_the_hello_channel_are_read_and_our_own_ignored():
    """sentinelReceiveHelloMessages."""
    bench = Bench()
    bench.pass_ms(100)
    number = bench.master.link.pubsub
    for runid in (MY_ID, "7" * 40):
        text = f"10.0.9.7,26379,{runid},0,main,10.0.0.1,6379,0"
        bench.handle(ev.ReplyReceived(number, [b"message", b"__sentinel__:hello", text.encode()]))

    assert list(bench.master.sentinels) == ["7" * 40]


# -- failover ----------------------------------------------------------------------------------------------------------


def test_a_failover_goes_through_all_its_states():
    """S10 to S14, with the events of the server in their order."""
    bench = with_replicas()
    lose_master(bench)
    assert bench.commands_to(R1, "SLAVEOF") == [("SLAVEOF", "NO", "ONE")]
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(1500)
    assert bench.commands_to(R2, "SLAVEOF") == [("SLAVEOF", *map(str, R1))]
    bench.infos[R2] = info_of_replica(R1, runid="2" * 40)
    bench.pass_ms(2000)

    begin = bench.channels().index("+odown")
    assert bench.channels()[begin : begin + 19] == [
        "+odown", "+new-epoch", "+try-failover", "+vote-for-leader", "+elected-leader", "+failover-state-select-slave",
        "+selected-slave", "+failover-state-send-slaveof-noone", "+failover-state-wait-promotion", "-role-change",
        "+promoted-slave", "+failover-state-reconf-slaves", "+slave-reconf-sent", "+slave-reconf-inprog",
        "+slave-reconf-done", "+failover-end", "+switch-master", "+slave", "+slave",
    ]  # fmt: skip
    assert (bench.master.address, bench.master.config_epoch) == (Address(*R1), 1)


def test_without_votes_it_gives_up_and_waits_before_it_tries_again():
    """S10, S12: ten seconds at most, then two failover timeouts from its start."""
    bench = with_replicas()
    lose_master(bench)
    bench = with_replicas()
    bench.meet(1)
    bench.pass_ms(2000)
    bench.silent.add(MASTER)
    bench.opinions[OTHER] = [1, b"8" * 40, 1]
    bench.pass_ms(15_000)
    assert bench.channels().count("-failover-abort-not-elected") == 1
    assert bench.channels().count("+try-failover") == 1

    bench.pass_ms(15_000)

    assert bench.channels().count("+try-failover") == 2
    assert any(line.startswith("Next failover delay: I will not start a failover before ") for line in bench.log)


def test_a_promotion_that_never_comes_is_given_up():
    """S14: failover-timeout in WAIT_PROMOTION."""
    bench = with_replicas()
    lose_master(bench)
    bench.pass_ms(10_500)

    assert "-failover-abort-slave-timeout" in bench.channels()
    assert bench.master.promoted is None


def test_a_replica_that_is_not_reconfigured_ends_by_timeout():
    """S14: ten seconds for one replica, then the failover ends without it (if parallel-syncs leaves room to look at it)."""
    bench = with_replicas()
    bench.master.failover_timeout_ms, bench.master.parallel_syncs = 60_000, 2
    lose_master(bench)
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(13_000)

    assert "-slave-reconf-sent-timeout" in bench.channels()
    assert bench.channels().count("+failover-end") == 1


def test_a_slow_failover_ends_with_an_order_to_all_remaining_replicas():
    """sentinelFailoverDetectEnd: +failover-end-for-timeout, +slave-reconf-sent-be."""
    bench = with_replicas()
    lose_master(bench)
    bench.master.parallel_syncs = 0
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(1000)
    bench.master.replicas["10.0.0.3:6379"].flags &= ~Flag.RECONF_SENT
    bench.pass_ms(11_500)

    channels = bench.channels()
    assert channels.index("+failover-end-for-timeout") < channels.index("+slave-reconf-sent-be")
    assert "+switch-master" in channels


def test_clients_are_sent_to_the_new_master_as_soon_as_it_is_one():
    """sentinelGetCurrentMasterAddress: from RECONF_SLAVES on, in replies and hello messages."""
    bench = with_replicas()
    lose_master(bench)
    assert bench.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main") == [b"10.0.0.1", b"6379"]
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(1200)

    assert bench.say("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main") == [b"10.0.0.2", b"6379"]


# -- putting things right ----------------------------------------------------------------------------------------------


def test_a_returning_old_master_becomes_a_replica():
    """S15: after four hello periods of stable disagreement."""
    bench = with_replicas()
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(10_000)
    assert "-role-change" in bench.channels()
    assert "+convert-to-slave" not in bench.channels()

    bench.pass_ms(11_000)

    assert "+convert-to-slave" in bench.channels()
    assert bench.commands_to(R1, "SLAVEOF") == [("SLAVEOF", *map(str, MASTER))]


def test_a_replica_of_another_master_is_sent_back():
    """S15: +fix-slave-config after a failover timeout."""
    bench = with_replicas()
    bench.infos[R1] = info_of_replica(("10.7.7.7", 1), runid="1" * 40)
    bench.pass_ms(30_000)

    assert "+fix-slave-config" in bench.channels()


def test_nothing_is_put_right_while_the_master_does_not_look_sane():
    """sentinelMasterLooksSane."""
    bench = with_replicas()
    bench.silent.add(MASTER)
    bench.infos[R1] = "run_id:" + "1" * 40 + "\r\nrole:master\r\n"
    bench.pass_ms(40_000)

    assert "+convert-to-slave" not in bench.channels()
