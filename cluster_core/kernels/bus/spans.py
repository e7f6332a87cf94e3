"""Convert messages in buffers to a batch: columns and tables of values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import CapturedGap, Row
from cluster_core.kernels.bus.batch import EVENT, EXTENSION, GOSSIP, MESSAGE, BusBatch
from cluster_core.kernels.bus.messages import (
    BITMAPS_PER_MESSAGE,
    NODES_PER_MESSAGE,
    SIZES,
    TEXTS_PER_MESSAGE,
    Tables,
    fill,
)
from cluster_core.kernels.bus.packets import Rows, new_rows, rows_to_fill
from cluster_core.kernels.bus.packing import pack_all
from cluster_core.kernels.bus.streams import Streams
from cluster_core.kernels.interning import grown, new_interned
from cluster_core.wire.bus import IP_BYTES, NODE_ID_BYTES, SLOT_BITMAP_BYTES

Buffers = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]
"""The window, the side buffer, the plain code's buffer; `SPAN` has the index of a message's buffer."""
_ROOM_AT_FIRST = (1 << 14, 1 << 16, 1 << 14, 1 << 20, 1 << 16)
"""Initial room of messages, gossip entries, extensions, bytes of extension data and of channels."""
_NO_BYTES = np.zeros(0, dtype=np.uint8)
_NO_NUMBERS = np.zeros(0, dtype=np.int64)


def new_tables(nodes: int) -> Tables:
    """Return empty tables with room for *nodes* nodes."""
    table = new_interned(NODE_ID_BYTES, nodes)
    texts, bitmaps = new_interned(IP_BYTES, nodes), new_interned(SLOT_BITMAP_BYTES, 512)
    return Tables(table, texts, bitmaps, np.full(table.capacity, -1, dtype=np.int32))


class MessageCollector:
    """Collects decoded messages for one batch; *keep_packed* keeps their bytes, too.

    *stretches* counts additions; *rows*, *gaps* and *events* are filled by callers.
    """

    def __init__(self, *, keep_packed: bool) -> None:
        self._keep_packed = keep_packed
        self._room: tuple[int, ...] = _ROOM_AT_FIRST
        self._begin()

    def _begin(self) -> None:
        messages, gossip, extensions, extension_bytes, channel_bytes = self._room
        self._messages = new_rows(MESSAGE, messages)
        self._gossip, self._extensions = rows_to_fill(GOSSIP, gossip), rows_to_fill(EXTENSION, extensions)
        self._extension_data = np.empty(extension_bytes, dtype=np.uint8)
        self._channel_data = np.empty(channel_bytes, dtype=np.uint8)
        self._tops, self._sizes = np.zeros(2, dtype=np.int64), np.zeros(SIZES, dtype=np.int64)
        self._count = self.stretches = 0
        self._packed, self._packed_ends = [_NO_BYTES], [_NO_NUMBERS]
        self._released = [_NO_NUMBERS]
        self.rows: list[Row] = []
        self.gaps: list[tuple[int, CapturedGap]] = []
        self.events = [new_rows(EVENT, 0)]

    def __len__(self) -> int:
        return self._count

    def add(
        self, buffers: Buffers, spans: NDArray[np.void], streams: Streams, tables: Tables, released: NDArray[np.int64]
    ) -> Tables:
        """Decode *spans* in order, each *released* with a packet; return the tables, which may have grown."""
        first, count, done = self._count, len(spans), 0
        if first + count > len(self._messages):
            self._messages = _longer(self._messages, new_rows(MESSAGE, 2 * (first + count)), first)
        while done < count:
            done = fill(
                *(*buffers, spans, done, first, streams, tables),
                *(self._messages, self._gossip, self._extensions, self._channel_data, self._extension_data),
                *(self._tops, self._sizes),
            )
            if done < count:
                self._make_room(first + done)
                tables = _grown(tables, int(self._sizes[0]))
        self._count += count
        self.stretches += 1
        self._released.append(released)
        if self._keep_packed and count:
            ends = np.zeros(count, dtype=np.int64)
            packed = np.empty(pack_all(*buffers, spans, ends, _NO_BYTES), dtype=np.uint8)
            pack_all(*buffers, spans, ends, packed)
            self._packed_ends.append(ends + sum(map(len, self._packed)))
            self._packed.append(packed)
        return tables

    def batch(self, tables: Tables, addresses: NDArray[np.uint8]) -> BusBatch:
        """Return the entries added since the last batch."""
        count, (entries, records) = self._count, self._tops.tolist()
        messages, extensions = _first(self._messages, count), _first(self._extensions, records)
        channel_end = int(messages.channel_end[-1]) if count else 0
        data_end = int(extensions.data_end[-1]) if records else 0
        batch = BusBatch(
            *(messages, _first(self._gossip, entries), extensions, _joined(self.events).view(np.recarray)),
            *(self._channel_data[:channel_end], self._extension_data[:data_end]),
            *(tables.nodes.rows(), tables.texts.rows(), tables.bitmaps.rows(), addresses),
            rows=self.rows,
            released=_joined(self._released),
            packed=_joined(self._packed),
            packed_ends=_joined(self._packed_ends),
            gaps=self.gaps,
        )
        used = (count, entries, records, data_end, channel_end)
        self._room = tuple(max(least, now + now // 8) for least, now in zip(_ROOM_AT_FIRST, used, strict=True))
        self._begin()
        return batch

    def _make_room(self, row: int) -> None:
        """Make room in all columns for the message at *row*."""
        entries, records = self._tops.tolist()
        more_entries, more_records, more_data, more_channel = self._sizes[:4].tolist()
        channel_end = int(self._messages.channel_end[row - 1]) if row else 0
        data_end = int(self._extensions.data_end[records - 1]) if records else 0
        if entries + more_entries > len(self._gossip):
            self._gossip = _longer(self._gossip, rows_to_fill(GOSSIP, 2 * (entries + more_entries)), entries)
        if records + more_records > len(self._extensions):
            self._extensions = _longer(self._extensions, rows_to_fill(EXTENSION, 2 * (records + more_records)), records)
        if data_end + more_data > len(self._extension_data):
            room = np.empty(2 * (data_end + more_data), dtype=np.uint8)
            self._extension_data = _longer(self._extension_data, room, data_end)
        if channel_end + more_channel > len(self._channel_data):
            room = np.empty(2 * (channel_end + more_channel), dtype=np.uint8)
            self._channel_data = _longer(self._channel_data, room, channel_end)


def _first(rows: Rows, count: int) -> Any:
    return rows[:count]


def _longer(column: Any, room: Any, used: int) -> Any:
    """Copy the first *used* values of *column* to the longer *room*."""
    room[:used] = column[:used]
    return room


def _joined(parts: list[Any]) -> Any:
    """Concatenate all parts; the first is empty."""
    return parts[-1] if len(parts) <= 2 else np.concatenate(parts)


def _grown(tables: Tables, entries: int) -> Tables:
    """Return *tables* with room for a message of *entries* gossip entries."""
    nodes = grown(tables.nodes, NODES_PER_MESSAGE + entries)
    texts = grown(tables.texts, TEXTS_PER_MESSAGE + entries)
    last = np.full(nodes.capacity, -1, dtype=np.int32)
    last[: len(tables.last_bitmap)] = tables.last_bitmap
    return Tables(nodes, texts, grown(tables.bitmaps, BITMAPS_PER_MESSAGE), last)
