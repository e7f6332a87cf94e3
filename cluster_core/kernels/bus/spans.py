"""Messages whose bytes lie in buffers to a batch: their columns, and the tables of values that these refer to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.batch import EVENT, EXTENSION, GOSSIP, MESSAGE, BusBatch
from cluster_core.kernels.bus.messages import (
    BITMAPS_PER_MESSAGE,
    NODES_PER_MESSAGE,
    SIZES,
    TEXTS_PER_MESSAGE,
    Tables,
    fill,
    measure_all,
)
from cluster_core.kernels.bus.packets import ADDRESS_BYTES, Rows, new_rows, rows_to_fill
from cluster_core.kernels.bus.packing import pack_all
from cluster_core.kernels.bus.streams import Streams
from cluster_core.kernels.interning import grown, new_interned
from cluster_core.wire.bus import IP_BYTES, NODE_ID_BYTES, SLOT_BITMAP_BYTES

Buffers = tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]
"""The window, the side buffer, what the plain code found: `SPAN` says in which a message is."""


def new_tables(nodes: int) -> Tables:
    """Empty tables, with room for so many *nodes*."""
    table = new_interned(NODE_ID_BYTES, nodes)
    texts, bitmaps = new_interned(IP_BYTES, nodes), new_interned(SLOT_BITMAP_BYTES, 512)
    return Tables(table, texts, bitmaps, np.full(table.capacity, -1, dtype=np.int32))


def batch_of_spans(
    buffers: Buffers, spans: Rows, streams: Streams, tables: Tables, *, keep_packed: bool
) -> tuple[BusBatch, Tables]:
    """Decode *spans* in their order: a batch without addresses, events and other rows, and the tables, which may have grown."""
    count = len(spans)
    sizes, totals = np.zeros((2, SIZES), dtype=np.int64)
    measure_all(*buffers, spans, 0, count, sizes, totals)
    messages = new_rows(MESSAGE, count)
    gossip = rows_to_fill(GOSSIP, int(totals[0]))
    extensions = rows_to_fill(EXTENSION, int(totals[1]))
    extension_data = np.zeros(int(totals[2]), dtype=np.uint8)
    channel_data = np.zeros(int(totals[3]), dtype=np.uint8)
    tops = np.zeros(2, dtype=np.int64)
    done = 0
    while done < count:
        done = fill(
            *(*buffers, spans, done, count, streams, tables),
            *(messages, gossip, extensions, channel_data, extension_data, tops, sizes),
        )
        if done < count:
            tables = _grown(tables, int(sizes[0]))
    odd = {
        int(row): buffers[spans.buffer[row]][spans.at[row] : spans.at[row] + spans.length[row]].tobytes()
        for row in np.flatnonzero(~messages.understood & (messages.captured == messages.totlen))
    }
    packed_ends = np.zeros(count if keep_packed else 0, dtype=np.int64)
    packed = np.zeros(0, dtype=np.uint8)
    if keep_packed and count:
        packed = np.empty(pack_all(*buffers, spans, packed_ends, packed), dtype=np.uint8)
        pack_all(*buffers, spans, packed_ends, packed)
    batch = BusBatch(
        *(messages, gossip, extensions, new_rows(EVENT, 0), channel_data, extension_data),
        *(
            tables.nodes.rows(),
            tables.texts.rows(),
            tables.bitmaps.rows(),
            np.zeros((0, ADDRESS_BYTES), dtype=np.uint8),
        ),
        odd=odd,
        packed=packed,
        packed_ends=packed_ends,
    )
    return batch, tables


def _grown(tables: Tables, entries: int) -> Tables:
    """*tables* with room for a message of so many gossip *entries*."""
    nodes = grown(tables.nodes, NODES_PER_MESSAGE + entries)
    texts = grown(tables.texts, TEXTS_PER_MESSAGE + entries)
    last = np.full(nodes.capacity, -1, dtype=np.int32)
    last[: len(tables.last_bitmap)] = tables.last_bitmap
    return Tables(nodes, texts, grown(tables.bitmaps, BITMAPS_PER_MESSAGE), last)
