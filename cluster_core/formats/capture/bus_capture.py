"""Packets to cluster bus messages: connections, reassembly and framing over a series of captures.

Each direction of a TCP connection has a `TcpStream`, which orders its segments, and a `BusFramer`, which splits
messages. A SYN that is not a retransmission opens a new connection on reused ports. State spans the files of a rotated
series, so a message may start in one file and end in the next; it has the packet and time that completed it. Copies of
a packet, as from captures at both ends of a link (`merge_packets`), are dropped like retransmissions and counted.
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
"""Maximum directions followed at a time; above it the longest silent quarter is dropped."""

_CPORT = struct.Struct(">H")
_CPORT_OFFSET = 2248
_PORT_OFFSET = 10
BUS_PORT_STEP = 10_000
"""Offset of the bus port from the client port, used if the header with the port is cut (R1)."""

INITIATOR = 0
ACCEPTOR = 1
UNSEEN = -1


class Endpoint(NamedTuple):
    """An address and a port."""

    ip: str
    port: int


class Origin(NamedTuple):
    """Origin of a row: packet (time, number in the series, record offset in its file), direction, endpoints.

    *stream* numbers directions and *connection* connections, in order of appearance. *direction*: `INITIATOR` if the
    side that opened the connection sends, `ACCEPTOR` if the other one does, `UNSEEN` if unknown.
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
    """One message: *raw* holds its *totlen* bytes, or the captured beginning.

    *sender*: the id in the header; under a light header the last id seen in this direction. *receiver*: the last id
    seen in the other direction. Both are empty if unknown.
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
        """Decode the message, or the captured part (`decode_partial`)."""
        return decode_message(self.raw) if self.is_whole else decode_partial(self.raw)


@dataclass(frozen=True, slots=True)
class CapturedUnknown:
    """Bytes of a direction that are not a bus message."""

    origin: Origin
    count: int
    looks_like: str
    sample: bytes


@dataclass(frozen=True, slots=True)
class CapturedGap:
    """Bytes that were sent but not captured; *count* is None after a jump of the sequence numbers."""

    origin: Origin
    start: int
    end: int
    count: int | None
    reason: str


PacketKind = Literal["syn", "syn-ack", "rst", "fin", "unread", "read"]
"""Effect of a packet on its connection; *unread* and *read*: it shows that sent bytes did not arrive, or did."""


def packet_kind(flags: int) -> PacketKind:
    """Return the effect of a packet with these TCP flags on its connection."""
    if flags & SYN:
        return "syn-ack" if flags & ACK else "syn"
    return "rst" if flags & RST else "fin"


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A packet that opens, refuses or ends a connection, with its TCP flags."""

    origin: Origin
    flags: int

    @property
    def kind(self) -> PacketKind:
        """Return the effect of the packet."""
        return packet_kind(self.flags)


@dataclass(frozen=True, slots=True)
class SkippedPackets:
    """Packets without a TCP segment, counted by reason; *first_offset* is the record of the first."""

    reason: str
    packets: int
    captured_bytes: int
    first_offset: int


Row = CapturedMessage | CapturedUnknown | CapturedGap | ConnectionEvent | SkippedPackets | CaptureProblem

_Flow = tuple[bytes, int, bytes, int]


@dataclass(slots=True, eq=False, repr=False)
class Stream:
    """One open direction: numbers, reassembly, framing and the sending node."""

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
    """Acknowledgement number of a SYN+ACK: the sequence number of its SYN, plus 1."""

    def handle(self, segment: Segment) -> Iterator[tuple[Mark, Frame | Gap]]:
        """Reassemble and split: yield the results of *segment*."""
        yield from self._frames(self.tcp.handle(segment))

    def acknowledge(self, ack: int, ts_ns: int) -> Iterator[tuple[Mark, Frame | Gap]]:
        """Apply an acknowledgement of the other direction and yield its results."""
        yield from self._frames(self.tcp.acknowledge(ack, ts_ns))

    def finish(self) -> Iterator[tuple[Mark, Frame | Gap]]:
        """Yield what is pending at the end."""
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
    """Decodes the packets of a series, given in order, into rows, at most one packet late.

    `handle` takes one packet, `end_source` ends a file and reports its skipped packets, `finish` ends the series.
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
        """End a file of the series and return its skipped packets."""
        rows: list[Row] = [
            SkippedPackets(SKIP_REASONS[reason], *counts) for reason, counts in sorted(self._skipped.items())
        ]
        self._skipped = {}
        return rows

    def finish(self) -> list[Row]:
        """End the series and return pending rows of all directions, in order of their numbers."""
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
        """Find the other direction; a SYN without ACK opens a connection unless its SYN+ACK was captured first."""
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
    """Decode a series of captures, oldest first: yield (source name, row).

    Each source is a name and pieces of its decompressed bytes; reassembly continues across sources. Rows pending at the
    end carry the last source's name.
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
    """Merge the packets of captures from different places by time.

    Each series must be ordered; packets with equal times keep the order of the series. Reassembly drops copies by
    sequence number. Clocks that differ by more than `tcp_stream.HOLE_NS_MAX` cause false gaps, so correct them first.
    """
    return merge(*series, key=lambda packet: packet.ts_ns)
