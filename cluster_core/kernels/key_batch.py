"""A batch of keys as columns, from a decoded file to tallies and Arrow."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.memory.model import ESTIMATES
from cluster_core.rdb.grammar import ENCODINGS, KEY_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

_FILLED_TYPES = np.array(
    [name in ("list", "set", "zset", "hash") for name in KEY_TYPES] + [False] * (256 - len(KEY_TYPES))
)
"""Types that servers drop without elements, by code (`rdbLoadObject`: ``RDB_LOAD_ERR_EMPTY_KEY``)."""

NONE = -1
"""Missing value in `expire_at_ms`, `idle_s`, `freq`, `elements` and `serialized_bytes`."""


@dataclass(slots=True)
class KeyBatch:
    """One row per key, *n* rows; every array but the first two has length *n*.

    Key *i* is ``key_data[key_offsets[i]:key_offsets[i + 1]]``; its hash tag is the *tag_length* bytes from *tag_start* of the
    key, and length 0 means that the whole key is hashed (R113). *type* and *encoding* index
    `cluster_core.rdb.grammar.KEY_TYPES` and ``ENCODINGS``. *serialized_bytes* is the whole record, attributes included.
    *offset* is the record's position in the (decompressed) file. *memory_bytes*: size in the server's memory, `NONE` if
    unknown; *estimate* indexes `cluster_core.memory.model.ESTIMATES`; both are None if not measured.
    """

    key_offsets: NDArray[np.int32]
    key_data: NDArray[np.uint8]
    db: NDArray[np.int32]
    slot: NDArray[np.uint16]
    tag_start: NDArray[np.int32]
    tag_length: NDArray[np.int32]
    type: NDArray[np.uint8]
    encoding: NDArray[np.uint8]
    elements: NDArray[np.int64]
    serialized_bytes: NDArray[np.int64]
    expire_at_ms: NDArray[np.int64]
    idle_s: NDArray[np.int64]
    freq: NDArray[np.int16]
    offset: NDArray[np.int64]
    memory_bytes: NDArray[np.int64] | None = None
    estimate: NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        return len(self.slot)

    def weights(self) -> NDArray[np.int64]:
        """Return each key's weight for ranking: bytes in memory if known, else those of its record."""
        if self.memory_bytes is None:
            return self.serialized_bytes
        return np.where(self.memory_bytes >= 0, self.memory_bytes, self.serialized_bytes)

    def hollow(self) -> NDArray[np.bool_]:
        """Return which keys are collections without elements, which a server drops on load."""
        result: NDArray[np.bool_] = (self.elements == 0) & _FILLED_TYPES[self.type]
        return result

    def where(self, chosen: NDArray[np.bool_]) -> KeyBatch:
        """Return the *chosen* rows."""
        lengths = np.diff(self.key_offsets)
        columns: dict[str, Any] = {
            field.name: None if value is None else value[chosen]
            for field in fields(self)[2:]
            for value in (getattr(self, field.name),)
        }
        offsets = np.concatenate(([0], np.cumsum(lengths[chosen]))).astype(np.int32)
        data = self.key_data[: self.key_offsets[-1]]
        return KeyBatch(key_offsets=offsets, key_data=data[np.repeat(chosen, lengths)], **columns)

    def key(self, index: int) -> bytes:
        """Return the bytes of one key."""
        return self.key_data[self.key_offsets[index] : self.key_offsets[index + 1]].tobytes()


@njit()
def _gather(data: Any, starts: Any, lengths: Any, offsets: Any, gathered: Any) -> Any:
    used = 0
    for i in range(len(starts)):
        start = starts[i]
        for j in range(lengths[i]):
            gathered[used + j] = data[start + j]
        used += lengths[i]
        offsets[i + 1] = used


