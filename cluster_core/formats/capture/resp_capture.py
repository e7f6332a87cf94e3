"""Packets to what clients, masters and replicas said on client ports: commands, replies, replication streams, dumps.

Connections and reassembly are those of `bus_capture`; each direction is cut by a `RespSkimmer`, which keeps no long
string and no dump.  Both directions of a connection help each other: SYNC on one announces a dump on the other, and an
acknowledged offset ends a dump whose end mark was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from cluster_core.formats.capture.bus_capture import (
    INITIATOR,
    STREAMS_MAX,
    BusCapture,
    CapturedGap,
    ConnectionEvent,
    Framer,
    Origin,
    SkippedPackets,
    Stream,
)
from cluster_core.formats.capture.packet import CaptureProblem, Packet
from cluster_core.wire.resp_items import Item, Skimmed
from cluster_core.wire.resp_skim import RespSkimmer
from cluster_core.wire.tcp_stream import Gap, Mark

ACK_PREFIX: Final = (b"REPLCONF", b"ACK")


@dataclass(frozen=True, slots=True)
class CapturedResp:
    """What one side said: *origin* tells packet, connection and sides, *item* what it was."""

    origin: Origin
    item: Item


RespRow = CapturedResp | CapturedGap | ConnectionEvent | SkippedPackets | CaptureProblem


class _Connections(BusCapture):
    """The connections of a capture of client ports."""

    def _framer(self, *, synced: bool) -> Framer:
        return RespSkimmer(synced=synced)

    def _add_rows(self, stream: Stream, found: Iterator[tuple[Mark, Any]], rows: list[Any]) -> None:
        for mark, item in found:
            origin = self._origin(stream, mark)
            if isinstance(item, Gap):
                rows.append(CapturedGap(origin, item.start, item.end, item.count, item.reason))
                continue
            rows.append(CapturedResp(origin, item))
            if isinstance(item, Skimmed) and stream.peer is not None and stream.direction in (INITIATOR, -1):
                self._tell_peer(stream.peer, item, mark, rows)

    def _tell_peer(self, peer: Stream, item: Skimmed, mark: Mark, rows: list[Any]) -> None:
        framer = cast(RespSkimmer, peer.framer)
        name = item.words[0].upper() if item.words else b""
        if name == b"SYNC" and item.elements == 1 and item.kind in ("array", "inline"):
            framer.expect_dump()
        elif framer.is_dump_damaged and tuple(word.upper() for word in item.words[:2]) == ACK_PREFIX:
            rows.extend(CapturedResp(self._origin(peer, mark), lost) for lost in framer.lose(mark))


class RespCapture:
    """Feed it the packets of a series in order; it returns rows.

    `handle` takes one packet, `end_source` ends a file (its skipped packets are reported), `finish` ends the series.
    """

    def __init__(self, *, streams_max: int = STREAMS_MAX) -> None:
        self._connections = _Connections(streams_max=streams_max)

    def handle(self, packet: Packet) -> list[RespRow]:
        """Add a packet and return the rows that it completes."""
        return cast(list[RespRow], self._connections.handle(packet))

    def end_source(self) -> list[RespRow]:
        """A file of the series ends: return what was skipped in it."""
        return cast(list[RespRow], self._connections.end_source())

    def finish(self) -> list[RespRow]:
        """The series ends: return what is pending in every direction, in order of their numbers."""
        return cast(list[RespRow], self._connections.finish())


def read_resp(packets: Iterable[Packet | CaptureProblem]) -> Iterator[RespRow]:
    """Decode a whole series: packets and problems in, rows out."""
    capture = RespCapture()
    for packet in packets:
        if isinstance(packet, Packet):
            yield from capture.handle(packet)
        else:
            yield packet
    yield from capture.finish()
