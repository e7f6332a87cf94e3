"""Decode bus messages to columns, as `wire.bus.decode_message` and `decode_partial` do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import BUS_PORT_STEP
from cluster_core.kernels.bus.packets import Rows
from cluster_core.kernels.bus.streams import Streams
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.interning import Interned, intern, is_row
from cluster_core.kernels.raw_bytes import big16, big32, big64, copy_bytes, word64
from cluster_core.wire import bus
from cluster_core.wire.bus_message import MessageFlag, MessageType

NONE = -1
_ZERO = np.uint64(0)
_HEADER = bus.HEADER_BYTES
_LIGHT = bus.LIGHT_HEADER_BYTES
_GOSSIP = bus.GOSSIP_BYTES
_ID = bus.NODE_ID_BYTES
_IP = bus.IP_BYTES
_BITMAP = bus.SLOT_BITMAP_BYTES
_UPDATE = bus.UPDATE_BYTES
_MODULE_FIXED = bus.MODULE_BYTES
_TYPES = len(bus.TYPE_NAMES)
_EXT_DATA = int(MessageFlag.EXT_DATA)
_MEET = int(MessageType.MEET)
_FAIL = int(MessageType.FAIL)
_PUBLISH = int(MessageType.PUBLISH)
_AUTH_REQUEST = int(MessageType.AUTH_REQUEST)
_AUTH_ACK = int(MessageType.AUTH_ACK)
_UPDATE_TYPE = int(MessageType.UPDATE)
_MFSTART = int(MessageType.MFSTART)
_MODULE = int(MessageType.MODULE)
_PUBLISHSHARD = int(MessageType.PUBLISHSHARD)

_BUS_PORT = BUS_PORT_STEP
UNKNOWN = 5
PARTS = 6
SIZES = 7
UNDERSTOOD = 0
REST_UNKNOWN = 1
BODY_UNKNOWN = 2

NODES_PER_MESSAGE = 3
TEXTS_PER_MESSAGE = 1
BITMAPS_PER_MESSAGE = 2


class Tables(NamedTuple):
    """Tables of distinct values; *last_bitmap* is the bitmap number that a node last claimed, by node number."""

    nodes: Interned
    texts: Interned
    bitmaps: Interned
    last_bitmap: NDArray[np.int32]


@borrowing()
def _scan_extensions(data: NDArray[np.uint8], at: int, end: int, count: int) -> tuple[int, int]:
    """Return the number of complete extension records and the end of reading, as `decode_extensions` does."""
    for index in range(count):
        if end - at < 8:
            return index, at
        length = big32(data, at)
        if length < 8 or length & 7 or length > end - at:
            return index, at
        at += length
    return count, at


@borrowing()
def _measure_gossip(data: NDArray[np.uint8], at: int, end: int, sizes: NDArray[np.int64]) -> None:
    """Measure gossip, as `bus._decode_gossip` does."""
    start = at + _HEADER
    count = big16(data, at + 14)
    whole = min(count, (end - start) // _GOSSIP)
    stop = start + whole * _GOSSIP
    extensions = big16(data, at + 2214)
    short = whole < count
    if not short and extensions > 0 and data[at + 2253] & _EXT_DATA:
        read, after = _scan_extensions(data, stop, end, extensions)
        sizes[1] = read
        sizes[2] = after - stop - 8 * read
        stop = after
        short = read < extensions
    sizes[0] = whole
    sizes[UNKNOWN] = end - stop
    sizes[PARTS] = REST_UNKNOWN if short or stop < end else UNDERSTOOD


@borrowing()
def measure(data: NDArray[np.uint8], at: int, length: int, sizes: NDArray[np.int64]) -> None:
    """Find the parts of one message, as `decode_body` does.

    *sizes* receives gossip entries, extensions, bytes of extension data, channel and payload, unknown bytes; and
    `UNDERSTOOD`, `REST_UNKNOWN` or `BODY_UNKNOWN`.
    """
    sizes[:] = 0
    end = at + length
    kind = big16(data, at + 12)
    light = kind & 0x8000 != 0
    kind &= 0x7FFF
    start = at + (_LIGHT if light else _HEADER)
    is_cut = big32(data, at + 4) > length
    sizes[UNKNOWN] = max(0, end - start)
    sizes[PARTS] = BODY_UNKNOWN
    if is_cut and (light or length < _HEADER):
        return
    size = end - start
    used = np.int64(-1)
    if not light and kind <= _MEET:
        _measure_gossip(data, at, end, sizes)
    elif kind in (_PUBLISH, _PUBLISHSHARD):
        if size >= 8 and 8 + big32(data, start) + big32(data, start + 4) <= size:
            sizes[3], sizes[4] = big32(data, start), big32(data, start + 4)
            used = 8 + sizes[3] + sizes[4]
    elif kind == _MODULE:
        if size >= _MODULE_FIXED and _MODULE_FIXED + big32(data, start + 8) <= size:
            sizes[4] = big32(data, start + 8)
            used = _MODULE_FIXED + sizes[4]
    elif light:
        pass
    elif kind == _FAIL and size >= _ID:
        used = np.int64(_ID)
    elif kind == _UPDATE_TYPE and size >= _UPDATE:
        used = np.int64(_UPDATE)
    elif kind in (_AUTH_REQUEST, _AUTH_ACK, _MFSTART):
        used = np.int64(0)
    if used >= 0:
        sizes[UNKNOWN] = size - used
        sizes[PARTS] = REST_UNKNOWN if used < size else UNDERSTOOD
    if is_cut and sizes[PARTS] == UNDERSTOOD:
        sizes[PARTS] = REST_UNKNOWN


@borrowing(inline="always")
def _bitmap_of(tables: Tables, node: int, data: NDArray[np.uint8], at: int) -> int:
    """Return the number of a bitmap; the node's last one is compared first, as it rarely changes."""
    last = np.int64(tables.last_bitmap[node])
    if last >= 0 and is_row(tables.bitmaps, last, data, at, _BITMAP):
        return last  # type: ignore[return-value]
    number = intern(tables.bitmaps, data, at, _BITMAP)
    tables.last_bitmap[node] = number
    return int(number)


