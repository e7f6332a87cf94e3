"""How the node timeout is read off the traffic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cluster_core.gossip.flags import FAIL, MASTER
from cluster_core.kernels.bus.batch import text_of
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.pong_ages import SETTLED_AGES, SETTLED_NS, PongAges, due_age_ms, timeout_of
from cluster_core.wire.bus import Message, MessageType, encode_message, sized
from tests.builders.bus_builder import Sent, conversation, pcap
from tests.builders.bus_comparison import decoded
from tests.builders.gossip_builder import ME, B, entry, ping

START_MS = 1_700_000_000_000
Said = tuple[int, int, bool, Message]
"""When (ms), on which connection, whether by who opened it, and what."""


def _ends(connection: int, start_ns: int) -> dict[str, Any]:
    return {"client": ("127.0.0.1", 50_000 + connection), "server": ("127.0.0.1", 17_000), "start_ns": start_ns}


def _note(ages: PongAges, decoder: BusDecoder, sent: list[Sent]) -> None:
    for batch in filter(len, decoded(decoder, [pcap(sent, nanoseconds=True)])):
        nodes = [text_of(node) for node in batch.nodes]
        ages.note(batch, batch.messages.sender, np.arange(len(batch)), nodes)


def ages_of(messages: list[Said], *, batches: int = 3) -> PongAges:
    """The ages of pongs by messages, which come in some batches."""
    ages = PongAges(SETTLED_AGES, SETTLED_NS)
    decoder, numbers = BusDecoder(), dict[tuple[int, bool], int]()
    at_ns = messages[0][0] * 1_000_000
    opened = [
        sent
        for number in sorted({message[1] for message in messages})
        for sent in conversation([], **_ends(number, at_ns))
    ]
    _note(ages, decoder, opened)
    for part in np.array_split(np.arange(len(messages)), batches):
        sent = []
        for at_ms, connection, opens, message in (messages[number] for number in part.tolist()):
            seq = numbers.setdefault((connection, opens), 1001 if opens else 6001)
            raw = encode_message(sized(message))
            numbers[connection, opens] = seq + len(raw)
            ends = list(_ends(connection, at_ms).values())[:2]
            sent.append(Sent(*ends[:: 1 if opens else -1], seq, payload=raw, ts_ns=at_ms * 1_000_000))
        _note(ages, decoder, sent)
    return ages


def pings(timeout_ms: int, *, count: int = 7, heard: int = MASTER, from_ms: int = START_MS) -> list[Said]:
    """ME pings eight nodes when their last pongs are due, and B tells it of younger ones, as their state is *heard*."""
    messages: list[Said] = [(from_ms, 100, True, ping(B)), (from_ms, 100, False, ping(ME, kind=MessageType.PONG))]
    for number in range(8):
        now_ms, peer = from_ms + 60 * number, f"{number:040x}"
        for i in range(count):
            pong = ping(peer, kind=MessageType.PONG)
            messages += [(now_ms, number, True, ping(ME)), (now_ms + 1, number, False, pong)]
            young_s = now_ms // 1000 + 2
            messages.append((young_s * 1000 + 1, 100, True, ping(B, entry(peer, heard, young_s))))
            messages.append((young_s * 1000 + 2, 100, False, ping(ME, kind=MessageType.PONG)))
            last_ms = young_s * 1000 if heard == MASTER else now_ms + 1
            now_ms = last_ms + timeout_ms // 2 + 1 + (i * 37) % 100
    return sorted(messages, key=lambda message: message[0])


@pytest.mark.parametrize(
    ("timeout_ms", "heard"),
    [(1000, MASTER), (2000, MASTER), (5000, MASTER), (15000, MASTER), (15000, MASTER | FAIL)],
)
def test_the_node_timeout_is_twice_the_age_at_which_pings_are_due(timeout_ms: int, heard: int) -> None:
    """R32, on a tick of 100 ms; gossip makes pongs younger (R44), except of a node that has failed."""
    assert timeout_of(ages_of(pings(timeout_ms, heard=heard)).ages) == timeout_ms


def test_it_does_not_matter_in_how_many_batches_messages_come() -> None:
    messages = pings(15_000)

    assert [ages_of(messages, batches=batches).ages for batches in (1, 5, 60)] == [ages_of(messages).ages] * 3


def test_it_is_settled_after_a_minute_and_not_revised() -> None:
    messages = pings(1_000, count=30)
    later = pings(15_000, count=60, from_ms=messages[-1][0] + 1_000)

    ages = ages_of(messages + later)

    assert messages[-1][0] - START_MS > SETTLED_NS // 1_000_000
    assert ages.is_over
    assert timeout_of(ages.ages) == 1_000


def test_a_fleet_of_more_nodes_and_connections_than_at_first_is_watched() -> None:
    messages: list[Said] = []
    for i in range(30):
        for number in range(90):
            at_ms, peer = START_MS + 1_010 * i + number % 50, f"{number:040x}"
            messages.append((at_ms, number, True, ping(ME)))
            messages.append((at_ms + 1, number, False, ping(peer, kind=MessageType.PONG)))

    ages = ages_of(sorted(messages, key=lambda message: message[0]))

    assert len(ages.ages) == 90 * 29
    assert timeout_of(ages.ages) == 2_000


def test_random_pings_alone_show_no_timeout() -> None:
    """R31: ages all over the place."""
    assert due_age_ms([i * 100 for i in range(100)]) is None
    assert due_age_ms([1000] * 5) is None
