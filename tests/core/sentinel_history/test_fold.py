"""One sentinel, folded from evidence made by hand: each rule by itself."""

from __future__ import annotations

from cluster_core.sentinel_history.evidence import (
    COMMAND,
    Answered,
    Asked,
    Linked,
    Listened,
    Polled,
    Sent,
    Started,
    Stopped,
    Told,
    Unlinked,
)
from cluster_core.sentinel_history.history import estimate_down_after_ms, fold_history
from tests.benches.sentinel_recordings import (
    MASTER,
    ME,
    MS_NS,
    OTHER,
    PEER,
    REPLICA,
    THIRD,
    answered_info,
    flags,
    fold,
    heard,
    hello,
    info,
    link,
    own_hello,
    ping,
    watched,
)

REPLICA_NAME = str(REPLICA)
TITLE = "master mymaster 10.0.0.1 6379"


def told(at_ms: int, channel: str, text: str) -> list:
    """An event, heard by somebody who listens to all of them."""
    return [Listened(0, 99, ("*",), on=True), Told(at_ms * MS_NS, channel, text)]


def silent_from(at_ms: int, until_ms: int) -> list:
    """The master does not answer any more; replica and peer do."""
    items = []
    for at in range(at_ms, until_ms, 500):
        items.append(Sent(at * MS_NS, 1, MASTER, (b"PING",)))
        items += ping(at, 3, REPLICA) + ping(at, 5, PEER)
    return items


def opinion(at_ms: int, down: int, leader: str = "*", epoch: int = 0, asks: str = "*") -> list:
    """What the other sentinel answers to the question whether the master is down (S8)."""
    request = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", str(epoch).encode(), asks.encode())
    answer = (str(down).encode(), leader.encode(), str(epoch).encode())
    return [
        Sent(at_ms * MS_NS, 5, PEER, request),
        Answered(at_ms * MS_NS, 5, PEER, request, "array", answer),
    ]


def test_replicas_come_from_info_and_sentinels_from_hello_messages() -> None:
    """S1: both are disconnected until the timer has made their links."""
    history = fold(watched())

    assert (flags(history, REPLICA_NAME, 30), flags(history, REPLICA_NAME, 100)) == ("slave,disconnected", "slave")
    assert (flags(history, OTHER, 100), flags(history, OTHER, 200)) == ("sentinel,disconnected", "sentinel")


def test_a_link_needs_both_connections_and_ends_with_either() -> None:
    """S1: a sentinel's link has one only."""
    history = fold([*watched(), Unlinked(2500 * MS_NS, 4, False), Unlinked(2600 * MS_NS, 5, False)])

    assert flags(history, REPLICA_NAME, 2550) == "slave,disconnected"
    assert flags(history, OTHER, 2650) == "sentinel,disconnected"


def test_a_master_that_does_not_answer_is_down_after_its_time() -> None:
    """S6, where no event can be known: the oldest PING without an answer counts."""
    history = fold([*watched(2000), *silent_from(2000, 5000)], down_after_ms=2000)

    assert flags(history, "mymaster", 3900) == "master"
    assert flags(history, "mymaster", 4200) == "s_down,master"


def test_an_event_is_believed_and_nothing_is_guessed_beside_it() -> None:
    """Somebody listens: what is not told has not happened."""
    items = [*watched(2000), *silent_from(2000, 8000), *told(5000, "+sdown", TITLE)]

    history = fold(items, down_after_ms=2000)

    assert (flags(history, "mymaster", 4900), flags(history, "mymaster", 5000)) == ("master", "s_down,master")


def test_what_others_said_is_forgotten_after_five_seconds() -> None:
    """S8; by Redis always, by Valkey 9.1 only while the master is down for it."""
    valkey = answered_info(150, 1, MASTER, info(replicas=[REPLICA], more="valkey_version:9.1.2"))
    items = [*watched(9000), *told(2000, "+sdown", TITLE), *opinion(2100, 1), *told(2300, "-sdown", TITLE)]

    redis_flags, valkey_flags = (flags(fold(found), OTHER, 8000) for found in (items, [*items, valkey]))

    assert (redis_flags, valkey_flags) == ("sentinel", "sentinel,master_down")


def test_an_answer_that_comes_after_the_switch_still_counts() -> None:
    """It was asked about the old address."""
    request = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"1", ME.encode())
    late = Answered(2500 * MS_NS, 5, PEER, request, "array", (b"1", OTHER.encode(), b"1"))
    switch = told(2400, "+switch-master", "mymaster 10.0.0.1 6379 10.0.0.2 6379")

    assert flags(fold([*watched(), *switch, late]), OTHER, 2600) == "sentinel,master_down"


