"""One sentinel, folded from a small log: each rule by itself."""

from __future__ import annotations

from cluster_core.sentinel_history.beliefs import Belief
from cluster_core.sentinel_history.evidence import Opined, Polled, Started
from cluster_core.sentinel_history.history import SentinelHistory
from tests.benches.sentinel_recordings import (
    MASTER,
    MS_NS,
    OF_MASTER,
    OF_PEER,
    OF_REPLICA,
    OTHER,
    REPLICA,
    THIRD,
    flags,
    fold,
    line,
    watched,
)

REPLICA_NAME = str(REPLICA)
SWITCH = "mymaster 10.0.0.1 6379 10.0.0.2 6379"


def last(history: SentinelHistory) -> dict[str, Belief]:
    """The beliefs at the end, by name of the instance."""
    return {span.belief.name: span.belief for span in history.spans if span.to_ns is None}


def test_a_new_instance_is_linked_at_the_next_run_of_the_timer() -> None:
    """S1."""
    history = fold([*watched(), line(3000, "+new-epoch", "1")])

    assert (flags(history, REPLICA_NAME, 70), flags(history, REPLICA_NAME, 200)) == ("slave,disconnected", "slave")
    assert (flags(history, OTHER, 100), flags(history, OTHER, 200)) == ("sentinel,disconnected", "sentinel")


def test_a_master_is_down_from_its_event_to_the_next() -> None:
    """S6."""
    history = fold([*watched(), line(2000, "+sdown", OF_MASTER), line(4000, "-sdown", OF_MASTER)])

    assert flags(history, "mymaster", 3000) == "s_down,master,disconnected"
    assert flags(history, "mymaster", 4000) == "master"


def test_other_opinions_are_forgotten_after_five_seconds() -> None:
    """S8; by Redis always, by Valkey 9.1 only while the master is down for it."""
    items = [*watched(), line(2000, "+sdown", OF_MASTER), Opined(2100 * MS_NS, OTHER, "mymaster", True, "", 0)]
    items += [line(2300, "-sdown", OF_MASTER), line(9000, "+new-epoch", "1")]

    redis, valkey = fold(items), fold([Started(0, (9, 1)), *items])

    assert (flags(redis, OTHER, 6000), flags(redis, OTHER, 8000)) == ("sentinel,master_down", "sentinel")
    assert flags(valkey, OTHER, 8000) == "sentinel,master_down"


def test_a_switch_makes_the_old_master_a_replica() -> None:
    """S4."""
    ended = last(fold([*watched(), line(2400, "+new-epoch", "1"), line(2500, "+switch-master", SWITCH)]))

    assert (ended["mymaster"].ip, ended["mymaster"].config_epoch) == (REPLICA.ip, 1)
    assert str(MASTER) in ended
    assert REPLICA_NAME not in ended


def test_a_sentinel_that_moves_has_its_new_address() -> None:
    """S4: the same id elsewhere."""
    moved = line(2500, "+sentinel-address-switch", f"{OF_MASTER} ip 10.0.0.99 port 26379 for {OTHER}")

    assert last(fold([*watched(), moved]))[OTHER].ip == "10.0.0.99"


def test_a_sentinel_with_an_address_of_another_is_forgotten() -> None:
    """S4: two cannot be there."""
    newcomer = OF_PEER.replace(OTHER, THIRD)
    history = fold([*watched(), line(2500, "+sentinel-invalid-addr", OF_PEER), line(2500, "+sentinel", newcomer)])

    assert set(last(history)) == {"mymaster", REPLICA_NAME, THIRD}


def test_a_failover_without_o_down_was_ordered() -> None:
    """S12: SENTINEL FAILOVER."""
    items = [*watched(), line(2000, "+new-epoch", "1"), line(2000, "+try-failover", OF_MASTER)]

    assert flags(fold(items), "mymaster", 2100) == "master,failover_in_progress,force_failover"


def test_valkey_9_holds_the_master_for_down_from_the_order_to_the_next_timer() -> None:
    """S12; an order with an election is a coordinated failover."""
    order = [Started(0, (9, 1)), *watched(), line(2000, "+new-epoch", "1"), line(2000, "+try-failover", OF_MASTER)]
    ended = line(2050, "-sdown", OF_MASTER)

    forced = fold([*order, ended])
    coordinated = fold([*order, line(2010, "voted", f"{OTHER} {'a' * 40} 1"), ended])

    assert flags(forced, "mymaster", 2005) == "s_down,master,failover_in_progress,force_failover"
    assert flags(forced, "mymaster", 2100) == "master,failover_in_progress,force_failover"
    assert flags(coordinated, "mymaster", 2100) == "master,failover_in_progress,coordinated_failover"


