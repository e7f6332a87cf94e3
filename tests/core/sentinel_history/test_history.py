"""Masters in the view of sentinels: each rule in a small log, and recordings against the answers of the sentinels."""

from __future__ import annotations

import json

import pytest

from cluster_core.sentinel_history.evidence import SentinelReplies, SentinelStarted, read_poll_line
from cluster_core.sentinel_history.history import fold_history
from tests.benches.sentinel_recordings import (
    ME,
    MS_NS,
    NAMES,
    OF_MASTER,
    OF_REPLICA,
    OTHER,
    REPLICA,
    THIRD,
    announced_in,
    evidence_of,
    fold,
    history_of,
    line,
    shown,
    watched,
)  # fmt: skip

SWITCH = "mymaster 10.0.0.1 6379 10.0.0.2 6379"
LEAST_PERCENT = {"redis-7.0": 98.0, "valkey-9.1": 98.0, "redis-7.0-no-quorum": 90.0}
"""In the third, a sentinel stands still: its log says nothing then."""


def flags(items: list, at_ms: int) -> str | None:
    row = shown(fold(items), at_ms).get("mymaster")
    return None if row is None else row.flags


def test_a_master_is_down_from_its_event_to_the_next() -> None:
    """S6."""
    items = [*watched(), line(2000, "+sdown", OF_MASTER), line(4000, "-sdown", OF_MASTER)]

    assert (flags(items, 1999), flags(items, 3000), flags(items, 4000)) == ("master", "s_down,master", "master")


def test_a_switch_gives_the_master_its_new_address_and_epoch() -> None:
    """S4."""
    history = fold([*watched(), line(2400, "+new-epoch", "1"), line(2500, "+switch-master", SWITCH)])

    assert (shown(history, 2500)["mymaster"].ip, shown(history, 2500)["mymaster"].config_epoch) == (REPLICA.ip, 1)


def test_valkey_9_marks_the_master_down_from_the_order_to_the_next_timer() -> None:
    """S12: without O_DOWN a failover was ordered; an order with an election is a coordinated failover."""
    order = [*watched(), line(2000, "+new-epoch", "1"), line(2000, "+try-failover", OF_MASTER)]
    valkey = [SentinelStarted(0, (9, 1)), *order]
    ended = line(2050, "-sdown", OF_MASTER)
    vote = line(2010, "voted", f"{OTHER} {ME} 1")

    assert flags(order, 2005) == "master,failover_in_progress,force_failover"
    assert flags(valkey, 2005) == "s_down,master,failover_in_progress,force_failover"
    assert flags([*valkey, ended], 2100) == "master,failover_in_progress,force_failover"
    assert flags([*valkey, vote, ended], 2100) == "master,failover_in_progress,coordinated_failover"


def test_a_promoted_replica_makes_the_new_epoch() -> None:
    """S14: the epoch of the configuration is that of the failover."""
    items = [*watched(), line(2000, "+new-epoch", "7"), line(2000, "+try-failover", OF_MASTER)]
    items += [line(2100, "+selected-slave", OF_REPLICA), line(2200, "+failover-state-wait-promotion", OF_REPLICA)]
    items += [line(2300, "+promoted-slave", OF_REPLICA), line(2300, "+failover-state-reconf-slaves", OF_MASTER)]

    row = shown(fold(items), 2300)["mymaster"]

    assert (row.failover_state, row.config_epoch) == ("reconf_slaves", 7)


def test_votes_come_from_the_logs_of_voters_and_of_candidates() -> None:
    """S9: a log names its own vote, and the answers to its own requests."""
    items = [*watched(), line(2000, "+vote-for-leader", f"{ME} 3"), line(2100, "voted", f"{OTHER} {THIRD} 3")]

    votes = fold(items).votes

    assert [(vote.voter, vote.candidate, vote.voted_for, vote.granted) for vote in votes] == [
        (ME, ME, ME, True),
        (OTHER, ME, THIRD, False),
    ]


def test_commands_of_an_operator_change_the_master() -> None:
    """SENTINEL SET changes the quorum, REMOVE ends the view."""
    items = [*watched(), line(2000, "+set", f"{OF_MASTER} quorum 5"), line(2500, "-monitor", OF_MASTER)]

    assert shown(fold(items), 2100)["mymaster"].quorum == 5
    assert flags(items, 2600) is None


def test_a_restarted_sentinel_keeps_epochs_and_addresses_but_no_flags() -> None:
    items = [*watched(), line(2000, "+sdown", OF_MASTER), SentinelStarted(4000 * MS_NS), line(4001, "+tilt", "#tilt")]

    assert flags(items, 4000) == "master"


def test_a_poll_replaces_the_view() -> None:
    """A master that the reply does not name is gone."""
    fields = {"name": "other", "ip": "10.0.0.9", "port": "6379", "flags": "s_down,master,disconnected", "quorum": "3"}

    rows = shown(fold([*watched(), SentinelReplies(2500 * MS_NS, 2500 * MS_NS, (fields,))]), 2600)

    assert {name: row.flags for name, row in rows.items()} == {"other": "s_down,master"}


def test_down_after_comes_from_polls_or_from_the_old_master_after_a_switch() -> None:
    """The old master is new as a replica, and marked down so long after."""
    old_master = "slave 10.0.0.1:6379 10.0.0.1 6379 @ mymaster 10.0.0.2 6379"
    items = [*watched(), line(2500, "+switch-master", SWITCH), line(4502, "+sdown", old_master)]

    assert fold(items).down_after_ms == 2002
    assert fold_history(evidence_of("redis-7.0").all()).down_after_ms == 2000


@pytest.mark.parametrize("name", NAMES)
def test_logs_show_every_event(name: str) -> None:
    """Events are written to the log before they are announced; each once, with its whole text."""
    logged = [(row.observer, row.channel, row.text) for row in history_of(name).events]
    heard = [(observer, *event) for observer, events in announced_in(name).items() for event in events]

    assert len(heard) > 40
    assert [event for event in heard if event not in logged] == []


@pytest.mark.parametrize("name", NAMES)
def test_logs_show_the_masters_that_sentinels_answered(name: str) -> None:
    """Flags without disconnected, address, epoch and failover state; a reply may cross an event by 3 ms."""
    history, right, samples = history_of(name), 0, 0
    for observer, polls in evidence_of(name).polled.items():
        for polled in polls:
            fields = polled.masters[0]
            flags = ",".join(word for word in fields["flags"].split(",") if word != "disconnected")
            expected = flags, fields["ip"], fields["port"], fields["config-epoch"], fields.get("failover-state", "")
            moments = range(polled.asked_ns // MS_NS - 3, polled.ts_ns // MS_NS + 4)
            rows = (shown(history, at_ms, observer).get(fields["name"]) for at_ms in moments)
            samples += 1
            right += any(
                row is not None
                and (row.flags, row.ip, str(row.port), str(row.config_epoch), row.failover_state) == expected
                for row in rows
            )

    assert samples > 100
    assert 100 * right >= LEAST_PERCENT[name] * samples


def test_records_of_a_poll_are_lists_of_names_and_values_or_objects() -> None:
    """As the reply has them, or as a collector may write them; lines of another kind are no polls."""

    def read(**more: object):
        return read_poll_line(json.dumps({"t": 1795254894896657338, "port": 26379, **more}).encode(), line=1)

    listed = read(masters=[["name", "m", "port", 6379]])

    assert listed is not None
    assert listed == read(masters=[{"name": "m", "port": 6379}])
    assert (listed.node, listed.polled.masters) == ("26379", ({"name": "m", "port": "6379"},))
    assert read(kind="replication") is None
