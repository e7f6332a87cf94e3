"""Columns of a batch of keys, the value that flows from a decoded file to the tallies and to Arrow."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.rdb.grammar import KEY_TYPES

_FILLED_TYPES = np.array(
    [name in ("list", "set", "zset", "hash") for name in KEY_TYPES] + [False] * (256 - len(KEY_TYPES))
)
"""Types that no server keeps without elements, by code (`rdbLoadObject`: ``RDB_LOAD_ERR_EMPTY_KEY``)."""

NONE = -1
"""Stands for "the file does not say" in `expire_at_ms`, `idle_s`, `freq`, `elements` and `serialized_bytes`."""


@dataclass(slots=True)
class KeyBatch:
    """One row a key, *n* rows; every array but the first two has length *n*.

    Key *i* is ``key_data[key_offsets[i]:key_offsets[i + 1]]``; its hash tag is the *tag_length* bytes from *tag_start*,
    counted from the key's first byte, and a length of 0 means that the whole key is hashed (R113).  *type* and *encoding* index
    `cluster_core.formats.rdb.opcodes.KEY_TYPES` and ``ENCODINGS``.  *serialized_bytes* counts the whole record: expiry, idle
    and frequency opcodes, type, key and value.  *offset* is where the record begins in the (decompressed) file.  *memory_bytes*
    is the size in the server's memory, `NONE` where no model knows the layout, *estimate* indexes `cluster_core.memory.model.ESTIMATES`; both None
    if nothing was measured.
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
        """Return what each key is ranked by: its bytes in memory where they are known, else those of its record."""
        if self.memory_bytes is None:
            return self.serialized_bytes
        return np.where(self.memory_bytes >= 0, self.memory_bytes, self.serialized_bytes)

    def hollow(self) -> NDArray[np.bool_]:
        """Say of each key whether it is a collection without elements, which a server drops when it loads the file."""
        found: NDArray[np.bool_] = (self.elements == 0) & _FILLED_TYPES[self.type]
        return found

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
