"""Tables of distinct fixed-size values (node ids, addresses, slot bitmaps) that kernels fill and index by number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.memory import copy_bytes, is_equal, word64

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0xCBF29CE484222325)
_SHIFT = np.uint64(29)


class Interned(NamedTuple):
    """Distinct values of *width* bytes in order of appearance, ``count[0]`` of them one after the other in *data*.

    *slots* is the hash index over them: int32, a power of two and at least twice the capacity, -1 where free.
    """

    width: int
    data: NDArray[np.uint8]
    slots: NDArray[np.int32]
    count: NDArray[np.int64]

    @property
    def capacity(self) -> int:
        """How many values there is room for."""
        return len(self.data) // self.width

    def rows(self) -> NDArray[np.uint8]:
        """The values, uint8 (count, width); what is added later does not change them."""
        used = int(self.count[0])
        return self.data[: used * self.width].reshape(used, self.width)


def new_interned(width: int, capacity: int) -> Interned:
    """Make an empty table of values of *width* bytes."""
    size = 1 << (2 * capacity - 1).bit_length()
    data = np.empty(capacity * width, dtype=np.uint8)
    return Interned(width, data, np.full(size, -1, dtype=np.int32), np.zeros(1, dtype=np.int64))


def grown(table: Interned, room: int) -> Interned:
    """Return the table with room for at least *room* more values; the same table if it has it."""
    count = int(table.count[0])
    if count + room <= table.capacity:
        return table
    larger = new_interned(table.width, 2 * (count + room))
    larger.data[: count * table.width] = table.data[: count * table.width]
    larger.count[0] = count
    _index(larger.data, table.width, larger.slots, count)
    return larger


@njit()
def hash_of(data: NDArray[np.uint8], at: int, width: int) -> int:
    """A hash of *width* bytes, not negative; it decides only where a value is looked for, never the result."""
    value = _SEED
    words = width >> 3
    for word in range(words):
        value = (value ^ word64(data, at + 8 * word)) * _MULTIPLIER
        value ^= value >> _SHIFT
    for index in range(8 * words, width):
        value = (value ^ np.uint64(data[at + index])) * _MULTIPLIER
        value ^= value >> _SHIFT
    return np.int64(value >> np.uint64(1))  # type: ignore[return-value]


@njit()
def is_row(table: Interned, index: int, data: NDArray[np.uint8], at: int) -> bool:
    """Whether the bytes of *data* from *at* are value number *index*."""
    return is_equal(table.data, index * table.width, data, at, table.width)


@njit()
def intern(table: Interned, data: NDArray[np.uint8], at: int) -> int:
    """The number of the value at *at*; a value that is new is added, for which the caller has made room."""
    width = table.width
    mask = table.slots.shape[0] - 1
    slot = hash_of(data, at, width) & mask
    while True:
        index = np.int64(table.slots[slot])
        if index < 0:
            index = table.count[0]
            table.slots[slot] = index
            copy_bytes(table.data, index * width, data, at, width)
            table.count[0] += 1
            return index  # type: ignore[return-value]
        if is_equal(table.data, index * width, data, at, width):
            return index  # type: ignore[return-value]
        slot = (slot + 1) & mask


@njit()
def _index(data: NDArray[np.uint8], width: int, slots: NDArray[np.int32], count: int) -> None:
    mask = slots.shape[0] - 1
    for index in range(count):
        slot = hash_of(data, index * width, width) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = index
