"""Convert a `BusBatch` to Arrow columns: numbers of tables to texts, missing values to null."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import (
    INITIATOR,
    UNSEEN,
)
from cluster_core.formats.capture.link_layers import address_text
from cluster_core.kernels.bus.batch import BusBatch, packed_address, text_of
from cluster_core.kernels.key_batch import bits
from cluster_core.wire.bus import HEADER_BYTES, LIGHT_HEADER_BYTES, TYPE_NAMES, type_name
from cluster_core.wire.bus_message import NODE_ID_BYTES, SHARD_ID, MessageType

EPOCH = pa.decimal128(20, 0)
INSTANT = pa.timestamp("us", tz="UTC")
SENDER_END = LIGHT_HEADER_BYTES + 64
"""Minimum captured bytes of a header with sender and epochs (R3)."""

Mask = NDArray[np.bool_]
_SMALL, _LARGE = pa.int32(), pa.int64()
_OFFSET_MAX = 2**31 - 1
_PAYLOAD_TYPES = (int(MessageType.PUBLISH), int(MessageType.MODULE), int(MessageType.PUBLISHSHARD))
_CHANNEL_TYPES = (int(MessageType.PUBLISH), int(MessageType.PUBLISHSHARD))


class TextTable:
    """Texts of a batch's table, each decoded once; a renumbered table is read again."""

    def __init__(self, decode: Callable[[NDArray[np.uint8]], str] = text_of) -> None:
        self._decode = decode
        self._rows: NDArray[np.uint8] = np.zeros((0, 1), dtype=np.uint8)
        self.texts: list[str] = []

    def read(self, rows: NDArray[np.uint8]) -> list[str]:
        """Return the texts of *rows*, uint8 (n, width)."""
        known = len(self.texts)
        if not np.array_equal(rows[:known], self._rows[:known]):  # shorter, or renumbered
            known, self.texts = 0, []
        self.texts += [self._decode(row) for row in rows[known:]]
        self._rows = rows
        return self.texts


def address_of(row: NDArray[np.uint8]) -> str:
    """Return the text of an IP address as kernels keep it."""
    return address_text(packed_address(row))


def marks(valid: Mask | None) -> pa.Buffer | None:
    """Return a mask as Arrow's validity bits; None without nulls."""
    return None if valid is None or valid.all() else bits(valid)


class Dictionary(NamedTuple):
    """Texts by number; *width* is their common length in bytes, 0 if lengths differ."""

    texts: pa.Array
    width: int


def dictionary(texts: list[str]) -> Dictionary:
    """Return the dictionary for `texts_at`."""
    made = pa.array(texts or [""], pa.string())
    ends = np.frombuffer(made.buffers()[1], dtype=np.int32, count=len(made) + 1)
    width = int(ends[1])
    return Dictionary(made, width if (np.diff(ends) == width).all() else 0)


def texts_at(known: Dictionary, numbers: NDArray[np.int32]) -> pa.Array:
    """Return texts by number; null for negative numbers."""
    is_known = numbers >= 0
    if not is_known.any():
        return pa.nulls(len(numbers), pa.string())
    texts, width = known
    if width and len(numbers) * width <= _OFFSET_MAX and is_known.all():
        rows = np.frombuffer(texts.buffers()[2], dtype=f"V{width}", count=len(texts))
        return _even_texts(rows.take(numbers), len(numbers), width)
    return texts.take(integers(numbers, _SMALL, marks(is_known)))


def _even_texts(data: Any, count: int, width: int) -> pa.Array:
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def one_text(text: str, count: int) -> pa.Array:
    """Return the same text *count* times."""
    raw = text.encode()
    if not raw or len(raw) * count > _OFFSET_MAX:
        return dictionary([text]).texts.take(pa.array(np.zeros(count, np.int32)))
    return _even_texts(raw * count, count, len(raw))


