"""Captures of simulated nodes, as somebody would make them who listens at every host.

A message has the time at which it arrived; a message that never arrived is not in the capture.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from cluster_core.sim.clock import START_US
from cluster_core.sim.host import Host, Stream
from cluster_core.sim.network import Driver
from cluster_core.wire.bus import Message, encode_message
from cluster_core.wire.tcp_stream import ACK, FIN, SYN

FIRST_PORT: Final = 32_768
PORTS: Final = 28_000
"""Ephemeral ports (Linux's ip_local_port_range)."""
SEGMENT_BYTES_MAX: Final = 60_000
_FILE_HEADER: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 101)
"""pcap with microseconds; link type 101 is raw IP."""
_RECORD, _IP, _TCP = struct.Struct("<IIII"), struct.Struct(">BBHHHBBH4s4s"), struct.Struct(">HHIIBBHHH")


class Recorder:
    """Collects arrivals; set as `World.recorder` before the run."""

    def __init__(self, world: Driver) -> None:
        self.world = world
        self.kept: list[tuple[int, Stream, Message | str]] = []

    def delivered(self, stream: Stream, message: Message) -> None:
        """Record an arrived message."""
        self.kept.append((self.world.now_us, stream, message))

    def connected(self, stream: Stream) -> None:
        """Record an accepted connection; *stream* is the opener's."""
        self.kept.append((self.world.now_us, stream, "open"))

    def closed(self, stream: Stream) -> None:
        """Record the arrived end of *stream*."""
        self.kept.append((self.world.now_us, stream, "closed"))

    def pcap(self) -> Iterator[bytes]:
        """The capture as pieces of a pcap file."""
        yield _FILE_HEADER
        positions: dict[tuple[int, bool], int] = {}
        for at_us, stream, what in self.kept:
            if isinstance(what, Message):
                raw = encode_message(what)
                parts = [
                    (stream.is_ours, ACK, raw[at : at + SEGMENT_BYTES_MAX])
                    for at in range(0, len(raw), SEGMENT_BYTES_MAX)
                ]
            elif what == "open":
                parts = [(True, SYN, b""), (False, SYN | ACK, b"")]
            else:
                parts = [(stream.is_ours, FIN | ACK, b"")]
            for by_opener, flags, payload in parts:
                sequence, acknowledged = (
                    positions.setdefault((stream.connection, side), stream.connection << 16)
                    for side in (by_opener, not by_opener)
                )
                positions[stream.connection, by_opener] = sequence + len(payload) + bool(flags & (SYN | FIN))
                packet = _packet(stream, by_opener, sequence, acknowledged if flags & ACK else 0, flags, payload)
                seconds, rest_us = divmod(START_US + at_us, 1_000_000)
                yield _RECORD.pack(seconds, rest_us, len(packet), len(packet)) + packet


def _packet(stream: Stream, by_opener: bool, sequence: int, acknowledged: int, flags: int, payload: bytes) -> bytes:
    opener, acceptor = (stream.source, stream.target) if stream.is_ours else (stream.target, stream.source)
    ends = [
        (_address(opener), FIRST_PORT + stream.connection % PORTS),
        (_address(acceptor), acceptor.settings.bus_port),
    ]
    (source, source_port), (target, target_port) = ends if by_opener else ends[::-1]
    mask = (1 << 32) - 1
    tcp = _TCP.pack(source_port, target_port, sequence & mask, acknowledged & mask, 5 << 4, flags, 65_535, 0, 0)
    size = _IP.size + len(tcp) + len(payload)
    return _IP.pack(0x45, 0, size, 0, 0x4000, 64, 6, 0, source, target) + tcp + payload


def _address(host: Host) -> bytes:
    return bytes(map(int, host.ip.split(".")))
