"""Values of chosen keys as Arrow columns, one for each kind of value; only those asked for are made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import ARRAY, HASH, KEY_TYPES, LIST, MODULE, SET, STREAM, STRING, ZSET
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.values import Field, ModuleValue, StreamValue, decode_record, id_text, stream_document

BATCH_BYTES = 32 << 20
"""Bytes of records whose values are made at once; one key may take more."""
_ID = pa.string()
_PENDING = pa.struct([("id", _ID), ("delivered_at_ms", pa.int64()), ("deliveries", pa.int64())])
_CONSUMER = pa.struct(
    [("name", pa.binary()), ("seen_at_ms", pa.int64()), ("active_at_ms", pa.int64()), ("pending", pa.list_(_ID))]
)
_GROUP = pa.struct([
    ("name", pa.binary()), ("last_id", _ID), ("entries_read", pa.int64()), ("pending", pa.list_(_PENDING)),
    ("consumers", pa.list_(_CONSUMER)),
])  # fmt: skip
_PAIR = pa.struct([("field", pa.binary()), ("value", pa.binary())])
_STREAM = pa.struct([
    ("entries", pa.list_(pa.struct([("id", _ID), ("fields", pa.list_(_PAIR))]))), ("last_id", _ID), ("entries_added", pa.int64()),
    ("max_deleted_id", _ID), ("groups", pa.list_(_GROUP)),
])  # fmt: skip


class _Kind(NamedTuple):
    """One field of a value: the types of keys that have it, its Arrow type."""

    types: tuple[int, ...]
    arrow: pa.DataType


_KINDS: dict[str, _Kind] = {
    "string": _Kind((STRING,), pa.binary()),
    "text": _Kind((STRING,), pa.string()),
    "list": _Kind((LIST, ARRAY), pa.list_(pa.binary())),
    "set": _Kind((SET,), pa.list_(pa.binary())),
    "zset": _Kind((ZSET,), pa.list_(pa.struct([("member", pa.binary()), ("score", pa.float64())]))),
    "hash": _Kind((HASH,), pa.map_(pa.binary(), pa.binary())),
    "field_expire_at_ms": _Kind((HASH,), pa.map_(pa.binary(), pa.int64())),
    "stream": _Kind((STREAM,), _STREAM),
    "module": _Kind((MODULE,), pa.binary()),
}
VALUE_FIELDS = tuple(_KINDS)
"""Fields of a value; each key has those of its type, the others are null."""


def value_type(fields: Collection[str] = VALUE_FIELDS) -> pa.DataType:
    """The Arrow type of values with these *fields*."""
    return pa.struct([(name, kind.arrow) for name, kind in _KINDS.items() if name in fields])


class ValueColumns:
    """Makes columns of the values of the file that *head* begins; *source* names it in errors.

    With *permissive* a value that cannot be read is null; `unread` counts them.
    """

    def __init__(self, head: RdbHead, *, source: str, permissive: bool = False) -> None:
        self._dialect = head.dialect
        self._source = source
        self.unread = 0
        self._permissive = permissive

    def arrays(
        self, data: NDArray[np.uint8], batch: KeyBatch, fields: Collection[str] = VALUE_FIELDS
    ) -> Iterator[tuple[KeyBatch, pa.StructArray]]:
        """Yield pieces of *batch*, each with its values; *data* are the bytes of the file.

        Raises DecodeError with the offset of a value that cannot be read, unless this is permissive, or that is too large for a column.
        """
        numbers = np.maximum(np.cumsum(batch.serialized_bytes) - 1, 0) // BATCH_BYTES
        for number in np.unique(numbers):
            piece = batch.where(numbers == number)
            yield piece, self._array(data, piece, [name for name in VALUE_FIELDS if name in fields])

    def _array(self, data: NDArray[np.uint8], batch: KeyBatch, fields: Sequence[str]) -> pa.StructArray:
        columns: dict[str, list[Any]] = {name: [None] * len(batch) for name in fields}
        by_type = [[name for name in fields if kind in _KINDS[name].types] for kind in range(len(KEY_TYPES))]
        places = zip(
            *(part.tolist() for part in (batch.type, batch.offset, batch.serialized_bytes, batch.elements)), strict=True
        )
        for row, (kind, begin, size, elements) in enumerate(places):
            if not by_type[kind]:
                continue
            try:
                record = decode_record(
                    data[begin : begin + size].tobytes(), self._dialect, source=self._source, offset=begin
                )
                if isinstance(record.value, list) and len(record.value) != elements:
                    raise DecodeError("its value is not what its header says", offset=begin, source=self._source)
            except DecodeError:
                if not self._permissive:
                    raise
                self.unread += 1
                continue
            for name in by_type[kind]:
                columns[name][row] = _arrow_value(record.value, name)
        try:
            arrays = [pa.array(values, _KINDS[name].arrow) for name, values in columns.items()]
        except pa.ArrowCapacityError as error:
            reason = "values from here on are too large for a column: export them"
            raise DecodeError(reason, offset=int(batch.offset[0]), source=self._source) from error
        return pa.StructArray.from_arrays(arrays, fields=list(value_type(fields)))


def _text(word: bytes) -> str | None:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return None


def _arrow_value(value: object, name: str) -> Any:
    """A decoded value as pyarrow takes it for the field *name*."""
    if isinstance(value, StreamValue):
        return {
            "entries": [
                {"id": id_text(entry.id), "fields": [{"field": field, "value": word} for field, word in
                                                 zip(entry.words[::2], entry.words[1::2], strict=True)]}
                for entry in value.entries
            ],
            **stream_document(value, bytes),
        }  # fmt: skip
    if isinstance(value, ModuleValue):
        return value.data
    if isinstance(value, bytes):
        return _text(value) if name == "text" else value
    assert isinstance(value, list)
    if name == "zset":
        return [{"member": member, "score": score} for member, score in value]
    if name == "hash":
        return [(field.name, field.value) for field in value if isinstance(field, Field)]
    if name == "field_expire_at_ms":
        return [(field.name, field.expire_at_ms) for field in value if field.expire_at_ms >= 0]
    return value