def test_a_newer_configuration_in_a_hello_message_moves_the_master() -> None:
    """S4: the old master is a replica from then on, the links are made anew."""
    history = fold([*watched(), heard(2500, hello(OTHER, ip=PEER.ip, epoch=1, master=REPLICA, config_epoch=1))])

    last = {span.belief.name: span.belief for span in history.spans if span.to_ns is None}
    assert (last["mymaster"].ip, last["mymaster"].config_epoch) == (REPLICA.ip, 1)
    assert last["mymaster"].flags == "master,disconnected"
    assert str(MASTER) in last
    assert REPLICA_NAME not in last


def test_an_older_configuration_changes_nothing() -> None:
    """S4."""
    history = fold([*watched(), heard(2500, hello(OTHER, ip=PEER.ip, master=REPLICA, config_epoch=0))])

    assert flags(history, "mymaster", 2600) == "master"


def test_a_sentinel_that_moves_has_its_new_address() -> None:
    """S4: the same id elsewhere."""
    history = fold([*watched(), heard(2500, hello(OTHER, ip="10.0.0.99"))])

    ips = [span.belief.ip for span in history.spans if span.belief.name == OTHER and span.to_ns is None]
    assert ips == ["10.0.0.99"]


def test_another_sentinel_at_the_same_address_takes_its_place() -> None:
    """S4: two cannot be there."""
    history = fold([*watched(), heard(2500, hello(THIRD, ip=PEER.ip))])

    assert flags(history, OTHER, 2600) is None
    assert flags(history, THIRD, 2600) == "sentinel,disconnected"


def test_a_failover_without_o_down_was_ordered() -> None:
    """S12: SENTINEL FAILOVER."""
    items = [*watched(), *told(2000, "+new-epoch", "1"), *told(2000, "+try-failover", TITLE)]

    assert flags(fold(items), "mymaster", 2100) == "master,failover_in_progress,force_failover"


def test_a_promoted_replica_makes_the_new_epoch() -> None:
    """S14: the configuration's epoch is that of the failover; its state is told step by step."""
    title = f"slave {REPLICA_NAME} 10.0.0.2 6379 @ mymaster 10.0.0.1 6379"
    items = [*watched(), *told(2000, "+new-epoch", "7"), *told(2000, "+try-failover", TITLE)]
    items += [*told(2100, "+selected-slave", title), *told(2200, "+failover-state-wait-promotion", title)]
    items += [*told(2300, "+promoted-slave", title), *told(2300, "+failover-state-reconf-slaves", TITLE)]

    history = fold(items)

    last = {span.belief.name: span.belief for span in history.spans if span.to_ns is None}
    assert (last["mymaster"].failover_state, last["mymaster"].config_epoch) == ("reconf_slaves", 7)
    assert last[REPLICA_NAME].flags == "slave,promoted"
    assert history.choices[0].chosen == REPLICA_NAME


def test_an_order_without_an_election_shows_a_failover_by_command() -> None:
    """S12, where no event can be known: REPLICAOF NO ONE to a replica while no failover goes on."""
    order = Sent(2500 * MS_NS, 3, REPLICA, (b"SLAVEOF", b"NO", b"ONE"))

    history = fold([*watched(), order], down_after_ms=2000)

    assert flags(history, "mymaster", 2600) == "master,failover_in_progress,force_failover"
    assert [row.channel for row in history.events][-4:] == [
        "+failover-state-select-slave", "+selected-slave", "+failover-state-send-slaveof-noone",
        "+failover-state-wait-promotion",
    ]  # fmt: skip


def test_its_own_question_shows_that_the_master_is_down_for_it() -> None:
    """S8: it asks of nobody else; with its id in it, it stands for election."""
    asks = Sent(
        2500 * MS_NS, 5, PEER, (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"3", ME.encode())
    )

    history = fold([*watched(), asks])

    assert flags(history, "mymaster", 2510) == "s_down,o_down,master,failover_in_progress"
    assert ("+new-epoch", "3") in [(row.channel, row.text) for row in history.events]


def test_votes_are_told_with_whom_they_were_for() -> None:
    """S9: one an epoch; who asks later gets the earlier vote."""
    request = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"3")
    first = Asked(2000 * MS_NS, (*request, OTHER.encode()), "array", (b"1", OTHER.encode(), b"3"))
    second = Asked(2100 * MS_NS, (*request, THIRD.encode()), "array", (b"1", OTHER.encode(), b"3"))

    votes = fold([*watched(), first, second]).votes

    assert [(vote.candidate, vote.granted_to, vote.is_granted) for vote in votes] == [
        (OTHER, OTHER, True),
        (THIRD, OTHER, False),
    ]


def test_two_masters_at_one_address_have_links_of_their_own() -> None:
    """SENTINEL MONITOR of the same server under another name: a new connection is that of the new one."""
    monitor = told(2000, "+monitor", "master other 10.0.0.1 6379 quorum 2")
    items = [*watched(), *monitor, *link(2050, 7, MASTER), Unlinked(2500 * MS_NS, 1, True)]

    history = fold(items)

    assert (flags(history, "other", 2600), flags(history, "mymaster", 2600)) == ("master", "master,disconnected")


