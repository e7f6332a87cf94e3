"""Rows of a capture, as JSON lines tell them, to a `BusBatch`: the bytes of their messages go the way of captured ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_capture import (
    CapturedGap,
    CapturedMessage,
    ConnectionEvent,
    Endpoint,
    Origin,
    Row,
)
from cluster_core.kernels.bus.batch import EVENT, NONE, BusBatch
from cluster_core.kernels.bus.messages import Tables
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, IPV4_MARK, Rows, new_rows
from cluster_core.kernels.bus.spans import Gathered, new_tables
from cluster_core.kernels.bus.streams import NO_ROW, SPAN, STREAM, Streams
from cluster_core.kernels.interning import intern
from cluster_core.wire.bus import NODE_ID_BYTES

_PORT_BITS = 16
_NO_BYTES = np.zeros(0, dtype=np.uint8)


class _Addresses:
    """Addresses in order of appearance, as kernels keep them."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def flow(self, place: Endpoint) -> int:
        """The number of the address with the port below it, as in `STREAM`."""
        number = self._numbers.setdefault(_packed_ip(place.ip), len(self._numbers))
        return number << _PORT_BITS | place.port & ((1 << _PORT_BITS) - 1)

    def rows(self) -> NDArray[np.uint8]:
        """All addresses, uint8 (n, 16)."""
        return np.frombuffer(b"".join(self._numbers), dtype=np.uint8).reshape(-1, ADDRESS_BYTES)


def batch_of_rows(rows: Sequence[Row], first_release: int) -> tuple[BusBatch, int]:
    """The batch of *rows*, and the turn of the last of them: rows have their turn in their own order."""
    turns = list(enumerate(rows, first_release + 1))
    messages = [(turn, row) for turn, row in turns if isinstance(row, CapturedMessage)]
    addresses, tables = _Addresses(), new_tables(2 * len(messages) + 1)
    data = np.frombuffer(b"".join(row.raw for _, row in messages), dtype=np.uint8)
    spans, streams = _spans([row for _, row in messages], addresses, tables)
    released = np.array([turn for turn, _ in messages], dtype=np.int64)
    gathered = Gathered(keep_packed=True)
    tables = gathered.add((data, _NO_BYTES, _NO_BYTES), spans, streams, tables, released)
    batch, _ = gathered.batch(tables, addresses.rows())
    batch.events = _events([(turn, row) for turn, row in turns if isinstance(row, ConnectionEvent)], addresses)
    batch.rows = [row for row in rows if not isinstance(row, CapturedMessage | ConnectionEvent)]
    batch.gaps = [(turn, row) for turn, row in turns if isinstance(row, CapturedGap)]
    batch.addresses = addresses.rows()  # with those of events
    return batch, first_release + len(rows)


def _spans(messages: Sequence[CapturedMessage], addresses: _Addresses, tables: Tables) -> tuple[Rows, Streams]:
    """Where messages are that lie one after the other; each has two directions of its own, who sends it and who receives it."""
    count = len(messages)
    spans, directions = new_rows(SPAN, count), new_rows(STREAM, 2 * count)
    spans.length = [len(row.raw) for row in messages]
    spans.at = np.cumsum(spans.length) - spans.length
    spans.row, spans.peer = np.arange(count), np.arange(count, 2 * count)
    origins = [row.origin for row in messages]
    _fill(spans, origins, "ts_ns", "packet", "offset", "direction")
    directions.number[:count] = [origin.stream for origin in origins]
    directions.connection[:count] = [origin.connection for origin in origins]
    directions.flow_a[:count] = [addresses.flow(origin.source) for origin in origins]
    directions.flow_b[:count] = [addresses.flow(origin.target) for origin in origins]
    known = {"": NONE}
    for ids, half in (
        ([row.sender for row in messages], slice(count)),
        ([row.receiver for row in messages], slice(count, None)),
    ):
        for node_id in ids:
            if node_id not in known:
                raw = node_id.encode("latin-1", "replace")[:NODE_ID_BYTES].ljust(NODE_ID_BYTES, b"\0")
                known[node_id] = intern(tables.nodes, np.frombuffer(raw, dtype=np.uint8), 0, NODE_ID_BYTES)
        directions.node[half] = [known[node_id] for node_id in ids]
    return spans, Streams(directions, np.full(1, NO_ROW, dtype=np.int32), np.zeros(4, dtype=np.int64))


def _events(events: Sequence[tuple[int, ConnectionEvent]], addresses: _Addresses) -> Rows:
    made = new_rows(EVENT, len(events))
    origins = [row.origin for _, row in events]
    _fill(made, origins, "ts_ns", "offset", "stream", "connection", "direction")
    made.packet = [turn for turn, _ in events]
    made.tcp_flags = [row.flags & 0xFF for _, row in events]
    for end in ("source", "target"):
        flows = np.array([addresses.flow(getattr(origin, end)) for origin in origins], dtype=np.int64)
        made[end], made[f"{end}_port"] = flows >> _PORT_BITS, flows & ((1 << _PORT_BITS) - 1)
    return made


def _fill(made: Rows, origins: Sequence[Origin], *names: str) -> None:
    for name in names:
        made[name] = [getattr(origin, name) for origin in origins]


def _packed_ip(text: str) -> bytes:
    """An address as kernels keep it; a text that is none becomes the unspecified address."""
    try:
        packed = ipaddress.ip_address(text).packed
    except ValueError:
        return bytes(ADDRESS_BYTES)
    return packed if len(packed) == ADDRESS_BYTES else bytes((IPV4_MARK,)) * (ADDRESS_BYTES - 4) + packed
