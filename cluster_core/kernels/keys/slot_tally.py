"""Counts of batches of keys by slot, time to live, type and use, and the largest keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import NONE, KeyBatch, gather_binary
from cluster_core.load.key_use import NEW_KEY_COUNTER, TTL_LABELS, TTL_LIMITS_MS
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


HOUR_S = 3600
DAY_S = 24 * HOUR_S
UNTOUCHED_S = (DAY_S, 7 * DAY_S, 30 * DAY_S)
EXPIRING_S = (HOUR_S, DAY_S, 7 * DAY_S)

USES = (
    "untouched_1d_bytes",
    "untouched_7d_bytes",
    "untouched_30d_bytes",
    "expiring_1h_bytes",
    "expiring_1d_bytes",
    "expiring_7d_bytes",
    "expiring_bytes",
    "accesses_a_1000000_s",
    "accesses_error",
)
"""The amounts of a key: bytes in memory (of the dump where memory is not known) by how long nobody touched them and how soon they
expire, each with all that came before it; accesses in 1,000,000 s, and by how much they may be more.
"""
PER_S = 1_000_000
_EXPIRING, _ACCESSES = len(UNTOUCHED_S), len(UNTOUCHED_S) + len(EXPIRING_S) + 1


@njit()
def _fill(
    idle_s: Any, freq: Any, expire_at_ms: Any, weights: Any, taken_at_ms: Any, rates: Any, limits: Any, amounts: Any
) -> Any:
    untouched, expiring = limits
    known = 0
    for i in range(len(weights)):
        weight: Any = max(np.int64(weights[i]), 0)
        if idle_s[i] >= 0:
            known |= 1
            for step in range(len(untouched)):
                if idle_s[i] >= untouched[step]:
                    amounts[i, step] = weight
        if expire_at_ms[i] >= 0:
            known |= 4
            left_ms = expire_at_ms[i] - taken_at_ms
            for step in range(len(expiring)):
                if left_ms < expiring[step] * 1000:
                    amounts[i, _EXPIRING + step] = weight
            amounts[i, _ACCESSES - 1] = weight
        if freq[i] >= 0 and len(rates) > 0:
            known |= 2
            amounts[i, _ACCESSES + (0 if freq[i] > NEW_KEY_COUNTER else 1)] = rates[freq[i]]
    return known


@njit()
def add_by_slot(slot: Any, amounts: Any, sums: Any) -> None:
    """Add the row of *amounts* of each key to that of its slot in *sums*."""
    for i in range(len(slot)):
        for column in range(amounts.shape[1]):
            sums[slot[i], column] += amounts[i, column]


class KeyUses:
    """Makes the amounts (`USES`) of batches of keys whose dump was taken at *taken_at_ms*; *rates* are accesses a second by LFU counter.

    *knows_idle*, *knows_counters*: whether any key had an idle time, or a counter that tells a rate.
    """

    def __init__(self, taken_at_ms: int, rates: Sequence[float] | None) -> None:
        self.knows_idle = self.knows_counters = False
        self._taken_at_ms = taken_at_ms
        self._rates = np.array([round(rate * PER_S) for rate in rates or ()], np.int64)
        self._limits = np.array(UNTOUCHED_S, np.int64), np.array(EXPIRING_S, np.int64)

    def amounts(self, batch: KeyBatch) -> NDArray[np.int64] | None:
        """Return int64[keys, `USES`]; None where nothing is known of any key."""
        amounts = np.zeros((len(batch), len(USES)), np.int64)
        known = _fill(
            batch.idle_s,
            batch.freq,
            batch.expire_at_ms,
            batch.weights(),
            self._taken_at_ms,
            self._rates,
            self._limits,
            amounts,
        )
        self.knows_idle |= bool(known & 1)
        self.knows_counters |= bool(known & 2)
        return amounts if known else None


_FACTS = (
    "db", "slot", "tag_start", "tag_length", "type", "encoding", "elements", "serialized_bytes", "expire_at_ms", "idle_s", "freq",
    "offset", "memory_bytes", "estimate",
)  # fmt: skip
"""The columns of `KeyBatch` that a row holds, then its weight, where its key's name lies, and the number from 1 of the key in the batch that is offered."""
_WEIGHT, _KEY_START, _KEY_LENGTH, _NUMBER, _COLUMNS = range(len(_FACTS), len(_FACTS) + 5)
_ARENA_BYTES_START = 1 << 20


class TopKey(NamedTuple):
    """One of the largest keys of *group*; -1 stands for unknown, as in `KeyBatch`."""

    group: int
    key: bytes
    db: int
    slot: int
    tag_start: int
    tag_length: int
    type: int
    encoding: int
    elements: int
    serialized_bytes: int
    expire_at_ms: int
    idle_s: int
    freq: int
    offset: int
    memory_bytes: int = -1
    estimate: int = 0


