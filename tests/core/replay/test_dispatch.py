"""Sightings find their processes as they come, whatever order knowledge comes in."""

from __future__ import annotations

import random

import pytest

from cluster_core.replay.dispatch import (
    WAIT_NS,
    BusSighting,
    Delivery,
    Dispatcher,
    OrderedEvidence,
    Statement,
    deliveries,
)
from cluster_core.replay.evidence import Endpoint

HOME_A, HOME_B, HOME_C = Endpoint("10.0.0.1", 17001), Endpoint("10.0.0.2", 17001), Endpoint("10.0.0.2", 17002)
SECOND_NS = 1_000_000_000
A, B = "a" * 40, "b" * 40


def sighting(
    kind: str = "message", *, ts_ns: int = SECOND_NS, connection: int = 1, sender: str = "", **given: object
) -> BusSighting:
    """A sighting from the opener of a connection, 10.0.0.1 to B by default."""
    fields = {
        "from_opener": True,
        "opener": Endpoint("10.0.0.1", 50_000),
        "acceptor": HOME_B,
        "ref": -1,
        "cport": 17001,
    }
    fields |= {"sender": sender} if kind == "message" else {}
    return BusSighting(ts_ns=ts_ns, connection=connection, kind=kind, **(fields | given))


def delivered(passages: list[OrderedEvidence]) -> list[Delivery]:
    """To whom they go."""
    return [delivery for passage in passages for delivery in deliveries(passage)]


def test_a_clue_waits_until_the_opener_has_spoken_at_home() -> None:
    """R3: the id of the messages leads to the address at which the same id answers."""
    dispatcher = Dispatcher()

    first = dispatcher.feed(sighting(sender=A))
    second = dispatcher.feed(
        sighting(
            ts_ns=SECOND_NS + 5, connection=2, sender=A, from_opener=False, acceptor=HOME_A, opener=Endpoint("x", 1)
        )
    )

    assert first == []
    assert [(d.process, d.sent) for d in delivered(second)][:2] == [(HOME_A, True), (HOME_B, False)]


def test_a_clue_does_not_wait_longer_than_its_time() -> None:
    """Then the bus port of the header tells where the opener listens."""
    dispatcher = Dispatcher()
    dispatcher.feed(sighting(sender=A))

    delivered_items = dispatcher.feed(sighting(ts_ns=SECOND_NS + WAIT_NS + 1, connection=9, acceptor=HOME_C))

    assert [d.process for d in delivered(delivered_items)] == [Endpoint("10.0.0.1", 17001), HOME_B]


def test_a_silent_connection_belongs_to_the_only_process_of_its_address() -> None:
    dispatcher = Dispatcher()
    dispatcher.feed(sighting(sender=A, from_opener=False, acceptor=HOME_A, opener=Endpoint("10.0.0.9", 1)))
    dispatcher.feed(sighting("syn-ack", connection=5, from_opener=False))

    assert {d.process for d in delivered(dispatcher.finish())} == {HOME_A, HOME_B}


def test_a_silent_connection_of_an_address_with_two_processes_has_no_node() -> None:
    dispatcher = Dispatcher()
    for home, node in ((HOME_A, A), (Endpoint("10.0.0.1", 17009), B)):
        dispatcher.feed(
            sighting(
                sender=node, from_opener=False, acceptor=home, opener=Endpoint("10.0.0.9", 1), connection=home.port
            )
        )
    dispatcher.feed(sighting("syn-ack", connection=5, from_opener=False))

    opened_deliveries = [d for d in delivered(dispatcher.finish()) if d.kind == "opened"]

    assert [d.process for d in opened_deliveries] == [HOME_B]


def test_a_node_that_listens_at_another_address_stays_one_process() -> None:
    """A pod has a new address after its restart; refusals at the old one are no end of the new process."""
    moved = Endpoint("10.0.0.7", 17001)
    dispatcher, processes = Dispatcher(), []
    answers = ((A, HOME_A), (A, moved), ("", HOME_A), (A, moved), (B, HOME_A), (A, HOME_A))
    for number, (node, place) in enumerate(answers):
        answer = {"sender": node, "from_opener": False, "acceptor": place, "connection": number, "opener": HOME_B}
        seen = sighting("message" if node else "rst", ts_ns=(1 + 5 * number) * SECOND_NS, **answer)
        processes += delivered(dispatcher.feed(seen))
    processes += delivered(dispatcher.finish())

    assert [d.process for d in processes] == [HOME_A, HOME_A, HOME_A, Endpoint(B, 0), HOME_A]


def test_a_reset_before_the_connection_was_up_is_a_refusal() -> None:
    dispatcher = Dispatcher()
    dispatcher.feed(sighting("rst", from_opener=False))

    assert [d.kind for d in delivered(dispatcher.finish())] == ["refused"]


@pytest.mark.parametrize("kind", ["syn-ack", "fin", "rst"])
def test_copies_of_packets_that_open_or_end_a_connection_are_dropped(kind) -> None:
    """Captures of both ends have each of them twice."""
    dispatcher = Dispatcher()
    for copy in range(2):
        dispatcher.feed(sighting(kind, from_opener=False, ts_ns=SECOND_NS + copy))

    assert len(dispatcher.finish()) == 1


def test_a_clock_that_goes_back_does_not_turn_back_time() -> None:
    dispatcher = Dispatcher()
    dispatcher.feed(sighting(ts_ns=10 * SECOND_NS))
    dispatcher.feed(sighting(ts_ns=2 * SECOND_NS))

    assert [passage.ts_ns for passage in dispatcher.finish()] == [10 * SECOND_NS] * 2
    assert dispatcher.clock_steps == [(-1, 8 * SECOND_NS)]


def test_announcements_are_ordered_between_the_clues() -> None:
    dispatcher = Dispatcher()
    dispatcher.tell([Statement(2 * SECOND_NS, "poll", B, None, b"text")], {B: HOME_B})
    for second in (1, 3):
        dispatcher.feed(sighting(ts_ns=second * SECOND_NS))

    kinds = [d.kind for d in delivered(dispatcher.finish())]

    assert kinds == ["message", "poll", "message"] or kinds.index("poll") == 1


def test_an_announcement_older_than_the_last_turn_is_refused() -> None:
    dispatcher = Dispatcher()
    for second in (1, 9):
        dispatcher.feed(sighting(ts_ns=second * SECOND_NS))

    assert not dispatcher.tell([Statement(SECOND_NS, "poll", B, None, b"")], {})
    assert dispatcher.tell([Statement(20 * SECOND_NS, "poll", B, None, b"")], {})


def test_numbers_count_up_and_everything_comes_out_once_in_order() -> None:
    chance = random.Random(4)
    dispatcher, out = Dispatcher(), []
    for ref in range(500):
        kind = chance.choice(["message", "message", "fin", "syn-ack"])
        out += dispatcher.feed(
            sighting(
                kind,
                ref=ref,
                ts_ns=SECOND_NS + ref * 50_000_000,
                connection=ref if kind != "message" else chance.randrange(9),
                sender=chance.choice([A, B, ""]),
                from_opener=chance.random() < 0.5,
            )
        )
    out += dispatcher.finish()

    assert [passage.number for passage in out] == list(range(1, 501))
    assert [passage.item.ref for passage in out] == list(range(500))