@borrowing(inline="always")
def _is_zero(data: NDArray[np.uint8], at: int, width: int) -> bool:
    """Return whether *width* bytes, at least 8, are all zero."""
    total = word64(data, at + width - 8)
    for word in range(width >> 3):
        total |= word64(data, at + 8 * word)
    return bool(total == _ZERO)


@borrowing(inline="always")
def _fill_header(
    data: NDArray[np.uint8],
    at: int,
    length: int,
    row: int,
    out: Rows,
    tables: Tables,
    streams: Streams,
    stream: int,
) -> None:
    """Write the columns of a full header, as far as captured, and set the direction's sender."""
    out[row].port = big16(data, at + 10)
    out[row].count = big16(data, at + 14)
    if length < 16 + 24 + _ID:
        return
    out[row].current_epoch = big64(data, at + 16)
    out[row].config_epoch = big64(data, at + 24)
    out[row].repl_offset = big64(data, at + 32)
    node = np.int64(streams.rows[stream].node)
    if node < 0 or not is_row(tables.nodes, node, data, at + 40, _ID):
        node = intern(tables.nodes, data, at + 40, _ID)
        streams.rows[stream].node = node
    if length < _HEADER:
        if out[row].direction < 0:  # the header's own bus port is missing: use the default (R1)
            out[row].direction = 1 if out[row].port + _BUS_PORT == out[row].source_port else 0
        return
    out[row].slots = _bitmap_of(tables, node, data, at + 80)
    if data[at + 2128] or not _is_zero(data, at + 2128, _ID):
        out[row].replicaof = intern(tables.nodes, data, at + 2128, _ID)
    if data[at + 2168] or not _is_zero(data, at + 2168, _IP):
        out[row].myip = intern(tables.texts, data, at + 2168, _IP)
    out[row].extensions = big16(data, at + 2214)
    out[row].pport = big16(data, at + 2246)
    out[row].cport = big16(data, at + 2248)
    out[row].node_flags = big16(data, at + 2250)
    out[row].state = data[at + 2252]
    mflags = np.int64(data[at + 2253]) | np.int64(data[at + 2254]) << 8 | np.int64(data[at + 2255]) << 16
    out[row].mflags = mflags
    if out[row].direction < 0:
        out[row].direction = 1 if out[row].cport == out[row].source_port else 0


@borrowing(inline="always")
def _fill_gossip(
    data: NDArray[np.uint8], start: int, count: int, row: int, first: int, out: Rows, tables: Tables
) -> None:
    for index in range(count):
        at = start + index * _GOSSIP
        entry = first + index
        out[entry].message = row
        out[entry].node = intern(tables.nodes, data, at, _ID)
        out[entry].ping_sent_s = big32(data, at + 40)
        out[entry].pong_received_s = big32(data, at + 44)
        out[entry].ip = NONE
        if data[at + 48] or not _is_zero(data, at + 48, _IP):
            out[entry].ip = intern(tables.texts, data, at + 48, _IP)
        out[entry].port = big16(data, at + 94)
        out[entry].cport = big16(data, at + 96)
        out[entry].node_flags = big16(data, at + 98)
        out[entry].pport = big16(data, at + 100)


@borrowing(inline="always")
def _fill_extensions(
    data: NDArray[np.uint8], at: int, count: int, row: int, first: int, out: Rows, blob: NDArray[np.uint8]
) -> None:
    top = out[first - 1].data_end if first > 0 else np.int64(0)
    for index in range(count):
        length = big32(data, at)
        out[first + index].message = row
        out[first + index].type = big16(data, at + 4)
        out[first + index].unused = big16(data, at + 6)
        copy_bytes(blob, top, data, at + 8, length - 8)
        top += length - 8
        out[first + index].data_end = top
        at += length


