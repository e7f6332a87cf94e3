"""Captures to messages: connections, directions, who sends to whom, copies from both ends."""

from __future__ import annotations

from dataclasses import replace

from cluster_core.formats.capture.bus_rows import ACCEPTOR, INITIATOR, CapturedGap
from cluster_core.wire.bus import PartialHeader, decode_partial, encode_message
from cluster_core.wire.tcp_stream import ACK, RST, SYN
from tests.builders.bus_builder import (
    CLIENT,
    ONE,
    SERVER,
    TWO,
    closing,
    conversation,
    gossip_message,
    light,
    pcap,
    pieces_of,
    ping,
    refusal,
)
from tests.builders.bus_comparison import captured

PING = encode_message(ping(ONE, cport=16379))
PONG = encode_message(gossip_message(1, TWO, cport=16379))


def test_messages_know_their_connection_and_both_nodes() -> None:
    """R27: pings go out on the link of the node that opened it, the answer comes on the same connection."""
    capture = captured([pcap(conversation([PING], [PONG, PONG]))])

    rows = [(m.origin.source, m.origin.direction, m.origin.connection, m.sender, m.receiver) for m in capture.messages]
    assert rows == [
        (CLIENT, INITIATOR, 0, ONE, ""),
        (SERVER, ACCEPTOR, 0, TWO, ONE),
        (SERVER, ACCEPTOR, 0, TWO, ONE),
    ]
    assert capture.events == [(INITIATOR, SYN), (ACCEPTOR, SYN | ACK)]


def test_light_messages_are_those_of_the_node_on_their_connection() -> None:
    """R7: a light header names no sender."""
    capture = captured([pcap(conversation([PING, encode_message(light())], [PONG]))])

    assert [(m.sender, m.receiver) for m in capture.messages] == [(ONE, ""), (ONE, ""), (TWO, ONE)]


def test_without_a_handshake_the_header_shows_the_accepting_node() -> None:
    """R3: cport is the port the sender listens on."""
    capture = captured([pcap(conversation([PING], [PONG], handshake=False))])

    assert [m.origin.direction for m in capture.messages] == [INITIATOR, ACCEPTOR]


def test_the_answer_to_a_syn_may_be_captured_before_it() -> None:
    """Packets of two processors can be out of order by microseconds."""
    sent = conversation([PING], [PONG])
    sent[0], sent[1] = sent[1], sent[0]

    capture = captured([pcap(sent)])

    assert [m.origin.connection for m in capture.messages] == [0, 0]


def test_a_new_syn_on_the_same_ports_is_a_new_connection() -> None:
    first = conversation([PING, PING[:99]])
    again = conversation([PING], isn=99)

    capture = captured([pcap(first + again)])

    assert [(m.origin.connection, m.is_whole) for m in capture.messages] == [(0, True), (0, False), (1, True)]


def test_refused_connections_are_events_without_messages() -> None:
    """A dead node's peers try every 100 ms (R29)."""
    syn = conversation([])[0]

    capture = captured([pcap([syn, refusal(syn)])])

    assert [(way, flags & (SYN | RST)) for way, flags in capture.events] == [(INITIATOR, SYN), (ACCEPTOR, RST)]
    assert not capture.messages
    assert not capture.rows


def test_a_capture_at_both_ends_gives_every_message_once() -> None:
    """Copies have sequence numbers that were delivered before."""
    sent = [*conversation(pieces_of(PING * 3, [1000] * 9), [PONG]), closing(conversation([PING])[-1])]
    there = [replace(packet, ts_ns=packet.ts_ns + 400_000) for packet in sent]

    capture = captured([pcap(sorted([*sent, *there], key=lambda packet: packet.ts_ns))])

    assert [m.raw for m in capture.messages] == [PING] * 3 + [PONG]
    assert capture.repeated_bytes == 3 * len(PING) + len(PONG)
    assert not capture.rows


def test_a_lost_segment_is_a_gap_and_costs_its_message_only() -> None:
    sent = conversation(pieces_of(PING * 3, [1180] * 6), isn=0)
    del sent[3 + 2]

    capture = captured([pcap(sent)])

    (gap,) = (row for row in capture.rows if isinstance(row, CapturedGap))
    assert (gap.start, gap.end, gap.count, gap.reason) == (2361, 3541, 1180, "not in the capture")
    assert next(m.raw for m in capture.messages if m.is_whole) == PING


def test_snap_length_leaves_headers_without_gossip() -> None:
    sent = [replace(packet, cut=max(0, len(packet.payload) - 100)) for packet in conversation([PING] * 3)]

    capture = captured([pcap(sent)])

    assert [(m.is_whole, len(m.raw), m.sender) for m in capture.messages] == [(False, 100, ONE)] * 3
    assert all(isinstance(decode_partial(m.raw).header, PartialHeader) for m in capture.messages)
    assert len([row for row in capture.rows if isinstance(row, CapturedGap)]) == 3