def gather_binary(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], *, null_if_empty: bool = False
) -> pa.Array:
    """Return the byte ranges of *data* as an Arrow ``binary`` array of the same length as *starts*."""
    import pyarrow as pa

    offsets = np.zeros(len(starts) + 1, np.int32)
    gathered = np.empty(int(lengths.sum()), np.uint8)
    _gather(data, starts, lengths, offsets, gathered)
    valid = bits(lengths > 0) if null_if_empty else None
    return pa.Array.from_buffers(pa.binary(), len(starts), [valid, pa.py_buffer(offsets), pa.py_buffer(gathered)])


def part_of(names: pa.Array, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> pa.Array:
    """Return *lengths* bytes from *starts* of each of *names* (Arrow ``binary``, not sliced), null where the length is 0."""
    _, offset_buffer, data_buffer = names.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(names)).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)
    return gather_binary(data, offsets + starts, lengths.astype(np.int64), null_if_empty=True)


def bits(mask: NDArray[np.bool_]) -> pa.Buffer:
    """Return *mask* as an Arrow validity bitmap."""
    import pyarrow as pa

    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def known(values: NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    """Return *values* as an Arrow array in which `NONE` is null."""
    import pyarrow as pa

    return pa.array(values, kind, mask=np.asarray(values == NONE))


@cache
def _names(names: tuple[str, ...]) -> pa.Array:
    """Return *names* as Arrow, lazily: the first array loads pandas (0.3 s)."""
    import pyarrow as pa

    return pa.array(names)


def named(codes: NDArray[np.generic], names: tuple[str, ...]) -> pa.Array:
    """Return the *names* that *codes* index; null for a code out of range (unknown in key lists)."""
    import pyarrow as pa

    indices = pa.array(codes.astype(np.int32), mask=np.asarray(codes.astype(np.int32) >= len(names)))
    return _names(names).take(indices)


def key_array(batch: KeyBatch) -> pa.Array:
    """Return the keys of *batch* as an Arrow ``binary`` array without copying."""
    import pyarrow as pa

    return pa.Array.from_buffers(
        pa.binary(), len(batch), [None, pa.py_buffer(batch.key_offsets), pa.py_buffer(batch.key_data)]
    )


def type_names(codes: NDArray[np.generic]) -> pa.Array:
    """Return names of `KEY_TYPES` for type codes."""
    return named(codes, KEY_TYPES)


def encoding_names(codes: NDArray[np.generic]) -> pa.Array:
    """Return names of `ENCODINGS` for encoding codes."""
    return named(codes, ENCODINGS)


def memory_columns(
    memory_bytes: NDArray[np.int64] | None, estimate: NDArray[np.generic] | None, count: int
) -> tuple[pa.Array, pa.Array]:
    """Return sizes in memory and their estimates, null if not measured (`NONE`, or None for all *count*)."""
    import pyarrow as pa

    if memory_bytes is None or estimate is None:
        return pa.nulls(count, pa.int64()), pa.nulls(count, pa.string())
    codes = np.where(memory_bytes == NONE, len(ESTIMATES), estimate)
    return known(memory_bytes, pa.int64()), named(codes, ESTIMATES)


def key_columns(batch: KeyBatch) -> list[pa.Array]:
    """Return the columns of ``schemas.bronze.KEY_FIELDS``, in that order, one row per key."""
    import pyarrow as pa

    keys = key_array(batch)
    return [
        pa.array(batch.db),
        keys,
        pa.array(batch.slot.astype(np.int32)),
        part_of(keys, batch.tag_start.astype(np.int64), batch.tag_length.astype(np.int64)),
        type_names(batch.type),
        encoding_names(batch.encoding),
        known(batch.elements, pa.int64()),
        known(batch.serialized_bytes, pa.int64()),
        known(batch.expire_at_ms, pa.int64()),
        known(batch.idle_s, pa.int64()),
        known(batch.freq, pa.int16()),
        known(batch.offset, pa.int64()),
        *memory_columns(batch.memory_bytes, batch.estimate, len(batch)),
    ]
