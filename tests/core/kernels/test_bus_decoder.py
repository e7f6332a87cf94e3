"""The decoder finds the same messages and rows however a file comes, and their columns are those of their bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.formats.capture.bus_rows import SkippedPackets
from cluster_core.kernels.bus import decoder
from cluster_core.kernels.bus import follower as bus_follower
from cluster_core.kernels.bus.decoder import BusDecoder
from cluster_core.kernels.bus.streams import READ, UNREAD
from cluster_core.wire.bus import encode_message
from cluster_core.wire.tcp_stream import ACK, RST
from tests.builders.bus_builder import (
    CLIENT,
    SERVER,
    START_NS,
    Sent,
    closing,
    conversation,
    every_kind,
    gossip_message,
    messages,
    pcap,
    pcapng,
    pieces_of,
    ping,
    refusal,
)
from tests.builders.bus_comparison import captured, decoded
from tests.builders.edited_captures import as_pcap, packets_of, with_loss
from tests.conftest import DATA
from tests.examples import examples

EVERY = b"".join(map(encode_message, every_kind()))


def test_a_message_may_begin_in_one_file_of_a_series_and_end_in_the_next() -> None:
    """Rotation does not know of messages."""
    sent = conversation(pieces_of(EVERY, [1000] * 50))

    capture = captured([pcap(sent[:7])], [pcapng(sent[7:12])], [pcap(sent[12:], order=">", nanoseconds=True)])

    assert b"".join(message.raw for message in capture.messages) == EVERY
    assert not capture.rows


def test_hostile_sequences_of_packets_end_in_the_same_rows() -> None:
    first = conversation([EVERY[:5000]], [EVERY])
    again = conversation([EVERY], isn=77, start_ns=first[-1].ts_ns + 10)
    other = conversation([b"\x16\x03\x01\x02\x00\x01" + bytes(300)], [b"HTTP/1.1 200"], client=("10.0.0.9", 1), isn=5)
    wild = replace(again[-1], seq=again[-1].seq + (1 << 30), payload=EVERY, ts_ns=again[-1].ts_ns + 5)
    sent = [*first, closing(first[-1]), refusal(first[0]), *again, wild, replace(wild, seq=3), *other]

    capture = captured([pcap(sent)])

    assert len(capture.messages) > 30
    assert {type(row).__name__ for row in capture.rows} == {"CapturedGap", "CapturedUnknown"}


def test_more_connections_than_the_bound_are_given_up_alike() -> None:
    sent: list[Sent] = []
    for number in range(40):
        client = ("10.0.0.1", 40000 + number % 17)
        sent += conversation([EVERY[: 2000 + 50 * number]], [EVERY], client=client, isn=number * 7)

    capture = captured([pcap(sent)], streams_max=8)

    assert len(capture.messages) > 500


@pytest.mark.long
def test_tables_begin_anew_beyond_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of nodes, texts and bitmaps belong to their batch."""
    for name in ("NODES_MAX", "TEXTS_MAX", "BITMAPS_MAX"):
        monkeypatch.setattr(bus_follower, name, 3)
    monkeypatch.setattr(decoder, "PACKETS_PER_CHUNK", 20)
    sent = conversation([encode_message(ping(f"{i:040d}", myslots=bytes([i]) * 2048)) for i in range(60)], [EVERY] * 9)

    capture = captured([pcap(sent)])

    assert sum(message.raw in EVERY for message in capture.messages) == 9 * len(every_kind())
    assert [message.sender for message in capture.messages if message.raw not in EVERY] == [
        f"{i:040d}" for i in range(60)
    ]


@pytest.mark.long
def test_a_big_message_and_many_gossip_entries_fit() -> None:
    """65,535 entries make the tables grow; a message above the gathering bound is the plain code's."""
    big = encode_message(gossip_message(0, entries=65535))
    made = encode_message(gossip_message(1, entries=900))

    capture = captured([pcap(conversation(pieces_of(big + made, [60000] * 200)))])

    assert [message.raw for message in capture.messages] == [big, made]
    assert not capture.rows


def test_packets_without_tcp_are_counted_by_reason() -> None:
    file = pcap([replace(event, cut=cut) for event, cut in zip(conversation([EVERY]), (0, 15, 30, 45), strict=False)])

    rows = captured([file]).rows

    assert sum(row.packets for row in rows if isinstance(row, SkippedPackets)) == 2


