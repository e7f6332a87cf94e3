"""From the rows of a capture to sightings: connections and whole messages, in the order in which they count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from cluster_core.formats.capture.bus_capture import (
    INITIATOR,
    UNSEEN,
    CapturedMessage,
    ConnectionEvent,
    Origin,
    Row,
)
from cluster_core.replay.evidence import Endpoint, Sighting, SightingKind
from cluster_core.wire.bus import Gossip, Header, Message

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


def readable_part(message: Message) -> Message:
    """The message as the machine may read it: a cut gossip section counts as far as it goes."""
    if message.rest is not None and isinstance(message.header, Header) and isinstance(message.body, Gossip):
        return replace(message, rest=None) if message.rest.reason.endswith("were captured") else message
    return message


def _sighting(origin: Origin, ref: int, kind: SightingKind, message: Message | None) -> Sighting:
    source, target = Endpoint(*origin.source), Endpoint(*origin.target)
    opens = origin.direction == INITIATOR
    opener, acceptor = (source, target) if opens else (target, source)
    return Sighting(origin.ts_ns, ref, origin.connection, opens, opener, acceptor, kind, message)
