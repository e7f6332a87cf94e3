"""Captures of simulated nodes.

It is the capture of somebody who listens at every host: a message has the time at which it arrived, one that never
arrived is not in it.  Rows become lines through `cluster_core.formats.capture.bus_lines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.bus_lines import row_to_line
from cluster_core.sim.clock import START_US
from cluster_core.sim.host import Host, Stream
from cluster_core.sim.network import Driver
from cluster_core.wire.bus import Header, Message, encode_message
from cluster_core.wire.tcp_stream import ACK, FIN, SYN

FIRST_PORT: Final = 32_768
PORTS: Final = 28_000
"""Ports that a system gives to those who connect (Linux's ip_local_port_range)."""


class Recorder:
    """Keeps what arrives; set it as `World.recorder` before the run."""

    def __init__(self, world: Driver) -> None:
        self.world = world
        self.kept: list[tuple[int, Stream, Message | str]] = []

    def delivered(self, stream: Stream, message: Message) -> None:
        """A message arrived."""
        self.kept.append((self.world.now_us, stream, message))

    def connected(self, stream: Stream) -> None:
        """A connection was accepted; *stream* is that of the side that opened it."""
        self.kept.append((self.world.now_us, stream, "open"))

    def closed(self, stream: Stream) -> None:
        """The end of *stream* arrived."""
        self.kept.append((self.world.now_us, stream, "closed"))

    def rows(self) -> Iterator[seen.Row]:
        """The rows, in order of time."""
        speakers: dict[tuple[int, bool], str] = {}
        for number, (at_us, stream, what) in enumerate(self.kept, 1):
            if isinstance(what, Message):
                header = what.header
                side = (stream.connection, stream.is_ours)
                if isinstance(header, Header):
                    speakers[side] = header.sender
                raw = encode_message(what)
                listener = speakers.get((stream.connection, not stream.is_ours), "")
                origin = _origin(number, at_us, stream)
                yield seen.CapturedMessage(origin, raw, len(raw), speakers.get(side, ""), listener)
            elif what == "open":
                yield seen.ConnectionEvent(_origin(number, at_us, stream), SYN)
                if stream.reverse is not None:
                    yield seen.ConnectionEvent(_origin(number, at_us, stream.reverse), SYN | ACK)
            else:
                yield seen.ConnectionEvent(_origin(number, at_us, stream), FIN | ACK)

    def lines(self) -> Iterator[str]:
        """The rows as lines of JSON."""
        return (row_to_line(row) for row in self.rows())


def _origin(number: int, at_us: int, stream: Stream) -> seen.Origin:
    opener, acceptor = (stream.source, stream.target) if stream.is_ours else (stream.target, stream.source)
    ends = _opening_end(opener, stream.connection), seen.Endpoint(acceptor.ip, acceptor.settings.bus_port)
    source, target = ends if stream.is_ours else ends[::-1]
    return seen.Origin(
        ts_ns=(START_US + at_us) * 1000,
        packet=number,
        offset=0,
        stream=2 * stream.connection + (0 if stream.is_ours else 1),
        connection=stream.connection,
        direction=seen.INITIATOR if stream.is_ours else seen.ACCEPTOR,
        source=source,
        target=target,
    )


def _opening_end(host: Host, connection: int) -> seen.Endpoint:
    return seen.Endpoint(host.ip, FIRST_PORT + connection % PORTS)