def instants(ts_ns: NDArray[np.int64]) -> pa.Array:
    """Return times in ns as timestamps of microseconds."""
    return integers(ts_ns // 1000, INSTANT)


def unsigned(values: NDArray[np.uint64], valid: pa.Buffer | None) -> pa.Array:
    """Return unsigned 64-bit numbers as decimals: 128 bits each, the lower half first."""
    wide = np.zeros((len(values), 2), dtype="<u8")
    wide[:, 0] = values
    return pa.Array.from_buffers(EPOCH, len(values), [valid, pa.py_buffer(wide)])


def integers(values: NDArray[Any], kind: pa.DataType, valid: pa.Buffer | None = None) -> pa.Array:
    """Return numbers as *kind*, of 32 or 64 bits; null by `marks`."""
    plain = np.ascontiguousarray(values, dtype=np.int32 if kind.bit_width == 32 else np.int64)
    return pa.Array.from_buffers(kind, len(plain), [valid, pa.py_buffer(plain)])


def booleans(values: Mask, valid: pa.Buffer | None = None) -> pa.Array:
    """Return truth values as Arrow booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [valid, bits(values)])


def message_columns(
    batch: BusBatch,
    *,
    first_id: int,
    bitmap_ids: NDArray[np.int64],
    file: str | pa.Array,
    nodes: list[str],
    texts: list[str],
    addresses: list[str],
) -> dict[str, pa.Array]:
    """Return the columns of ``schemas.history.MESSAGE_FIELDS`` by name.

    *bitmap_ids*: numbers of the batch's bitmaps in the snapshot; *nodes*, *texts*, *addresses*: its tables; *file*: of all
    messages, or of each.
    """
    at = batch.messages.view(np.ndarray)
    count = len(batch)
    captured, light, direction = at["captured"], at["light"], at["direction"]
    named = marks(~light & (captured >= SENDER_END))
    full = marks(~light & (captured >= HEADER_BYTES))
    kinds = at["type"].astype(np.int32)
    nodes_by, addresses_by = dictionary(nodes), dictionary(addresses)
    ids = np.concatenate((bitmap_ids, np.full(1, -1, np.int64)))
    slots, body = ids[at["slots"]], ids[at["body_slots"]]
    has_body = marks(body >= 0)
    return {
        "message_id": integers(np.arange(first_id, first_id + count), _LARGE),
        "ts": instants(at["ts_ns"]),
        "ts_ns": integers(at["ts_ns"], _LARGE),
        "packet": integers(at["packet"], _LARGE),
        "offset": integers(at["offset"], _LARGE),
        "connection": integers(at["connection"], _LARGE),
        "from_opener": booleans(direction == INITIATOR, marks(direction != UNSEEN)),
        "source_ip": texts_at(addresses_by, at["source"]),
        "source_port": integers(at["source_port"], _SMALL),
        "target_ip": texts_at(addresses_by, at["target"]),
        "target_port": integers(at["target_port"], _SMALL),
        "captured_bytes": integers(captured, _SMALL),
        "total_bytes": integers(at["totlen"], _LARGE),
        "type": _type_names(kinds),
        "type_number": integers(kinds, _SMALL),
        "light": booleans(light),
        "version": integers(at["ver"], _SMALL),
        "sender": texts_at(nodes_by, at["sender"]),
        "receiver": texts_at(nodes_by, at["receiver"]),
        "port": integers(at["port"], _SMALL, marks(~light)),
        "count": integers(at["count"], _SMALL),
        "current_epoch": unsigned(at["current_epoch"], named),
        "config_epoch": unsigned(at["config_epoch"], named),
        "repl_offset": unsigned(at["repl_offset"], named),
        "bitmap_id": integers(slots, _LARGE, marks(slots >= 0)),
        "replicaof": texts_at(nodes_by, at["replicaof"]),
        "myip": texts_at(dictionary(texts), at["myip"]),
        "extensions": integers(at["extensions"], _SMALL),
        "shard_id": _shard_ids(batch),
        "pport": integers(at["pport"], _SMALL, full),
        "cport": integers(at["cport"], _SMALL, full),
        "node_flags": integers(at["node_flags"], _SMALL, full),
        "state": integers(at["state"], _SMALL, full),
        "mflags": integers(at["mflags"], _SMALL, full),
        "subject": texts_at(nodes_by, at["subject"]),
        "body_epoch": unsigned(at["body_epoch"], has_body),
        "body_bitmap_id": integers(body, _LARGE, has_body),
        "channel": _channels(batch.channel_data, at["channel_end"], kinds),
        "payload_bytes": integers(at["payload_bytes"], _LARGE, marks(_is_one_of(kinds, _PAYLOAD_TYPES))),
        "unknown_bytes": integers(at["unknown_bytes"], _LARGE),
        "understood": booleans(at["understood"]),
        "file": one_text(file, count) if isinstance(file, str) else file,
    }


def _shard_ids(batch: BusBatch) -> pa.Array:
    """Return the shard id in each message's extensions (R65), or null."""
    rows, count = batch.extensions.view(np.ndarray), len(batch)
    ends = rows["data_end"]
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    has = (rows["type"] == SHARD_ID) & (ends - starts >= NODE_ID_BYTES)
    messages, starts = rows["message"][has], starts[has]
    if not len(messages):
        return pa.nulls(count, pa.string())
    first = np.concatenate((np.ones(1, np.bool_), messages[1:] != messages[:-1]))
    messages, starts = messages[first], starts[first]
    data = np.ascontiguousarray(batch.extension_data)
    windows = np.ndarray((len(data) - NODE_ID_BYTES + 1,), f"V{NODE_ID_BYTES}", data, strides=(1,))
    ids = windows[starts].view(np.uint8).reshape(-1, NODE_ID_BYTES)
    valid = np.zeros(count, np.bool_)
    valid[messages] = True
    if ids.max() >= 0x80 or not ids.all():  # no server sends these: texts of several lengths
        texts = iter([text_of(row) for row in ids])
        return pa.array([next(texts) if is_given else None for is_given in valid], pa.string())
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(valid, out=offsets[1:])
    offsets *= NODE_ID_BYTES
    return pa.Array.from_buffers(pa.string(), count, [bits(valid), pa.py_buffer(offsets), pa.py_buffer(ids)])


def _is_one_of(kinds: NDArray[np.int32], types: tuple[int, ...]) -> Mask:
    matches = np.zeros(len(kinds), dtype=np.bool_)
    for kind in types:
        matches |= kinds == kind
    return matches


def _type_names(kinds: NDArray[np.int32]) -> pa.Array:
    """Return names of types, also of unknown ones."""
    if not len(kinds) or kinds.max() < len(TYPE_NAMES):
        return texts_at(_known_names(), kinds)
    distinct, which = np.unique(kinds, return_inverse=True)
    return texts_at(dictionary([type_name(int(kind)) for kind in distinct]), which.astype(np.int32))


@cache
def _known_names() -> Dictionary:
    return dictionary([type_name(kind) for kind in range(len(TYPE_NAMES))])


def _channels(data: NDArray[np.uint8], ends: NDArray[np.int64], kinds: NDArray[np.int32]) -> pa.Array:
    """Return channels of PUBLISH and PUBLISHSHARD; null in other messages."""
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    valid = bits(_is_one_of(kinds, _CHANNEL_TYPES))
    return pa.Array.from_buffers(pa.binary(), len(ends), [valid, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])


def gossip_columns(batch: BusBatch, *, first_id: int, nodes: list[str], texts: list[str]) -> dict[str, pa.Array]:
    """Return the columns of ``schemas.history.GOSSIP_FIELDS`` by name."""
    at = batch.gossip.view(np.ndarray)
    messages = at["message"]
    first = np.searchsorted(messages, messages, side="left")
    return {
        "message_id": integers(messages + first_id, _LARGE),
        "entry": integers(np.arange(len(messages)) - first, _SMALL),
        "node_id": texts_at(dictionary(nodes), at["node"]),
        "ping_sent_s": integers(at["ping_sent_s"], _LARGE),
        "pong_received_s": integers(at["pong_received_s"], _LARGE),
        "ip": texts_at(dictionary([*texts, ""]), np.where(at["ip"] < 0, len(texts), at["ip"])),
        "port": integers(at["port"], _SMALL),
        "cport": integers(at["cport"], _SMALL),
        "pport": integers(at["pport"], _SMALL),
        "node_flags": integers(at["node_flags"], _SMALL),
    }