@njit()
def _offer(first: int, groups: Any, names: Any, weights: Any, held: Any, floor: Any, rows: Any, names_held: Any) -> int:
    """Offer keys from *first* on; return the first key whose name does not fit into the arena.

    *names* are offsets and bytes; *rows* int64[groups, keys, columns]; *names_held* the bytes of names held and, in one cell, their number.
    """
    offsets, data = names
    arena, arena_used = names_held
    count = rows.shape[1]
    for i in range(first, len(weights)):
        group = groups[i]
        weight = weights[i]
        number = held[group]
        if number == count and weight <= floor[group]:
            continue
        begin = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - begin
        if arena_used[0] + length > len(arena):
            return i
        place = number if number < count else count - 1
        while place > 0 and rows[group, place - 1, _WEIGHT] < weight:
            for column in range(_COLUMNS):
                rows[group, place, column] = rows[group, place - 1, column]
            place -= 1
        rows[group, place, _WEIGHT] = weight
        rows[group, place, _KEY_START] = arena_used[0]
        rows[group, place, _KEY_LENGTH] = length
        rows[group, place, _NUMBER] = i + 1
        for j in range(length):
            arena[arena_used[0] + j] = data[begin + j]
        arena_used[0] += length
        if number < count:
            held[group] = number + 1
        floor[group] = rows[group, held[group] - 1, _WEIGHT]
    return len(weights)


class TopKeys:
    """The *count* largest keys of each of *group_count* groups; memory is that of the keys held."""

    def __init__(self, group_count: int, count: int) -> None:
        self._count = count
        self._held = np.zeros(group_count, np.int64)
        self._floor = np.full(group_count, -1, np.int64)
        self._rows = np.zeros((group_count * count, _COLUMNS), np.int64)
        self._arena = np.zeros(_ARENA_BYTES_START, np.uint8)
        self._arena_used = np.zeros(1, np.int64)

    def add(self, batch: KeyBatch, groups: NDArray[np.int64]) -> None:
        """Offer all keys of *batch*; *groups* (int64, one a key) says which group each belongs to."""
        if not self._count:
            return
        first = 0
        names, rows = (batch.key_offsets, batch.key_data), self._rows.reshape(-1, self._count, _COLUMNS)
        while first < len(batch):
            arena = self._arena, self._arena_used
            first = _offer(first, groups, names, batch.weights(), self._held, self._floor, rows, arena)
            if first < len(batch):
                self._make_room(len(batch.key(first)))
        new = self._offered(groups)
        numbers = self._rows[new, _NUMBER] - 1
        for column, name in enumerate(_FACTS):
            values = getattr(batch, name)
            self._rows[new, column] = (NONE if name == "memory_bytes" else 0) if values is None else values[numbers]
        self._rows[new, _NUMBER] = 0

    def _offered(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that the last batch, with keys of *groups*, has taken; few groups are looked at alone, since rows are many."""
        if len(groups) * self._count >= len(self._rows):
            return np.flatnonzero(self._rows[:, _NUMBER])
        rows: NDArray[np.int64] = (np.unique(groups)[:, None] * self._count + np.arange(self._count)).ravel()
        taken: NDArray[np.bool_] = self._rows[rows, _NUMBER] > 0
        return rows[taken]

    def merge(self, other: TopKeys, groups: NDArray[np.int64] | None = None) -> None:
        """Offer the keys that *other* holds, in the order of their offsets, under their own groups or, one a key of `facts`, under *groups*."""
        facts = other.facts()
        if not len(facts):
            return
        order = np.argsort(facts[:, 1 + _FACTS.index("offset")], kind="stable")
        names = other.keys().take(pa.array(order))
        offsets, data = (
            np.frombuffer(buffer, kind).copy()  # one that may not be written is another type to compiled code
            for buffer, kind in zip(names.buffers()[1:], (np.int32, np.uint8), strict=True)
        )
        columns: dict[str, Any] = dict(zip(_FACTS, facts[order, 1:].T, strict=True))
        self.add(KeyBatch(offsets, data, **columns), (facts[:, 0] if groups is None else groups)[order])

    def _live(self) -> NDArray[np.int64]:
        """Return the rows in use, by group, largest first."""
        places = np.arange(self._count)
        used = places[None, :] < self._held[:, None]
        return np.flatnonzero(used.ravel())

    def keys(self) -> pa.Array:
        """Return the names of the keys held as Arrow ``binary``, by group, largest first."""
        live = self._rows[self._live()]
        return gather_binary(self._arena, live[:, _KEY_START].copy(), live[:, _KEY_LENGTH].copy())

    def facts(self) -> NDArray[np.int64]:
        """Return int64[keys, 15]: the group and then the columns of `TopKey` after its key; in the order of `keys`."""
        live = self._live()
        return np.column_stack([live // max(self._count, 1), self._rows[live, :_WEIGHT]])

    def rows(self) -> list[TopKey]:
        """Return the keys held, by group, largest first."""
        return [
            TopKey(group, key, *rest)
            for key, (group, *rest) in zip(self.keys().to_pylist(), self.facts().tolist(), strict=True)
        ]

    def _make_room(self, length: int) -> None:
        """Pack the arena; double it while the names held need more than half."""
        live = self._live()
        needed = int(self._rows[live, _KEY_LENGTH].sum()) + length
        size = len(self._arena)
        while needed * 2 > size:
            size *= 2
        arena = np.zeros(size, np.uint8)
        used = 0
        for row in live:
            start, held_length = self._rows[row, _KEY_START], self._rows[row, _KEY_LENGTH]
            arena[used : used + held_length] = self._arena[start : start + held_length]
            self._rows[row, _KEY_START] = used
            used += int(held_length)
        self._arena = arena
        self._arena_used[0] = used
