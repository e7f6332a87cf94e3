"""Key batches from Arrow columns or lines: slot and hash tag of each key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.formats.key_list import parse_line
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import NONE, KeyBatch, gather_binary
from cluster_core.kernels.key_slots import slot_of, tag_bounds

UNKNOWN_CODE = 255
"""Type and encoding of a key with only a name."""


@njit()
def _locate(offsets: Any, data: Any, slot: Any, tag_start: Any, tag_length: Any) -> Any:
    for i in range(len(slot)):
        begin = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        slot[i] = slot_of(data, begin, end)
        first, last = tag_bounds(data, begin, end)
        if last - first != end - begin:
            tag_start[i] = first - begin
            tag_length[i] = last - first


def batch_of_keys(keys: pa.Array, sizes: NDArray[np.int64] | None = None, first_row: int = 0) -> KeyBatch:
    """Return a `KeyBatch` of *keys* (Arrow ``binary``, no nulls), *offset* counted from *first_row*.

    *sizes* are serialized bytes, `NONE` if unknown.
    """
    count = len(keys)
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, count + 1, keys.offset * 4) if count else np.zeros(1, np.int32)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    slot = np.zeros(count, np.uint16)
    tag_start = np.zeros(count, np.int32)
    tag_length = np.zeros(count, np.int32)
    _locate(offsets, data, slot, tag_start, tag_length)
    unknown = np.full(count, NONE, np.int64)
    return KeyBatch(
        key_offsets=offsets,
        key_data=data,
        db=np.zeros(count, np.int32),
        slot=slot,
        tag_start=tag_start,
        tag_length=tag_length,
        type=np.full(count, UNKNOWN_CODE, np.uint8),
        encoding=np.full(count, UNKNOWN_CODE, np.uint8),
        elements=unknown,
        serialized_bytes=unknown if sizes is None else sizes,
        expire_at_ms=unknown,
        idle_s=unknown,
        freq=np.full(count, NONE, np.int16),
        offset=np.arange(first_row, first_row + count, dtype=np.int64),
    )


def keys_of_lines(
    block: bytes, quoted: bool | None, source: str, offset: int, bad: list[DecodeError] | None = None
) -> pa.Array:
    """Return the keys of the lines in *block* as Arrow ``binary``, without empty lines.

    *block* starts at byte *offset* of *source* and ends at a line end or the end of the file. An invalid line
    (`cluster_core.formats.key_list.parse_line`) raises DecodeError, or is appended to *bad* if given.
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == 10)
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]) if len(ends) else np.zeros(0, np.int64)
    returns = (ends > starts) & (data[np.maximum(ends - 1, 0)] == 13)
    lengths = ends - returns - starts
    starts, lengths = starts[lengths > 0], lengths[lengths > 0]
    lines = gather_binary(data, starts, lengths)
    plain = quoted is False or (quoted is None and not (data[starts] == ord('"')).any())
    if plain:
        return lines
    keys = []
    for line, start in zip(lines.to_pylist(), starts.tolist(), strict=True):
        try:
            keys.append(parse_line(line, quoted=quoted, source=source, offset=offset + start))
        except DecodeError as error:
            if bad is None:
                raise
            bad.append(error)
    return pa.array(keys, pa.binary())