def test_a_promoted_replica_makes_the_new_epoch() -> None:
    """S14: the epoch of the configuration is that of the failover."""
    items = [*watched(), line(2000, "+new-epoch", "7"), line(2000, "+try-failover", OF_MASTER)]
    items += [line(2100, "+selected-slave", OF_REPLICA), line(2200, "+failover-state-wait-promotion", OF_REPLICA)]
    items += [line(2300, "+promoted-slave", OF_REPLICA), line(2300, "+failover-state-reconf-slaves", OF_MASTER)]

    ended = last(fold(items))

    assert (ended["mymaster"].failover_state, ended["mymaster"].config_epoch) == ("reconf_slaves", 7)
    assert ended[REPLICA_NAME].flags == "slave,promoted"


def test_votes_come_from_the_logs_of_voters_and_of_candidates() -> None:
    """S9: a log names its own vote, and the answers to its own requests."""
    items = [*watched(), line(2000, "+vote-for-leader", f"{'a' * 40} 3"), line(2100, "voted", f"{OTHER} {THIRD} 3")]

    votes = fold(items).votes

    assert [(vote.voter, vote.candidate, vote.granted_to, vote.is_granted) for vote in votes] == [
        ("a" * 40, "a" * 40, "a" * 40, True),
        (OTHER, "a" * 40, THIRD, False),
    ]


def test_commands_of_an_operator_change_what_they_say() -> None:
    """SENTINEL RESET forgets all, REMOVE the master itself, SET changes the quorum."""
    items = [*watched(), line(2000, "+set", f"{OF_MASTER} quorum 5")]
    items += [line(2100, "+reset-master", OF_MASTER), line(2500, "-monitor", OF_MASTER)]

    history = fold(items)

    assert next(s.belief.quorum for s in history.spans if s.belief.kind == "master" and s.from_ns >= 2000 * MS_NS) == 5
    assert flags(history, REPLICA_NAME, 2200) is None
    assert flags(history, OTHER, 2200) is None
    assert flags(history, "mymaster", 2600) is None


def test_a_process_begins_with_its_configuration() -> None:
    """Epochs and addresses are kept in its file, flags and links are not."""
    history = fold([*watched(), line(2000, "+sdown", OF_MASTER), Started(4000 * MS_NS), line(4001, "+tilt", "#tilt")])

    assert flags(history, "mymaster", 4000) == "master,disconnected"
    assert flags(history, OTHER, 4000) == "sentinel,disconnected"


def test_a_poll_corrects_everything() -> None:
    """A sentinel that answers knows best; a master that it does not name is gone."""
    fields = {"name": "other", "ip": "10.0.0.9", "port": "6379", "flags": "s_down,master,disconnected", "quorum": "3"}

    history = fold([*watched(), Polled(2500 * MS_NS, 2500 * MS_NS, (fields,), "other", (), ())])

    assert flags(history, "other", 2600) == "s_down,master,disconnected"
    assert flags(history, "mymaster", 2600) is None


def test_down_after_comes_from_polls_or_from_the_old_master_after_a_switch() -> None:
    """The old master is new as a replica, and down so long after."""
    old_master = "slave 10.0.0.1:6379 10.0.0.1 6379 @ mymaster 10.0.0.2 6379"
    items = [*watched(), line(2500, "+switch-master", SWITCH), line(4502, "+sdown", old_master)]
    polled = Polled(
        5000 * MS_NS, 5000 * MS_NS, ({"name": "mymaster", "down-after-milliseconds": "2000"},), "", None, None
    )

    assert [fold(found).down_after_ms for found in (watched(), items, [*items, polled])] == [0, 2002, 2000]


def test_a_log_that_begins_in_the_middle_names_where_the_master_is() -> None:
    """The switch was before; an event of the master tells its address."""
    ended = last(fold([*watched(), line(2000, "+sdown", "master mymaster 10.0.0.7 6379")]))

    assert (ended["mymaster"].ip, ended["mymaster"].flags) == ("10.0.0.7", "s_down,master,disconnected")
    assert str(MASTER) in ended
