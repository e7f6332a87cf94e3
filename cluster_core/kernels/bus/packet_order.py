"""Merge packets of many capture files in time order, and drop copies.

A file keeps its own order: a packet's turn is the latest time in its file so far; equal turns go by file rank. So the
order does not depend on files being read together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.bus.packets import RECORD, Rows
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.raw_bytes import copy_bytes

OFFSET_BITS: Final = 40
"""Bits of the offset; the file's number is above it, in every message and gap."""
_OFFSETS: Final = (1 << OFFSET_BITS) - 1
_NO_BYTES: Final = np.zeros(0, dtype=np.uint8)


def with_file(number: int, offset: int) -> int:
    """Combine an offset with the file *number*, as in messages and gaps."""
    return number << OFFSET_BITS | offset


def placed(offset: int) -> tuple[int, int]:
    """Return the number of the file and the offset in it."""
    return offset >> OFFSET_BITS, offset & _OFFSETS


class ReusedBuffer:
    """A reused buffer: fresh pages cost more than the data written to them."""

    def __init__(self) -> None:
        self._data = _NO_BYTES

    def of(self, size: int) -> NDArray[np.uint8]:
        """Return *size* bytes; the buffer's previous content is invalid."""
        if len(self._data) < size:
            self._data = np.empty(size + size // 4, dtype=np.uint8)
        return self._data[:size]


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets: *turns_ns* are their turns, *ranks* those of their files, *records* are `RECORD` with positions in *data*."""

    turns_ns: NDArray[np.int64]
    ranks: NDArray[np.int64]
    records: NDArray[np.void]
    data: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.turns_ns)

    def part(self, start: int, stop: int) -> Packets:
        """Select packets without moving their bytes."""
        return Packets(self.turns_ns[start:stop], self.ranks[start:stop], self.records[start:stop], self.data)

    def stretch(self, start: int, stop: int) -> Packets:
        """Return packets *start* to *stop*; their bytes must be in order."""
        packets = self.part(start, stop)
        if not len(packets):
            return NO_PACKETS
        records, last = packets.records.copy(), packets.records[-1]
        begin = int(records["at"][0])
        records["at"] -= begin
        return replace(packets, records=records, data=self.data[begin : int(last["at"]) + int(last["captured"])])

    def packed(self, room: ReusedBuffer) -> bytes:
        """Serialize the packets with only their own bytes, compressed."""
        size = int(self.records["captured"].sum(dtype=np.int64))
        edges = _edges(len(self), size)
        raw = room.of(edges[-1])
        turns, ranks, records, data = _columns(raw, edges)
        turns[:], ranks[:], records[:] = self.turns_ns, self.ranks, self.records
        _gather(self.data, records, data)
        head = np.array([len(self), size], dtype="<i8").tobytes()
        return head + bytes(pa.Codec("zstd", compression_level=1).compress(pa.py_buffer(raw), asbytes=True))


NO_PACKETS: Final = Packets(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, RECORD), _NO_BYTES)


def unpacked(blob: bytes) -> Packets:
    """Restore `Packets.packed`; DecodeError for other bytes."""
    try:
        count, size = np.frombuffer(blob, "<i8", 2).tolist()
        edges = _edges(count, size)
        if min(count, size) < 0 or edges[-1] > 1 << 31:
            raise ValueError(f"{count} packets of {size} bytes")
        # into memory of Arrow's pool, which keeps its pages
        raw = np.frombuffer(pa.Codec("zstd").decompress(memoryview(blob)[16:], edges[-1]), np.uint8)
        return Packets(*_columns(raw, edges))
    except (ValueError, OSError, pa.ArrowException) as error:
        raise DecodeError(f"packets that were put aside cannot be read: {error}", offset=0) from error


def _edges(count: int, size: int) -> list[int]:
    """Return the boundaries of the columns of *count* packets with *size* bytes."""
    return list(itertools.accumulate((8 * count, 8 * count, RECORD.itemsize * count, size), initial=0))


def _columns(raw: NDArray[np.uint8], edges: list[int]) -> tuple[NDArray[Any], ...]:
    turns, ranks, records, data = (raw[start:stop] for start, stop in itertools.pairwise(edges))
    return turns.view(np.int64), ranks.view(np.int64), records.view(RECORD), data


def merged(parts: Sequence[Packets], room: ReusedBuffer) -> Packets:
    """Merge packets of several files, each part in order; bytes are copied to *room* unless there is only one part."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return NO_PACKETS
    if len(parts) == 1:
        return parts[0]
    turns = np.concatenate([part.turns_ns for part in parts])
    ranks = np.concatenate([part.ranks for part in parts])
    # as bytes: numpy would compare fields of records
    records = np.concatenate([part.records.view(np.uint8) for part in parts]).view(RECORD)
    starts = np.cumsum([0] + [len(part.data) for part in parts[:-1]])
    records["at"] += np.repeat(starts, [len(part) for part in parts])
    order = np.lexsort((ranks, turns))
    data = room.of(sum(len(part.data) for part in parts))
    np.concatenate([part.data for part in parts], out=data)
    return Packets(turns[order], ranks[order], records[order], data)


@njit()
def _gather(source: NDArray[np.uint8], records: Rows, target: NDArray[np.uint8]) -> None:
    """Copy the bytes of *records*, consecutively, and update their positions."""
    top = np.int64(0)
    for index in range(records.shape[0]):
        size = np.int64(records[index]["captured"])
        copy_bytes(target, top, source, records[index]["at"], size)
        records[index]["at"] = top
        top += size