@st.composite
def captures(draw: st.DrawFn) -> bytes:
    """Two connections of random messages: cut, reordered, repeated, overlapping, lost, captured late, snapped."""
    sent: list[Sent] = []
    for number in range(draw(st.integers(1, 2))):
        ways = []
        for _ in range(2):
            raw = b"".join(draw(st.lists(messages(), min_size=0, max_size=4)))
            if draw(st.integers(0, 5)) == 0:
                raw = draw(st.binary(max_size=50)) + raw
            ways.append(pieces_of(raw, draw(st.lists(st.sampled_from([1, 14, 700, 1460, 2300, 6000]), max_size=12))))
        isn = draw(st.sampled_from([0, 1000, (1 << 32) - 3000]))
        client = (CLIENT[0], draw(st.sampled_from([40000, 40000 + number])))
        sent += conversation(*ways, client=client, server=SERVER, isn=isn, handshake=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 6))):
        if not sent:
            break
        at = draw(st.integers(0, len(sent) - 1))
        what = draw(st.sampled_from(["swap", "repeat", "lose", "overlap", "cut", "late", "fin", "back"]))
        packet = sent[at]
        if what == "swap":
            sent.insert(draw(st.integers(0, len(sent) - 1)), sent.pop(at))
        elif what == "repeat":
            sent.insert(draw(st.integers(at, len(sent))), packet)
        elif what == "lose":
            sent.pop(at)
        elif what == "overlap":
            longer = replace(packet, payload=packet.payload + (sent[at + 1].payload if at + 1 < len(sent) else b"?"))
            sent.insert(at, longer)
        elif what == "cut":
            sent[at] = replace(packet, cut=draw(st.sampled_from([1, 20, 600, 2400])) % (len(packet.payload) + 1))
        elif what == "late":
            sent = sent[at:]
        elif what == "fin":
            sent.insert(at + 1, closing(packet))
        else:
            sent[at] = replace(packet, ts_ns=packet.ts_ns - draw(st.sampled_from([10**6, 10**10])))
    step = draw(st.sampled_from([0, 10**6, 10**9]))
    return pcap([replace(packet, ts_ns=packet.ts_ns + i * step) for i, packet in enumerate(sent)])


@settings(max_examples=examples(150))
@given(captures(), st.sampled_from([4096, 400]))
def test_a_file_in_pieces_has_the_messages_and_rows_of_the_whole_file(file: bytes, piece: int) -> None:
    whole, pieces = captured([file]), captured([file[at : at + piece] for at in range(0, len(file), piece)])

    assert pieces._replace(rows=[]) == whole._replace(rows=[])
    assert sorted(map(repr, pieces.rows)) == sorted(map(repr, whole.rows))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_a_capture_that_lost_packets_has_gaps_and_fewer_messages(share: float) -> None:
    recorded = packets_of(DATA / "bus-redis-7.0" / "bus.pcap.gz")[200:1400]
    whole = captured([as_pcap(recorded)])

    capture = captured([as_pcap(with_loss(recorded, share, 7))])

    sent = {message.raw for message in whole.messages}
    assert capture.rows
    assert all(message.raw in sent for message in capture.messages if message.is_whole)
    assert len(capture.messages) < len(whole.messages)


def arrivals(*sent: Sent) -> list[tuple[int, int, int]]:
    """What shows that bytes have not arrived, or have: mark, time and since when, in ms."""
    reader = BusDecoder()
    batches = [*decoded(reader, [pcap(sent)]), reader.finish()]
    rows = [row for batch in batches for row in batch.events if row["tcp_flags"] in (UNREAD, READ)]
    times = [(int(row["ts_ns"]) - START_NS, int(row["since_ns"]) - START_NS) for row in rows]
    return [
        (int(row["tcp_flags"]), at // 1_000_000, since // 1_000_000)
        for row, (at, since) in zip(rows, times, strict=True)
    ]


def test_bytes_that_are_sent_again_have_not_arrived_until_they_are_acknowledged() -> None:
    """RFC 6298: the sender's timer is 200 ms at least."""
    made = conversation([encode_message(ping())])
    data = made[-1]
    again = replace(data, ts_ns=data.ts_ns + 205_000_000)
    end = data.seq + len(data.payload)
    ack = Sent(SERVER, CLIENT, 6001, ACK, ack=end, ts_ns=START_NS + 900_000_000)

    assert [arrival[:2] for arrival in arrivals(*made, again, ack)] == [(UNREAD, 208), (READ, 900)]
    assert arrivals(*made, again)[0][2] == 3


def test_a_copy_of_another_capture_point_is_not_sent_again() -> None:
    """It comes within the time that packets are on their way."""
    made = conversation([encode_message(ping())])

    assert not arrivals(*made, replace(made[-1], ts_ns=made[-1].ts_ns + 40_000_000))


def test_bytes_that_a_reset_without_acknowledgement_answers_have_not_arrived() -> None:
    """RFC 9293, 3.10.7.1; a RST with one ends a connection that has read them."""
    made = conversation([encode_message(ping())])
    reset = Sent(SERVER, CLIENT, 6001, RST, ts_ns=START_NS + 5_000_000)
    ack = Sent(SERVER, CLIENT, 6001, ACK, ack=made[-1].seq + len(made[-1].payload), ts_ns=START_NS + 4_000_000)

    assert [arrival[:2] for arrival in arrivals(*made, reset)] == [(UNREAD, 5)]
    assert not arrivals(*made, replace(reset, flags=RST | ACK, ack=made[-1].seq))
    assert not arrivals(*made, ack, reset)
