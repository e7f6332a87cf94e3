"""Raw messages without the slot bitmap of their header: nine tenths of most messages, and nearly always the same.

`pack_all` takes the bitmaps out, `unpack` puts one back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.packets import Rows
from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.raw_bytes import big16, copy_bytes
from cluster_core.wire.bus import (
    GOSSIP_TYPES,
    HEADER_BYTES,
    LIGHT_BIT,
    SLOT_BITMAP_BYTES,
    Header,
    Message,
    decode_gossip,
    decode_header,
    decode_message,
)

BITMAP_AT: Final = 80
BITMAP_END: Final = BITMAP_AT + SLOT_BITMAP_BYTES
PACKED_HEADER_BYTES: Final = HEADER_BYTES - SLOT_BITMAP_BYTES
HEADERS_CACHED: Final = 1 << 12
"""A node sends one header to many, until a second or an offset has passed."""
_AT, _END, _BITMAP, _HEADER, _LIGHT = BITMAP_AT, BITMAP_END, SLOT_BITMAP_BYTES, HEADER_BYTES, LIGHT_BIT


def unpack(packed: bytes, bitmap: bytes) -> bytes:
    """The message of a packed one and its bitmap (empty if it has none)."""
    return b"".join((packed[:BITMAP_AT], bitmap, packed[BITMAP_AT:])) if bitmap else packed


def decode_packed(packed: bytes, bitmap: bytes) -> Message:
    """`decode_message` of what `unpack` gives, with its errors."""
    if bitmap and len(packed) + SLOT_BITMAP_BYTES == int.from_bytes(packed[4:8], "big"):
        header = _packed_header(packed[:PACKED_HEADER_BYTES], bitmap)
        if header.type in GOSSIP_TYPES:
            body, end, reason = decode_gossip(header, packed, len(packed), PACKED_HEADER_BYTES)
            if end == len(packed) and not reason:
                return Message(header, body)
    return decode_message(unpack(packed, bitmap))


@lru_cache(maxsize=HEADERS_CACHED)
def _packed_header(raw: bytes, bitmap: bytes) -> Header:
    return decode_header(unpack(raw, bitmap))


@borrowing()
def pack_all(
    window: NDArray[np.uint8],
    side: NDArray[np.uint8],
    plain: NDArray[np.uint8],
    spans: Rows,
    ends: NDArray[np.int64],
    packed: NDArray[np.uint8],
) -> int:
    """Write all messages packed, one after the other; *ends* gets where each ends.  Returns the bytes used.

    With an empty *packed* it only counts.
    """
    top = np.int64(0)
    write = packed.shape[0] > 0
    for row in range(spans.shape[0]):
        buffer = spans[row].buffer
        data = window if buffer == 0 else side if buffer == 1 else plain
        at, length = spans[row].at, spans[row].length
        if length >= _HEADER and not big16(data, at + 12) & _LIGHT:
            if write:
                copy_bytes(packed, top, data, at, np.int64(_AT))
                copy_bytes(packed, top + _AT, data, at + _END, length - _END)
            top += length - _BITMAP
        else:
            if write:
                copy_bytes(packed, top, data, at, length)
            top += length
        ends[row] = top
    return top  # type: ignore[return-value]
