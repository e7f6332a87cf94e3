"""`RdbSkimmer` over the plain reader: the same batches, slower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.grammar import ENCODINGS, KEY_TYPES
from cluster_core.rdb.head import FileFacts, RdbHead
from cluster_core.rdb.skim import KEY_DATA_BYTES, RdbSkimmer
from tests.reference.pieces import Pieces
from tests.reference.rdb.reader import KeyRow, PlainSkim

_TYPE_CODES = {name: code for code, name in enumerate(KEY_TYPES)}
_ENCODING_CODES = {name: code for code, name in enumerate(ENCODINGS)}


class PlainRdbSkimmer(RdbSkimmer):
    """See `RdbSkimmer`."""

    def _set_up(self, head: RdbHead | None) -> None:
        self._plain = PlainSkim(
            self._source, start=self._start, end=self._end, head=head, check_crc=self._check_crc, memory=self._memory
        )
        self._plain.declared_slot_keys = cast(list[int], self.declared_slot_keys)
        self._plain.declared_slot_expires = cast(list[int], self.declared_slot_expires)
        self._facts: FileFacts = self._plain.facts
        self._pieces = Pieces(self._start, self._end)
        self._sync()

    @property
    def function_count(self) -> int:
        """Function libraries."""
        return self._plain.function_count

    @property
    def module_aux_count(self) -> int:
        """Aux fields of modules."""
        return self._plain.module_aux_count

    @property
    def position(self) -> int:
        """Offset in the file up to which all is decoded, and the CRC computed; the stored CRC is not counted."""
        return self._plain.position

    def room(self) -> memoryview:
        """Return writable space for the next bytes of the file, never past *end*."""
        return self._pieces.room()

    def filled(self, count: int) -> None:
        """Say that *count* bytes were written to `room`; 0 is the end of the input."""
        piece = self._pieces.take(count)
        if self._error is None:
            try:
                self._plain.feed(piece)
            except DecodeError as error:
                self._error = error
        self._sync()

    def skippable(self) -> int:
        """Return how many bytes may be passed over instead of read: 0 when the CRC is computed."""
        skip = self._plain.skippable
        return skip if self._end is None else min(skip, self._end - self._pieces.fed)

    def skipped(self, count: int) -> None:
        """Say that *count* bytes were passed over."""
        if not 0 <= count <= self.skippable():
            raise ValueError(f"{count} bytes may not be skipped")
        self._plain.skip(count)
        self._pieces.move(count)

    def batches(self) -> Iterator[KeyBatch]:
        """Decode what was fed; yield each batch that is full, and the last one.

        Raises DecodeError (TruncatedError, SplitError) with the offset in the file, after the keys before it
        were yielded.
        """
        rows = self._plain.rows
        is_last = self._plain.done or self._error is not None
        while rows:
            count = _fitting(rows, self._capacity)
            if count == len(rows) < self._capacity and not is_last:
                break
            self.keys += count
            yield _batch_of(rows[:count], self._memory is not None)
            del rows[:count]
        self._sync()
        self.done = self._plain.done
        if self._error is not None:
            raise self._error

    def _sync(self) -> None:
        """Copy what the plain skim knows."""
        plain = self._plain
        self.crc, self.stored_crc, self.trailing_bytes = plain.crc, plain.stored_crc, plain.trailing_bytes


def _fitting(rows: list[KeyRow], rows_max: int) -> int:
    """Return how many of *rows* make one batch."""
    key_bytes = 0
    for index, row in enumerate(rows[:rows_max]):
        if index and key_bytes + len(row.key) + 16 > KEY_DATA_BYTES:
            return index
        key_bytes += len(row.key)
    return min(len(rows), rows_max)


def _batch_of(rows: list[KeyRow], is_measured: bool) -> KeyBatch:
    db, keys, slot, tags, types, encodings, elements, sizes, expire, idle, freq, offset, memory, estimate = zip(
        *rows, strict=True
    )
    return KeyBatch(
        key_offsets=np.concatenate(([0], np.cumsum([len(key) for key in keys]))).astype(np.int32),
        key_data=np.frombuffer(b"".join(keys), dtype=np.uint8),
        db=np.array(db, dtype=np.int32),
        slot=np.array(slot, dtype=np.uint16),
        tag_start=np.array(
            [0 if tag is None else key.find(b"{") + 1 for key, tag in zip(keys, tags, strict=True)], dtype=np.int32
        ),
        tag_length=np.array([0 if tag is None else len(tag) for tag in tags], dtype=np.int32),
        type=np.array([_TYPE_CODES[name] for name in types], dtype=np.uint8),
        encoding=np.array([_ENCODING_CODES[name] for name in encodings], dtype=np.uint8),
        elements=np.array(elements, dtype=np.int64),
        serialized_bytes=np.array(sizes, dtype=np.int64),
        expire_at_ms=np.array(expire, dtype=np.int64),
        idle_s=np.array(idle, dtype=np.int64),
        freq=np.array(freq, dtype=np.int16),
        offset=np.array(offset, dtype=np.int64),
        memory_bytes=np.array(memory, dtype=np.int64) if is_measured else None,
        estimate=np.array(estimate, dtype=np.uint8) if is_measured else None,
    )
