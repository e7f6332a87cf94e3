"""Tables of distinct fixed-size values (node ids, addresses, slot bitmaps), filled and indexed by kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import borrowing
from cluster_core.kernels.raw_bytes import copy_bytes, is_equal, word64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0xCBF29CE484222325)
_STEP = np.uint64(0xA0761D6478BD6428)
_ZERO = np.uint64(0)
_SHIFT = np.uint64(29)

WORDWISE_BYTES_MAX = 64


class Interned(NamedTuple):
    """Distinct values of *width* bytes in order of appearance, ``used[0]`` of them, consecutive in *data*.

    *slots* is their hash index: int32, a power of two and at least twice the capacity, -1 if free.
    """

    width: int
    data: NDArray[np.uint8]
    slots: NDArray[np.int32]
    used: NDArray[np.int64]

    @property
    def capacity(self) -> int:
        """Return the maximum number of values."""
        return len(self.data) // self.width

    def rows(self) -> NDArray[np.uint8]:
        """Return the values, uint8 (count, width); later additions do not change them."""
        used = int(self.used[0])
        return self.data[: used * self.width].reshape(used, self.width)


def new_interned(width: int, capacity: int) -> Interned:
    """Make an empty table of values of *width* bytes."""
    size = 1 << (2 * capacity - 1).bit_length()
    data = np.empty(capacity * width, dtype=np.uint8)
    return Interned(width, data, np.full(size, -1, dtype=np.int32), np.zeros(1, dtype=np.int64))


def grown(table: Interned, room: int) -> Interned:
    """Return the table with room for at least *room* more values; the same table if it has it."""
    count = int(table.used[0])
    if count + room <= table.capacity:
        return table
    larger = new_interned(table.width, 2 * (count + room))
    larger.data[: count * table.width] = table.data[: count * table.width]
    larger.used[0] = count
    _index(larger.data, table.width, larger.slots, count)
    return larger


@borrowing(inline="always")
def hash_of(data: NDArray[np.uint8], at: int, width: int) -> int:
    """Return a non-negative hash of *width* bytes, at least 8, for lookups only."""
    word_count = width >> 3
    value = _SEED
    factor = _MULTIPLIER
    for word in range(word_count):  # sums of products do not wait for each other
        value += (word64(data, at + 8 * word) ^ _SEED) * factor
        factor += _STEP
    value += (word64(data, at + width - 8) ^ _SEED) * factor
    value ^= value >> _SHIFT
    value *= _MULTIPLIER
    return np.int64(value >> _SHIFT)  # type: ignore[return-value]


@borrowing(inline="always")
def is_same(first: NDArray[np.uint8], at: int, other: NDArray[np.uint8], other_at: int, width: int) -> bool:
    """Return whether *width* bytes, at least 8, are equal."""
    if width > WORDWISE_BYTES_MAX:
        return bool(is_equal(first, at, other, other_at, width))
    different = word64(first, at + width - 8) ^ word64(other, other_at + width - 8)
    for word in range(width >> 3):
        different |= word64(first, at + 8 * word) ^ word64(other, other_at + 8 * word)
    return bool(different == _ZERO)


@borrowing(inline="always")
def is_row(table: Interned, index: int, data: NDArray[np.uint8], at: int, width: int) -> bool:
    """Return whether the bytes of *data* from *at* are value *index*; *width* is the table's, ideally a constant."""
    return bool(is_same(table.data, index * width, data, at, width))


@borrowing(inline="always")
def intern(table: Interned, data: NDArray[np.uint8], at: int, width: int) -> int:
    """Return the number of the value at *at*; a new value is added, for which the caller has made room.

    *width* is the table's; a constant lets the compiler unroll loops.
    """
    mask = table.slots.shape[0] - 1
    slot = hash_of(data, at, width) & mask
    while True:
        index = np.int64(table.slots[slot])
        if index < 0:
            index = table.used[0]
            table.slots[slot] = index
            copy_bytes(table.data, index * width, data, at, width)
            table.used[0] += 1
            return int(index)
        if is_same(table.data, index * width, data, at, width):
            return int(index)
        slot = (slot + 1) & mask


@borrowing()
def _index(data: NDArray[np.uint8], width: int, slots: NDArray[np.int32], count: int) -> None:
    mask = slots.shape[0] - 1
    for index in range(count):
        slot = hash_of(data, index * width, width) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = index
