"""From the rows of a capture to sightings: connections and whole messages, in the order in which they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster_core.formats.capture.bus_capture import (
    INITIATOR,
    UNSEEN,
    CapturedMessage,
    ConnectionEvent,
    Origin,
    Row,
)
from cluster_core.replay.evidence import Endpoint, SightingKind, readable_part
from cluster_core.wire.bus import Message


class Sighting(NamedTuple):
    """One thing seen on the wire: a whole message, or a packet that opens or ends a connection.

    *kind* is ``message``, ``syn``, ``syn-ack``, ``fin`` or ``rst``; *from_opener* says which side sent it.
    """

    ts_ns: int
    ref: int
    connection: int
    from_opener: bool
    opener: Endpoint
    acceptor: Endpoint
    kind: SightingKind
    message: Message | None = None


CLOSING: Final = ("fin", "rst")


def read_sightings(rows: Iterable[Row]) -> Iterator[Sighting]:
    """Number the messages of a capture (*ref*) and turn its rows into sightings.

    A packet that ends a connection may also complete a message: the message counts first.  Rows whose direction the
    capture does not show are left out, and so are messages without a whole header; of a message that was cut short by
    the snap length, what was captured counts.
    """
    ref = 0
    closing: Sighting | None = None
    closing_packet = -1
    for row in rows:
        if not isinstance(row, CapturedMessage | ConnectionEvent):
            continue
        if closing is not None and row.origin.packet != closing_packet:
            yield closing
            closing = None
        if row.origin.direction == UNSEEN:
            ref += isinstance(row, CapturedMessage)
        elif isinstance(row, CapturedMessage):
            yield _sighting(row.origin, ref, "message", readable_part(row.decode()))
            ref += 1
        elif row.kind in CLOSING:
            closing, closing_packet = _sighting(row.origin, ref, row.kind, None), row.origin.packet
        else:
            yield _sighting(row.origin, ref, row.kind, None)
    if closing is not None:
        yield closing


def _sighting(origin: Origin, ref: int, kind: SightingKind, message: Message | None) -> Sighting:
    source, target = Endpoint(*origin.source), Endpoint(*origin.target)
    opens = origin.direction == INITIATOR
    opener, acceptor = (source, target) if opens else (target, source)
    return Sighting(origin.ts_ns, ref, origin.connection, opens, opener, acceptor, kind, message)
