"""Packets to cluster-bus messages: connections, directions, reassembly and framing over a whole series of
captures.

How this works.  Each direction of a TCP connection (source and target address and port) has a `TcpStream`,
which puts its segments in order, and a `BusFramer`, which cuts messages.  Two directions make a connection.
A SYN that is no copy opens a new connection on ports that were used before.  State lives across the files of
a rotated series, so a message may begin in one file and end in the next.  A message belongs to the packet
that completed it and has that packet's time.

Copies of a packet (a capture at both ends of the link, put in order of time by `merge_packets`) have sequence
numbers that were delivered before, so they are dropped like retransmissions and only counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from typing import Literal, NamedTuple

from cluster_core.formats.capture.link_layers import OK, SKIP_REASONS, TcpView, address_text, view_tcp
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.formats.capture.pcap import CaptureReader
from cluster_core.wire.bus import HEADER_BYTES, Message, decode_message, decode_partial, peek_header
from cluster_core.wire.bus_framing import BusFramer, Frame, PartialMessage, UnknownBytes, WholeMessage
from cluster_core.wire.tcp_stream import ACK, FIN, RST, SYN, Bytes, Gap, Mark, Segment, TcpStream

STREAMS_MAX = 1 << 16
"""Directions that are followed at a time; above it the quarter that was silent longest is given up."""

_CPORT = struct.Struct(">H")
_CPORT_OFFSET = 2248
_PORT_OFFSET = 10
BUS_PORT_STEP = 10_000
"""The bus port of a node whose header was cut before it names one is its client port and this (R1)."""

INITIATOR = 0
ACCEPTOR = 1
UNSEEN = -1


class Endpoint(NamedTuple):
    """An address and a port."""

    ip: str
    port: int


class Origin(NamedTuple):
    """Where a row comes from: packet (time, number in the series, record offset in its file), direction,
    endpoints.

    *stream* numbers directions, *connection* connections, both in order of appearance.  *direction* is
    `INITIATOR` when the side that opened the connection sends, `ACCEPTOR` when the other does, `UNSEEN` when
    the capture does not say.
    """

    ts_ns: int
    packet: int
    offset: int
    stream: int
    connection: int
    direction: int
    source: Endpoint
    target: Endpoint


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """One message: *raw* holds all its *totlen* bytes, or only its beginning when the capture lacks the rest.

    *sender* is the id in the header, or under a light header the last id seen in this direction; *receiver*
    is the last id seen in the other direction; both empty when not known yet.
    """

    origin: Origin
    raw: bytes
    totlen: int
    sender: str
    receiver: str

    @property
    def is_whole(self) -> bool:
        """Whether the capture holds all bytes of the message."""
        return len(self.raw) >= self.totlen

    def decode(self) -> Message:
        """Decode the message, or what there is of it (`decode_partial`)."""
        return decode_message(self.raw) if self.is_whole else decode_partial(self.raw)


@dataclass(frozen=True, slots=True)
class CapturedUnknown:
    """Bytes of a direction that are no bus message."""

    origin: Origin
    count: int
    looks_like: str
    sample: bytes


@dataclass(frozen=True, slots=True)
class CapturedGap:
    """Bytes that were on the wire but are not in the capture; *count* is None after a jump of the sequence
    numbers.
    """

    origin: Origin
    start: int
    end: int
    count: int | None
    reason: str


PacketKind = Literal["syn", "syn-ack", "rst", "fin", "unread", "read"]
"""What a packet does to its connection; *unread* and *read*: it shows that bytes sent there have not arrived, or have."""


def packet_kind(flags: int) -> PacketKind:
    """What a packet with these TCP flags does to its connection."""
    if flags & SYN:
        return "syn-ack" if flags & ACK else "syn"
    return "rst" if flags & RST else "fin"


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A packet that opens, refuses or ends a connection: *flags* are its TCP flags."""

    origin: Origin
    flags: int

    @property
    def kind(self) -> PacketKind:
        """What the packet does."""
        return packet_kind(self.flags)


@dataclass(frozen=True, slots=True)
class SkippedPackets:
    """Packets that hold no TCP segment, counted by reason; *first_offset* is the record of the first one."""

    reason: str
    packets: int
    captured_bytes: int
    first_offset: int


Row = CapturedMessage | CapturedUnknown | CapturedGap | ConnectionEvent | SkippedPackets | CaptureProblem

_Flow = tuple[bytes, int, bytes, int]


