"""Keys, bytes and expiring keys per slot, per type and per time-to-live bucket, from columns of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.load.ttl import TTL_LABELS, TTL_LIMITS_MS
from cluster_core.rdb.grammar import KEY_TYPES, STRING
from cluster_core.slots.key_slot import SLOT_COUNT

_BITS = np.array([value.bit_length() for value in range(256)], np.uint8)


@njit()
def _tally(slot: Any, sizes: Any, expire_at_ms: Any, slots: Any) -> Any:
    for i in range(len(slot)):
        row = slot[i]
        slots[row, 0] += 1
        slots[row, 1] += max(np.int64(sizes[i]), 0)
        if expire_at_ms[i] >= 0:
            slots[row, 2] += 1


@njit()
def _tally_memory(slot: Any, memory_bytes: Any, memory: Any) -> Any:
    unmeasured = 0
    for i in range(len(slot)):
        if memory_bytes[i] < 0:
            unmeasured += 1
        else:
            memory[slot[i]] += memory_bytes[i]
    return unmeasured


@njit()
def _tally_ttl(expire_at_ms: Any, sizes: Any, taken_at_ms: Any, limits: Any, buckets: Any) -> Any:
    last = len(buckets) - 1
    for i in range(len(sizes)):
        bucket = 0
        if expire_at_ms[i] >= 0:
            remaining_ms = expire_at_ms[i] - taken_at_ms
            bucket = 1
            while bucket < last and remaining_ms >= limits[bucket - 1]:
                bucket += 1
        buckets[bucket, 0] += 1
        buckets[bucket, 1] += max(np.int64(sizes[i]), 0)


@njit()
def _tally_types(types, sizes, expire_at_ms, memory_bytes, counts):  # type: ignore[no-untyped-def]
    last = len(counts) - 1
    for i in range(len(types)):
        row = min(np.int64(types[i]), last)
        counts[row, 0] += 1
        counts[row, 1] += max(np.int64(sizes[i]), 0)
        if expire_at_ms[i] >= 0:
            counts[row, 2] += 1
        if len(memory_bytes) > 0:
            counts[row, 3] += max(np.int64(memory_bytes[i]), 0)


@njit()
def _bits(value):  # type: ignore[no-untyped-def]
    """The digits of *value* in base 2."""
    bits = 0
    while value >= 256:
        value >>= 8
        bits += 8
    return bits + _BITS[value]


@njit()
def _tally_ranges(types, sizes, elements, ranges):  # type: ignore[no-untyped-def]
    last = ranges.shape[1] - 1
    for i in range(len(types)):
        row = min(np.int64(types[i]), last)
        if sizes[i] >= 0:
            bits = _bits(np.int64(sizes[i]))
            ranges[0, row, bits, 0] += 1
            ranges[0, row, bits, 1] += sizes[i]
        if row != STRING and elements[i] >= 0:
            bits = _bits(np.int64(elements[i]))
            ranges[1, row, bits, 0] += 1
            ranges[1, row, bits, 1] += elements[i]


class SlotTally:
    """Counts per slot: *slots* is int64[16384, 3] of keys, serialized bytes and expiring keys (R112).

    *memory* is int64[16384] of bytes in memory, without the *unmeasured* keys.
    """

    def __init__(self) -> None:
        self.slots: NDArray[np.int64] = np.zeros((SLOT_COUNT, 3), np.int64)
        self.memory: NDArray[np.int64] = np.zeros(SLOT_COUNT, np.int64)
        self.unmeasured = 0

    def add(self, batch: KeyBatch) -> None:
        """Count every key of *batch*."""
        _tally(batch.slot, batch.serialized_bytes, batch.expire_at_ms, self.slots)
        if batch.memory_bytes is not None:
            self.unmeasured += _tally_memory(batch.slot, batch.memory_bytes, self.memory)

    def add_slots(self, slot: NDArray[np.uint16], sizes: NDArray[np.int64] | None) -> None:
        """Count keys of which only the slot is known, and their sizes if given."""
        self.slots[:, 0] += np.bincount(slot, minlength=SLOT_COUNT)
        if sizes is not None:
            np.add.at(self.slots[:, 1], slot, np.maximum(sizes, 0))

    def merge(self, other: SlotTally) -> None:
        """Count what *other* has counted; slots without keys are not touched, so that their memory is not taken."""
        present = np.flatnonzero(other.slots[:, 0])
        self.slots[present] += other.slots[present]
        self.memory[present] += other.memory[present]
        self.unmeasured += other.unmeasured


class TtlTally:
    """Counts per time-to-live bucket: *buckets* is int64[8, 2] of keys and bytes."""

    def __init__(self, taken_at_ms: int) -> None:
        self.taken_at_ms = taken_at_ms
        self.buckets: NDArray[np.int64] = np.zeros((len(TTL_LABELS), 2), np.int64)
        self._limits = np.array(TTL_LIMITS_MS, np.int64)

    def add(self, batch: KeyBatch) -> None:
        """Count every key of *batch*."""
        _tally_ttl(batch.expire_at_ms, batch.serialized_bytes, self.taken_at_ms, self._limits, self.buckets)


class TypeTally:
    """Counts per type: *counts* is int64[types, 4] of keys, serialized bytes, expiring keys and bytes in memory; unknown types are its last row.

    *ranges* is int64[2, types, 64, 2]: by size in memory, or in the dump where no model knows it, and by elements of what is no string; by the
    digits of that number in base 2; keys, and the sum of it.
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros((len(KEY_TYPES) + 1, 4), np.int64)
        self.ranges: NDArray[np.int64] = np.zeros((2, len(KEY_TYPES) + 1, 64, 2), np.int64)

    def merge(self, other: TypeTally) -> None:
        """Count what *other* has counted."""
        self.counts += other.counts
        self.ranges += other.ranges

    def add(self, batch: KeyBatch) -> None:
        """Count every key of *batch*."""
        memory = np.empty(0, np.int64) if batch.memory_bytes is None else batch.memory_bytes
        _tally_types(batch.type, batch.serialized_bytes, batch.expire_at_ms, memory, self.counts)
        sizes = memory if len(memory) and memory.max() >= 0 else batch.serialized_bytes
        _tally_ranges(batch.type, sizes, batch.elements, self.ranges)
