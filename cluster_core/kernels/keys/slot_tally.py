"""Count keys of batches by slot, time to live, type and use, and keep the largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import NONE, KeyBatch, gather_binary
from cluster_core.load.key_use import NEW_KEY_COUNTER, TTL_LABELS, TTL_LIMITS_MS
from cluster_core.rdb.grammar import KEY_TYPES, STRING
from cluster_core.slots.key_slot import SLOT_COUNT

SIZE_BITS = 64
"""Ranges of sizes, each twice as wide as the previous one."""


@njit()
def add_by_group(group: Any, amounts: Any, sums: Any) -> None:
    """Add the row of *amounts* of each key to the row of *sums* that is its *group*."""
    for i in range(len(group)):
        for column in range(amounts.shape[1]):
            sums[group[i], column] += amounts[i, column]


class KeyTally:
    """Sums of keys: int64 rows of keys, serialized bytes, expiring keys and bytes in memory; unknown sizes add 0.

    *slots* has a row per slot (R112), *types* per type with a last row for unknown ones. *ranges* is int64[2, types, 64, 2]:
    keys and sum by the binary digits of the size in memory (else serialized bytes), and of the elements of collections. *ttl*
    has keys and bytes by bucket after `set_time`. *unmeasured*: keys without a size in memory.
    """

    def __init__(self) -> None:
        self.slots: NDArray[np.int64] = np.zeros((SLOT_COUNT, 4), np.int64)
        self.types: NDArray[np.int64] = np.zeros((len(KEY_TYPES) + 1, 4), np.int64)
        self.ranges: NDArray[np.int64] = np.zeros((2, len(KEY_TYPES) + 1, SIZE_BITS, 2), np.int64)
        self.ttl: NDArray[np.int64] | None = None
        self.unmeasured = 0
        self._taken_at_ms = 0

    def set_time(self, taken_at_ms: int) -> None:
        """Count times to live from *taken_at_ms*."""
        self.ttl, self._taken_at_ms = np.zeros((len(TTL_LABELS), 2), np.int64), taken_at_ms

    def add(self, batch: KeyBatch, *, details: bool = True) -> None:
        """Count every key of *batch*: by slot, and with *details* by all else."""
        memory, sizes = batch.memory_bytes, np.maximum(batch.serialized_bytes, 0)
        held = np.zeros_like(sizes) if memory is None else np.maximum(memory, 0)
        expires = batch.expire_at_ms >= 0
        counts = np.column_stack((np.ones_like(sizes), sizes, expires, held))
        self.unmeasured += 0 if memory is None else int((memory < 0).sum())
        add_by_group(batch.slot, counts, self.slots)
        if not details or not len(batch):
            return
        types = np.minimum(batch.type, len(KEY_TYPES)).astype(np.int64)
        add_by_group(types, counts, self.types)
        is_measured = memory is not None and memory.max() >= 0
        _add_ranges(types, batch.serialized_bytes if memory is None or not is_measured else memory, self.ranges[0])
        _add_ranges(types, np.where(types == STRING, NONE, batch.elements), self.ranges[1])
        if self.ttl is not None:
            left = np.searchsorted(TTL_LIMITS_MS, batch.expire_at_ms - self._taken_at_ms, side="right") + 1
            add_by_group(np.where(expires, left, 0), counts[:, :2], self.ttl)

    def add_slots(self, slot: NDArray[np.uint16], sizes: NDArray[np.int64] | None) -> None:
        """Count keys with known slots only, and their sizes if given."""
        self.slots[:, 0] += np.bincount(slot, minlength=SLOT_COUNT)
        if sizes is not None:
            np.add.at(self.slots[:, 1], slot, np.maximum(sizes, 0))

    def merge(self, other: KeyTally) -> None:
        """Add the counts of *other*; slots without keys are skipped, which saves memory."""
        present = np.flatnonzero(other.slots[:, 0])
        self.slots[present] += other.slots[present]
        self.types += other.types
        self.ranges += other.ranges
        self.unmeasured += other.unmeasured
        if other.ttl is not None:
            self.ttl = other.ttl if self.ttl is None else self.ttl + other.ttl


def _add_ranges(types: NDArray[np.int64], values: NDArray[np.int64], ranges: NDArray[np.int64]) -> None:
    """Add the known *values* of keys to the range of their binary digits."""
    known = values >= 0
    bits = np.frexp(values[known].astype(np.float64))[1]
    amounts = np.column_stack((np.ones_like(bits, np.int64), values[known]))
    add_by_group(types[known] * SIZE_BITS + bits, amounts, ranges.reshape(-1, 2))


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
"""Amounts of a key: bytes in memory (else of the dump) by idle time and by time to live, cumulative; accesses in 1,000,000
s, and their possible excess."""
PER_S = 1_000_000
_EXPIRING, _ACCESSES = len(UNTOUCHED_S), len(UNTOUCHED_S) + len(EXPIRING_S) + 1


class KeyUses:
    """Makes amounts (`USES`) of key batches of a dump at *taken_at_ms*; *rates*: accesses per second by LFU counter.

    *knows_idle*, *knows_counters*: whether any key had an idle time, or a counter with a rate.
    """

    def __init__(self, taken_at_ms: int, rates: Sequence[float] | None) -> None:
        self.knows_idle = self.knows_counters = False
        self._taken_at_ms = taken_at_ms
        self._rates = np.array([round(rate * PER_S) for rate in rates or ()], np.int64)

    def amounts(self, batch: KeyBatch) -> NDArray[np.int64] | None:
        """Return int64[keys, `USES`]; None if nothing is known of any key."""
        expires = batch.expire_at_ms >= 0
        rated = np.flatnonzero(batch.freq >= 0) if len(self._rates) else np.empty(0, np.int64)
        knows_idle = bool((batch.idle_s >= 0).any())
        self.knows_idle |= knows_idle
        self.knows_counters |= bool(len(rated))
        if not (knows_idle or len(rated) or expires.any()):
            return None
        amounts = np.zeros((len(batch), len(USES)), np.int64)
        weights = np.maximum(batch.weights(), 0)
        left_ms = np.where(expires, batch.expire_at_ms - self._taken_at_ms, np.iinfo(np.int64).max)
        for step, limit_s in enumerate(UNTOUCHED_S if knows_idle else ()):
            amounts[:, step] = np.where(batch.idle_s >= limit_s, weights, 0)
        for step, limit_s in enumerate(EXPIRING_S, _EXPIRING):
            amounts[:, step] = np.where(left_ms < limit_s * 1000, weights, 0)
        amounts[:, _ACCESSES - 1] = np.where(expires, weights, 0)
        freq = batch.freq[rated]
        if len(rated):
            amounts[rated, _ACCESSES + (freq <= NEW_KEY_COUNTER)] = self._rates[freq]
        return amounts


_FACTS = (
    "db", "slot", "tag_start", "tag_length", "type", "encoding", "elements", "serialized_bytes", "expire_at_ms", "idle_s", "freq",
    "offset", "memory_bytes", "estimate",
)  # fmt: skip
"""Columns of `KeyBatch` in a row, then weight, position of the name, and the key's number (from 1) in the offered batch."""
_WEIGHT, _KEY_START, _KEY_LENGTH, _NUMBER, _COLUMNS = range(len(_FACTS), len(_FACTS) + 5)
_ARENA_BYTES_START = 1 << 20