def test_commands_of_an_operator_are_told_by_events() -> None:
    """SENTINEL RESET forgets all, REMOVE the master itself, SET changes the quorum."""
    items = [*watched(), *told(2000, "+set", f"{TITLE} quorum 5")]
    items += [*told(2100, "+reset-master", TITLE), *told(2500, "-monitor", TITLE)]

    history = fold(items)

    assert next(s.belief.quorum for s in history.spans if s.belief.kind == "master" and s.from_ns >= 2000 * MS_NS) == 5
    assert flags(history, REPLICA_NAME, 2200) is None
    assert flags(history, OTHER, 2200) is None
    assert flags(history, "mymaster", 2600) is None


def test_a_process_that_ends_believes_nothing_and_begins_with_its_configuration() -> None:
    """Epochs and addresses are kept in its file, flags and links are not."""
    begun = [Linked(4000 * MS_NS, 11, MASTER, COMMAND)]
    items = [*watched(), *opinion(2000, 1), Stopped(3000 * MS_NS), *begun]

    history = fold(items)

    assert flags(history, "mymaster", 3500) is None
    assert flags(history, OTHER, 4001) == "sentinel,disconnected"
    assert flags(history, REPLICA_NAME, 4001) == "slave,disconnected"


def test_a_client_that_is_let_go_is_no_end_of_the_process() -> None:
    """It goes on on a connection that it had before."""
    history = fold([*watched(), Stopped(1500 * MS_NS)])

    assert flags(history, "mymaster", 1600) == "master"


def test_what_reaches_a_stopped_process_is_read_when_it_goes_on() -> None:
    """S16: a hello message waits in the socket; the silence itself is TILT."""
    newer = heard(4000, hello(OTHER, ip=PEER.ip, epoch=1, master=REPLICA, config_epoch=1))
    items = [*watched(3000), newer, own_hello(6000, 1, hello()), *ping(7000, 3, REPLICA)]

    history = fold(items)

    moved = next(span for span in history.spans if span.belief.kind == "master" and span.belief.ip == REPLICA.ip)
    assert moved.from_ns == 6000 * MS_NS
    assert "+tilt" in [row.channel for row in history.events]


def test_the_setting_is_estimated_from_the_first_silences() -> None:
    """The timer is up to a tenth of a second late; what does not fit is of something else."""
    assert estimate_down_after_ms([2047, 2010, 2100]) == 2000
    assert estimate_down_after_ms([1570, 9000]) is not None
    assert estimate_down_after_ms([345]) == 300
    assert estimate_down_after_ms([]) is None


def test_a_log_begins_the_process_that_it_is_of() -> None:
    """Its version says how it forgets; +monitor which masters it has."""
    items = [Started(0, (9, 1)), Told(1 * MS_NS, "+monitor", f"{TITLE} quorum 2", "log")]

    history = fold_history({}, {ME: items})

    assert [span.belief.quorum for span in history.spans if span.belief.kind == "master"][-1] == 2


def test_a_poll_corrects_everything() -> None:
    """A sentinel that answers knows best; a master that it does not name is gone."""
    fields = {"name": "other", "ip": "10.0.0.9", "port": "6379", "flags": "s_down,master,disconnected", "quorum": "3"}

    history = fold([*watched(), Polled(2500 * MS_NS, 2500 * MS_NS, (fields,), "other", (), ())])

    assert flags(history, "other", 2600) == "s_down,master,disconnected"
    assert flags(history, "mymaster", 2600) is None


def test_an_order_to_valkey_9_holds_the_master_for_down_until_the_next_timer() -> None:
    """SENTINEL FAILOVER sets S_DOWN there; an order with an election is a coordinated one (S12)."""
    version = Started(0, (9, 1))
    order = [*told(2000, "+new-epoch", "1"), *told(2000, "+try-failover", TITLE)]
    asks = (b"SENTINEL", b"is-master-down-by-addr", b"10.0.0.1", b"6379", b"1", ME.encode())

    forced = fold([version, *watched(), *order, *told(2050, "-sdown", TITLE)])
    coordinated = fold([version, *watched(), *order, Sent(2001 * MS_NS, 5, PEER, asks), *told(2050, "-sdown", TITLE)])

    assert flags(forced, "mymaster", 2010) == "s_down,master,failover_in_progress,force_failover"
    assert flags(forced, "mymaster", 2100) == "master,failover_in_progress,force_failover"
    assert flags(coordinated, "mymaster", 2100) == "master,failover_in_progress,coordinated_failover"


def test_a_log_that_begins_in_the_middle_names_where_the_master_is() -> None:
    """The switch was before; an event of the master tells its address."""
    line = Told(2000 * MS_NS, "+sdown", "master mymaster 10.0.0.7 6379", "log")

    history = fold([*watched(), line])

    last = {span.belief.name: span.belief for span in history.spans if span.to_ns is None}
    assert (last["mymaster"].ip, last["mymaster"].flags) == ("10.0.0.7", "s_down,master,disconnected")
    assert str(MASTER) in last