@dataclass(slots=True, eq=False, repr=False)
class Stream:
    """One direction under way: numbers, reassembly, framing, and the node that sends in it."""

    number: int
    flow: _Flow
    tcp: TcpStream
    framer: BusFramer
    last: Mark
    connection: int = -1
    direction: int = UNSEEN
    peer: Stream | None = None
    node: str = ""
    syn_ack: int = -1
    """The acknowledgement number of a SYN+ACK: what its SYN must have been, plus 1."""

    def handle(self, segment: Segment) -> Iterator[tuple[Mark, Frame | Gap]]:
        """Reassemble and cut: yield what *segment* settles."""
        yield from self._frames(self.tcp.handle(segment))

    def acknowledge(self, ack: int, ts_ns: int) -> Iterator[tuple[Mark, Frame | Gap]]:
        """The other direction says what it received: yield what that settles."""
        yield from self._frames(self.tcp.acknowledge(ack, ts_ns))

    def finish(self) -> Iterator[tuple[Mark, Frame | Gap]]:
        """Give up what is pending."""
        yield from self._frames(self.tcp.finish())
        for frame in self.framer.finish(self.last):
            yield frame.mark, frame

    def _frames(self, settled: list[Bytes | Gap]) -> Iterator[tuple[Mark, Frame | Gap]]:
        for item in settled:
            if isinstance(item, Bytes):
                frames = self.framer.feed(item.payload, item.mark)
            else:
                yield item.mark, item
                frames = (
                    self.framer.skip(item.count, item.mark) if item.count is not None else self.framer.lose(item.mark)
                )
            for frame in frames:
                yield frame.mark, frame


