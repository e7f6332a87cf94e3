"""Pack raw messages without the slot bitmap of their header, which is most of a message and rarely changes."""

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
"""Cached headers: a node sends one header to many receivers."""
_AT, _END, _BITMAP, _HEADER, _LIGHT = BITMAP_AT, BITMAP_END, SLOT_BITMAP_BYTES, HEADER_BYTES, LIGHT_BIT


def unpack(packed: bytes, bitmap: bytes) -> bytes:
    """Return the message of a packed one and its bitmap (empty for none)."""
    return b"".join((packed[:BITMAP_AT], bitmap, packed[BITMAP_AT:])) if bitmap else packed


def decode_packed(packed: bytes, bitmap: bytes) -> Message:
    """Return `decode_message` of the unpacked message, with its errors."""
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
    """Write all messages packed, consecutively, with their *ends*; return the size; an empty *packed* is only measured."""
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
