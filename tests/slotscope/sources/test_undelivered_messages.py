"""Messages that TCP sent and no node received: captured, and not believed (RFC 9293, 3.10.7.1; RFC 6298)."""

from __future__ import annotations

from pathlib import Path

from cluster_core.gossip.flags import MASTER
from cluster_core.replay.rows import NodeViewRow
from cluster_core.wire.bus import GossipEntry, Message, MessageType, encode_message, sized
from cluster_core.wire.tcp_stream import ACK, RST, SYN
from tests.builders.bus_builder import START_NS, Sent, pcap
from tests.builders.bus_folding import fold
from tests.builders.gossip_builder import A, B, ping

HOSTS = {A: "10.0.0.1", B: "10.0.0.2"}
PORTS = {A: 17001, B: 17002}
MS = 1_000_000


class Wire:
    """Writes the packets of one connection; every message is acknowledged unless *delivered* is false."""

    def __init__(self, opener: str, acceptor: str, port: int, at_ms: int) -> None:
        self.ends = {opener: (HOSTS[opener], port), acceptor: (HOSTS[acceptor], PORTS[acceptor])}
        self.other = {opener: acceptor, acceptor: opener}
        self.seq = {opener: 1000, acceptor: 6000}
        self.sent: list[Sent] = []
        self.put(opener, at_ms, SYN)
        self.put(acceptor, at_ms, SYN | ACK)
        self.put(opener, at_ms, ACK)

    def put(self, node: str, at_ms: float, flags: int, payload: bytes = b"", seq: int | None = None) -> None:
        """One packet of *node*."""
        other = self.other[node]
        first = self.seq[node] if seq is None else seq
        ts_ns = START_NS + round(at_ms * MS)
        self.sent.append(
            Sent(
                self.ends[node],
                self.ends[other],
                first,
                flags,
                payload,
                ts_ns,
                ack=self.seq[other] if flags & ACK else 0,
            )
        )
        if seq is None:
            self.seq[node] += len(payload) + (flags & SYN != 0)

    def say(self, node: str, at_ms: float, message: Message) -> None:
        self.put(node, at_ms, ACK, encode_message(message))
        self.put(self.other[node], at_ms + 0.1, ACK)


def header(node: str, slots: str, kind: int = MessageType.PING) -> Message:
    other = B if node == A else A
    entry = GossipEntry(other, 0, 0, HOSTS[other], PORTS[other] - 10_000, PORTS[other], MASTER)
    return sized(ping(node, entry, kind=kind, slots=slots, port=PORTS[node] - 10_000, cport=PORTS[node]))


def talking(until_ms: int, *, silent_from_ms: int | None = None) -> tuple[Wire, Wire]:
    """Both nodes ping each other twice a second, *A* up to *silent_from_ms*."""
    there, back = Wire(A, B, 40_000, 0), Wire(B, A, 40_001, 1)
    for at_ms in range(10, until_ms, 500):
        if silent_from_ms is None or at_ms < silent_from_ms:
            there.say(A, at_ms, header(A, "0-99"))
            there.say(B, at_ms + 1, header(B, "100-199", MessageType.PONG))
            back.say(B, at_ms + 2, header(B, "100-199"))
            back.say(A, at_ms + 3, header(A, "0-99", MessageType.PONG))
    return there, back


def slots_of_a(wires: tuple[Wire, ...], tmp_path: Path) -> list[str]:
    """What B believes of the slots of A, one belief after the other."""
    path = tmp_path / "bus.pcap"
    path.write_bytes(pcap(sorted((sent for wire in wires for sent in wire.sent), key=lambda sent: sent.ts_ns)))
    rows = [row for row, _ in fold([path], node_timeout_ms=2000).rows if isinstance(row, NodeViewRow)]
    result = sorted((row for row in rows if (row.observer, row.node_id) == (B, A)), key=lambda row: row.valid_from_ns)
    return list(dict.fromkeys(row.slots for row in result if row.slots))


def test_a_message_that_arrives_is_believed(tmp_path: Path) -> None:
    there, back = talking(6000)
    there.say(A, 3100, header(A, "0-99 200-299"))

    assert slots_of_a((there, back), tmp_path) == ["0-99", "0-99 200-299"]


def test_a_message_answered_by_a_reset_is_not_believed(tmp_path: Path) -> None:
    """The receiver has closed that connection long ago."""
    there, back = talking(6000)
    lost = Wire(A, B, 40_002, 20)
    lost.say(A, 30, header(A, "0-99"))
    lost.put(A, 3100, ACK, encode_message(header(A, "0-99 200-299")))
    lost.put(B, 3100.002, RST)

    assert slots_of_a((there, back, lost), tmp_path) == ["0-99"]


def test_a_message_retransmitted_without_end_is_not_believed(tmp_path: Path) -> None:
    """Nobody acknowledges it: it was written before the network was cut."""
    there, back = talking(8000)
    lost = Wire(A, B, 40_002, 20)
    lost.say(A, 30, header(A, "0-99"))
    raw, first = encode_message(header(A, "0-99 200-299")), lost.seq[A]
    lost.put(A, 3100, ACK, raw)
    for at_ms in (3310, 3730, 4570):
        lost.put(A, at_ms, ACK, raw, seq=first)

    assert slots_of_a((there, back, lost), tmp_path) == ["0-99"]