class BusCapture:
    """Feed it the packets of a series in order; it returns rows, at most one packet late.

    `handle` takes one packet, `end_source` ends a file (its skipped packets are reported), `finish` ends the
    series.
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX) -> None:
        self.repeated_bytes = 0
        self._streams_max = streams_max
        self._streams: dict[_Flow, Stream] = {}
        self._packets = 0
        self._stream_count = 0
        self._connection_count = 0
        self._skipped: dict[int, list[int]] = {}

    def handle(self, packet: Packet) -> list[Row]:
        """Add a packet and return the rows that it completes."""
        mark = Mark(packet.ts_ns, self._packets, packet.offset)
        self._packets += 1
        view = view_tcp(packet.link_type, packet.data, packet.length)
        if view.reason != OK:
            counts = self._skipped.setdefault(view.reason, [0, 0, packet.offset])
            counts[0] += 1
            counts[1] += len(packet.data)
            return []
        segment = Segment(view.seq, view.flags, packet.data[view.start : view.end], view.missing, mark)
        rows: list[Row] = []
        stream = self._stream_of(view, segment, rows)
        stream.last = mark
        peer = stream.peer
        if peer is not None and view.flags & ACK:
            self._add_rows(peer, peer.acknowledge(view.ack, mark.ts_ns), rows)
        if view.flags & (SYN | FIN | RST):
            rows.append(ConnectionEvent(self._origin(stream, mark), view.flags))
        self._add_rows(stream, stream.handle(segment), rows)
        return rows

    def end_source(self) -> list[Row]:
        """A file of the series ends: return what was skipped in it."""
        rows: list[Row] = [
            SkippedPackets(SKIP_REASONS[reason], *counts) for reason, counts in sorted(self._skipped.items())
        ]
        self._skipped = {}
        return rows

    def finish(self) -> list[Row]:
        """The series ends: return what is pending in every direction, in order of their numbers."""
        rows = self.end_source()
        for stream in sorted(self._streams.values(), key=lambda stream: stream.number):
            self._finish_stream(stream, rows)
        self._streams = {}
        return rows

    def _stream_of(self, view: TcpView, segment: Segment, rows: list[Row]) -> Stream:
        flow = (view.source, view.source_port, view.target, view.target_port)
        stream = self._streams.get(flow)
        if stream is not None and not stream.tcp.is_reopened_by(segment):
            return stream
        if stream is not None:
            self._retire(stream, rows)
        if len(self._streams) >= self._streams_max:
            self._evict(rows)
        tcp = TcpStream(segment)
        stream = Stream(self._stream_count, flow, tcp, BusFramer(synced=tcp.saw_syn), segment.mark)
        self._stream_count += 1
        self._connect(stream, view, rows)
        self._streams[flow] = stream
        return stream

    def _connect(self, stream: Stream, view: TcpView, rows: list[Row]) -> None:
        """Find the other direction; a SYN without ACK begins a connection unless its own SYN+ACK was captured
        first.
        """
        peer = self._streams.get((view.target, view.target_port, view.source, view.source_port))
        opens = view.flags & (SYN | ACK) == SYN
        if peer is not None and (peer.peer is not None or (opens and peer.syn_ack != (view.seq + 1) % (1 << 32))):
            if opens:
                self._retire(peer, rows)
                peer = None
            elif peer.peer is not None:
                peer.peer.peer = None
        if peer is not None:
            stream.peer, peer.peer = peer, stream
            stream.connection = peer.connection
            stream.direction = UNSEEN if peer.direction == UNSEEN else 1 - peer.direction
        else:
            stream.connection = self._connection_count
            self._connection_count += 1
        if view.flags & SYN:
            stream.direction = INITIATOR if opens else ACCEPTOR
            stream.syn_ack = -1 if opens else view.ack
            if peer is not None:
                peer.direction = 1 - stream.direction

    def _retire(self, stream: Stream, rows: list[Row]) -> None:
        self._finish_stream(stream, rows)
        del self._streams[stream.flow]
        if stream.peer is not None:
            stream.peer.peer = None

    def _evict(self, rows: list[Row]) -> None:
        oldest = sorted(self._streams.values(), key=lambda stream: (stream.last.packet, stream.number))
        for stream in oldest[: max(1, self._streams_max // 4)]:
            self._retire(stream, rows)

    def _finish_stream(self, stream: Stream, rows: list[Row]) -> None:
        self._add_rows(stream, stream.finish(), rows)
        self.repeated_bytes += stream.tcp.repeated_bytes

    def _add_rows(self, stream: Stream, found: Iterator[tuple[Mark, Frame | Gap]], rows: list[Row]) -> None:
        for mark, item in found:
            origin = self._origin(stream, mark)
            if isinstance(item, WholeMessage):
                rows.append(self._message(stream, origin, item.raw, len(item.raw)))
            elif isinstance(item, PartialMessage):
                rows.append(self._message(stream, origin, item.raw, item.totlen))
            elif isinstance(item, UnknownBytes):
                rows.append(CapturedUnknown(origin, item.count, item.looks_like, item.sample))
            else:
                rows.append(CapturedGap(origin, item.start, item.end, item.count, item.reason))

    def _message(self, stream: Stream, origin: Origin, raw: bytes, totlen: int) -> CapturedMessage:
        peek = peek_header(raw)
        if peek.sender is not None:
            stream.node = peek.sender
        direction = origin.direction
        if direction == UNSEEN and peek.sender is not None:
            if len(raw) >= HEADER_BYTES:
                (cport,) = _CPORT.unpack_from(raw, _CPORT_OFFSET)
            else:
                cport = _CPORT.unpack_from(raw, _PORT_OFFSET)[0] + BUS_PORT_STEP
            origin = origin._replace(direction=ACCEPTOR if cport == origin.source.port else INITIATOR)
        receiver = stream.peer.node if stream.peer is not None else ""
        return CapturedMessage(origin, raw, totlen, stream.node, receiver)

    def _origin(self, stream: Stream, mark: Mark) -> Origin:
        source, source_port, target, target_port = stream.flow
        return Origin(
            *mark,
            stream.number,
            stream.connection,
            stream.direction,
            Endpoint(address_text(source), source_port),
            Endpoint(address_text(target), target_port),
        )


def read_bus(sources: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[tuple[str, Row]]:
    """Decode a series of captures, oldest first: yield (name of the source, row).

    Each source is a name and the pieces of its (decompressed) bytes; reassembly goes on across sources.  Rows
    that were pending at the end of the series carry the name of the last source.
    """
    capture = BusCapture()
    name = ""
    for name, pieces in sources:
        reader = CaptureReader()
        for piece in pieces:
            for item in reader.feed(piece):
                rows = capture.handle(item) if isinstance(item, Packet) else [item]
                for row in rows:
                    yield name, row
        for problem in reader.finish():
            yield name, problem
        for row in capture.end_source():
            yield name, row
    for row in capture.finish():
        yield name, row


def merge_packets(series: Iterable[Iterable[Packet]]) -> Iterator[Packet]:
    """Put the packets of captures of the same traffic, made in different places, in one order of time.

    Each series must be in its own order; packets with equal times keep the order of the series.  Copies need
    no care: reassembly drops them by their sequence numbers.  Clocks that differ by more than
    `tcp_stream.HOLE_NS_MAX` make holes look lost, so correct them first.
    """
    return merge(*series, key=lambda packet: packet.ts_ns)
