"""Values of chosen keys as Arrow columns, one for each kind of value; only those asked for are made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb import value_state as at
from cluster_core.rdb.grammar import ARRAY, HASH, LIST, MODULE, SET, STREAM, STRING, ZSET
from cluster_core.rdb.head import RdbHead
from cluster_core.rdb.skim_state import grammar_array
from cluster_core.rdb.value_writing import WORDS_MAX, Keys, write_values
from cluster_core.rdb.values import Field, ModuleValue, StreamValue, decode_record, id_text, stream_document

BATCH_BYTES = 32 << 20
"""Bytes of records whose values are made at once; one key may take more."""
COLUMN_BYTES_MAX = (1 << 31) - 1
_BUFFER_BYTES = 1 << 20
_SCRATCH_BYTES = 1 << 16
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


class _Words(NamedTuple):
    """The words of some keys: an Arrow ``binary`` array, and after how many words each key ends."""

    words: pa.Array
    ends: NDArray[np.int64]


class ValueColumns:
    """Makes columns of the values of the file that *head* begins; *source* names it in errors.

    With *permissive* a value that cannot be read is null; `unread` counts them.
    """

    def __init__(self, head: RdbHead, *, source: str, permissive: bool = False) -> None:
        self._head = head
        self._source = source
        self.unread = 0
        self._permissive = permissive
        self._grammar = grammar_array(head.dialect, head.version, None)

    def pieces(self, batch: KeyBatch) -> Iterator[KeyBatch]:
        """Cut *batch* into some whose values are made at once."""
        ends = np.cumsum(batch.serialized_bytes)
        numbers = np.maximum(ends - 1, 0) // BATCH_BYTES
        for number in np.unique(numbers):
            yield batch.where(numbers == number)

    def array(self, data: NDArray[np.uint8], batch: KeyBatch, fields: Collection[str] = VALUE_FIELDS) -> pa.StructArray:
        """Return the values of *batch*, whose file has the bytes *data*.

        Raises DecodeError with the offset of a value that cannot be read unless this is permissive, and of one that is too large for a column.
        """
        found: dict[str, pa.Array] = {}
        for types, names in (
            ((STRING,), ("string", "text")),
            ((LIST, ARRAY), ("list",)),
            ((SET,), ("set",)),
            ((ZSET,), ("zset",)),
            ((HASH,), ("hash", "field_expire_at_ms")),
            ((STREAM,), ("stream",)),
            ((MODULE,), ("module",)),
        ):
            asked = [name for name in names if name in fields]
            if asked:
                rows = np.flatnonzero(np.isin(batch.type, types))
                for name, array in self._columns(data, batch, rows, types[0], asked).items():
                    found[name] = _spread(array, rows, len(batch))
        arrays = [found[name] for name in VALUE_FIELDS if name in fields]
        return pa.StructArray.from_arrays(arrays, fields=list(value_type(fields)))

    def _columns(
        self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64], kind: int, names: list[str]
    ) -> dict[str, pa.Array]:
        """The fields *names* of the keys *rows*, which are all of type *kind*."""
        if not len(rows) or kind in (STREAM, MODULE):
            return {name: self._decoded(data, batch, rows, name) for name in names}
        words, rare = self._words(data, batch, rows)
        try:
            made = {name: _MAKERS[name](words) for name in names}
        except pa.ArrowInvalid as error:
            raise self._error(batch, int(rows[0]), "a score from here on is no number") from error
        for name, array in made.items() if len(rare) else ():
            own = self._decoded(data, batch, rows[rare], name)
            order = np.arange(len(rows))
            order[rare] = len(rows) + np.arange(len(rare))
            made[name] = pa.concat_arrays([array, own]).take(pa.array(order))
        return made

    def _words(self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64]) -> tuple[_Words, list[int]]:
        """The words of the keys *rows*, and places in *rows* of those that the kernel leaves out, which have none."""
        st: NDArray[np.int64] = np.zeros(at.STATE_LENGTH, np.int64)
        st[at.FORMAT], st[at.DB] = at.WORDS, -1
        out: NDArray[np.uint8] = np.empty(_BUFFER_BYTES, np.uint8)
        scratch: NDArray[np.uint8] = np.empty(_SCRATCH_BYTES, np.uint8)
        counts = np.where(batch.type[rows] == STRING, 1, batch.elements[rows].clip(1))
        ends: NDArray[np.int64] = np.empty(WORDS_MAX * int(counts.sum()), np.int64)
        row_words: NDArray[np.int64] = np.zeros(len(rows), np.int64)
        columns = Keys(*(getattr(batch, name) for name in Keys._fields))
        rare: list[int] = []
        while (
            answer := write_values(data, columns, rows, self._grammar, st, out, ends, row_words, scratch)
        ) != at.DONE:
            row = int(st[at.ROW])
            if answer == at.SCRATCH:
                scratch = np.empty(int(st[at.WANT]), np.uint8)
            elif answer == at.FULL and st[at.WANT]:
                size = max(2 * len(out), len(out) + int(st[at.WANT]))
                if int(st[at.OUT]) + int(st[at.WANT]) > COLUMN_BYTES_MAX:
                    raise self._error(
                        batch, int(rows[row]), "values from here on are too large for a column: export them"
                    )
                out = np.concatenate([out, np.empty(size - len(out), np.uint8)])
            else:
                if answer != at.RARE and not self._permissive:
                    raise self._error(batch, int(rows[row]))
                if answer != at.RARE and st[at.PHASE] != at.P_BEGIN:
                    st[at.WORD_COUNT] = row_words[row - 1] if row else 0
                    st[at.OUT] = ends[st[at.WORD_COUNT] - 1] if st[at.WORD_COUNT] else 0
                rare.append(row)
                row_words[row] = st[at.WORD_COUNT]
                st[at.PHASE] = at.P_BEGIN
                st[at.ROW] += 1
        count = int(st[at.WORD_COUNT])
        offsets = np.concatenate(([0], ends[:count])).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out[: int(st[at.OUT])])]
        return _Words(pa.Array.from_buffers(pa.binary(), count, buffers), row_words), rare

    def _decoded(self, data: NDArray[np.uint8], batch: KeyBatch, rows: NDArray[np.int64], name: str) -> pa.Array:
        """One field of the keys *rows* by the plain decoder."""
        found: list[Any] = []
        for row in rows.tolist():
            begin, size = int(batch.offset[row]), int(batch.serialized_bytes[row])
            try:
                record = decode_record(
                    data[begin : begin + size].tobytes(), self._head.dialect, source=self._source, offset=begin
                )
                found.append(_plain(record.value, name))
            except DecodeError:
                if not self._permissive:
                    raise
                self.unread += 1
                found.append(None)
        return pa.array(found, _KINDS[name].arrow)

    def _error(self, batch: KeyBatch, row: int, reason: str = "its value is not what its header says") -> DecodeError:
        return DecodeError(reason, offset=int(batch.offset[row]), source=self._source)


def _spread(array: pa.Array, rows: NDArray[np.int64], count: int) -> pa.Array:
    """*array* at the places *rows* of *count*, null elsewhere."""
    if len(rows) == count:
        return array
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    return array.take(pa.array(places, mask=places < 0))


def _strings(of: _Words) -> pa.Array:
    return _one_each(of.words, of.ends)


def _one_each(words: pa.Array, ends: NDArray[np.int64]) -> pa.Array:
    """The word of each key; null for one that has none."""
    if len(words) == len(ends):
        return words
    has_one = np.diff(ends, prepend=0) > 0
    return words.take(pa.array(ends - 1, mask=~has_one))


def _texts(of: _Words) -> pa.Array:
    words = _one_each(of.words, of.ends)
    try:
        return words.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(word) for word in words.to_pylist()], pa.string())


def _text(word: bytes | None) -> str | None:
    try:
        return None if word is None else word.decode()
    except UnicodeDecodeError:
        return None


def _offsets(of: _Words, words_each: int) -> pa.Array:
    return pa.array(np.concatenate(([0], of.ends // words_each)).astype(np.int32))


def _every(of: _Words, first: int, words_each: int) -> pa.Array:
    return of.words.take(pa.array(np.arange(first, len(of.words), words_each)))


def _lists(of: _Words) -> pa.Array:
    return pa.ListArray.from_arrays(_offsets(of, 1), of.words)


def _scored(of: _Words) -> pa.Array:
    scores = pc.cast(_every(of, 1, 2).cast(pa.string()), pa.float64())
    pairs = pa.StructArray.from_arrays([_every(of, 0, 2), scores], ["member", "score"])
    return pa.ListArray.from_arrays(_offsets(of, 2), pairs)


def _hashes(of: _Words) -> pa.Array:
    return pa.MapArray.from_arrays(_offsets(of, 3), _every(of, 0, 3), _every(of, 1, 3))


def _field_expiries(of: _Words) -> pa.Array:
    """Fields that expire; an empty map where all stay."""
    texts = _every(of, 2, 3)
    expires = pc.greater(pc.binary_length(texts), 0)
    chosen = np.asarray(expires.to_numpy(zero_copy_only=False), np.int64)
    before = np.concatenate(([0], np.cumsum(chosen)))
    offsets = pa.array(before[np.concatenate(([0], of.ends // 3))].astype(np.int32))
    names, times = _every(of, 0, 3).filter(expires), texts.filter(expires).cast(pa.string()).cast(pa.int64())
    return pa.MapArray.from_arrays(offsets, names, times)


_MAKERS: dict[str, Callable[[_Words], pa.Array]] = {
    "string": _strings, "text": _texts, "list": _lists, "set": _lists, "zset": _scored, "hash": _hashes,
    "field_expire_at_ms": _field_expiries,
}  # fmt: skip


def _plain(value: object, name: str) -> Any:
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
