"""Rows of a capture of the cluster bus beside its whole messages: where they come from, gaps, unknown bytes, skipped packets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from cluster_core.formats.capture.pcap import CaptureProblem
from cluster_core.wire.tcp_stream import ACK, RST, SYN

STREAMS_MAX = 1 << 16
"""Maximum directions followed at a time; above it the longest silent quarter is dropped."""

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

    *stream* numbers directions, *connection* connections, by appearance. *direction*: sent by the connection's `INITIATOR`,
    by its `ACCEPTOR`, or `UNSEEN` if unknown.
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
class SkippedPackets:
    """Packets without a TCP segment, counted by reason; *first_offset* is the record of the first."""

    reason: str
    packets: int
    captured_bytes: int
    first_offset: int


Row = CapturedUnknown | CapturedGap | SkippedPackets | CaptureProblem