@njit()
def _offer(first: int, groups: Any, names: Any, weights: Any, held: Any, floor: Any, rows: Any, names_held: Any) -> int:
    """Offer keys from *first* on; return the first key with a name that does not fit into the arena.

    *names*: offsets and bytes; *rows*: int64[groups, keys, columns]; *names_held*: name bytes and, in one cell, their number.
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
    """The *count* largest keys of each of *group_count* groups; memory is proportional to the keys held."""

    def __init__(self, group_count: int, count: int) -> None:
        self._count = count
        self._held = np.zeros(group_count, np.int64)
        self._floor = np.full(group_count, -1, np.int64)
        self._rows = np.zeros((group_count * count, _COLUMNS), np.int64)
        self._arena = np.zeros(_ARENA_BYTES_START, np.uint8)
        self._arena_used = np.zeros(1, np.int64)

    def add(self, batch: KeyBatch, groups: NDArray[np.int64]) -> None:
        """Offer all keys of *batch*; *groups* is int64, one group per key."""
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
        """Return rows taken from the last batch, with keys of *groups*; only these groups are searched."""
        if len(groups) * self._count >= len(self._rows):
            return np.flatnonzero(self._rows[:, _NUMBER])
        rows: NDArray[np.int64] = (np.unique(groups)[:, None] * self._count + np.arange(self._count)).ravel()
        taken: NDArray[np.bool_] = self._rows[rows, _NUMBER] > 0
        return rows[taken]

    def merge(self, other: TopKeys, groups: NDArray[np.int64] | None = None) -> None:
        """Offer the keys of *other* by offset, in their own groups or in *groups*, one per row of `facts`."""
        facts = other.facts()
        if not len(facts):
            return
        order = np.argsort(facts[:, 1 + _FACTS.index("offset")], kind="stable")
        names = other.keys().take(pa.array(order))
        offsets, data = (
            np.frombuffer(buffer, kind).copy()  # compiled code treats a read-only array as another type
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
        """Return int64[keys, 15]: the group and the columns of a row, in the order of `keys`."""
        live = self._live()
        return np.column_stack([live // max(self._count, 1), self._rows[live, :_WEIGHT]])

    def _make_room(self, length: int) -> None:
        """Compact the arena; double it if the names held need more than half."""
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