@borrowing(inline="always")
def _fill_body(
    data: NDArray[np.uint8], start: int, row: int, out: Rows, tables: Tables, blob: NDArray[np.uint8]
) -> None:
    """Write the columns of a complete body."""
    kind = out[row].type
    if kind == _FAIL:
        out[row].subject = intern(tables.nodes, data, start, _ID)
    elif kind == _UPDATE_TYPE:
        out[row].body_epoch = big64(data, start)
        out[row].subject = intern(tables.nodes, data, start + 8, _ID)
        out[row].body_slots = intern(tables.bitmaps, data, start + 8 + _ID, _BITMAP)
    elif kind in (_PUBLISH, _PUBLISHSHARD):
        top = out[row].channel_end
        channel = big32(data, start)
        copy_bytes(blob, top, data, start + 8, channel)
        out[row].channel_end = top + channel


@borrowing()
def fill(
    window: NDArray[np.uint8],
    side: NDArray[np.uint8],
    plain: NDArray[np.uint8],
    spans: Rows,
    start: int,
    first: int,
    streams: Streams,
    tables: Tables,
    messages: Rows,
    gossip: Rows,
    extensions: Rows,
    channel_data: NDArray[np.uint8],
    extension_data: NDArray[np.uint8],
    tops: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> int:
    """Decode messages from *start* on; return the first one without room in a table or column, or their number.

    The first becomes row *first* of the columns. *tops* counts gossip entries and extensions; *sizes* is for `measure`, and
    holds the sizes of the message without room.
    """
    for index in range(start, spans.shape[0]):
        row = first + index
        buffer = spans[index].buffer
        data = window if buffer == 0 else side if buffer == 1 else plain
        at, length = spans[index].at, spans[index].length
        measure(data, at, length, sizes)
        channel_end = messages[row - 1].channel_end if row > 0 else np.int64(0)
        data_end = extensions[tops[1] - 1].data_end if tops[1] > 0 else np.int64(0)
        if (
            tops[0] + sizes[0] > gossip.shape[0]
            or tops[1] + sizes[1] > extensions.shape[0]
            or data_end + sizes[2] > extension_data.shape[0]
            or channel_end + sizes[3] > channel_data.shape[0]
        ):
            return index
        if (
            tables.nodes.used[0] + NODES_PER_MESSAGE + sizes[0] > tables.nodes.data.shape[0] // _ID
            or tables.texts.used[0] + TEXTS_PER_MESSAGE + sizes[0] > tables.texts.data.shape[0] // _IP
            or tables.bitmaps.used[0] + BITMAPS_PER_MESSAGE > tables.bitmaps.data.shape[0] // _BITMAP
        ):
            return index
        stream, peer = spans[index].row, spans[index].peer
        kind = big16(data, at + 12)
        light = kind & 0x8000 != 0
        messages[row].ts_ns = spans[index].ts_ns
        messages[row].packet = spans[index].packet
        messages[row].offset = spans[index].offset
        messages[row].stream = streams.rows[stream].number
        messages[row].connection = streams.rows[stream].connection
        messages[row].direction = spans[index].direction
        messages[row].source = streams.rows[stream].flow_a >> 16
        messages[row].source_port = streams.rows[stream].flow_a & 0xFFFF
        messages[row].target = streams.rows[stream].flow_b >> 16
        messages[row].target_port = streams.rows[stream].flow_b & 0xFFFF
        messages[row].captured = length
        messages[row].totlen = big32(data, at + 4)
        messages[row].type = kind & 0x7FFF
        messages[row].light = light
        messages[row].ver = big16(data, at + 8)
        messages[row].slots = NONE
        messages[row].replicaof = NONE
        messages[row].myip = NONE
        messages[row].subject = NONE
        messages[row].body_slots = NONE
        messages[row].channel_end = channel_end
        if not light:
            _fill_header(data, at, length, row, messages, tables, streams, stream)
        messages[row].sender = streams.rows[stream].node
        messages[row].receiver = streams.rows[peer].node if peer >= 0 else NONE
        body = at + (_LIGHT if light else _HEADER)
        if sizes[PARTS] != BODY_UNKNOWN:
            if sizes[0]:
                _fill_gossip(data, body, sizes[0], row, tops[0], gossip, tables)
                tops[0] += sizes[0]
            if sizes[1]:
                _fill_extensions(data, body + sizes[0] * _GOSSIP, sizes[1], row, tops[1], extensions, extension_data)
                tops[1] += sizes[1]
            if light or messages[row].type > _MEET:
                _fill_body(data, body, row, messages, tables, channel_data)
        messages[row].payload_bytes = sizes[4]
        messages[row].unknown_bytes = sizes[UNKNOWN]
        messages[row].understood = sizes[PARTS] == UNDERSTOOD
    return spans.shape[0]  # type: ignore[no-any-return]
