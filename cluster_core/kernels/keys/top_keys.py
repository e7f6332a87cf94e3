"""The largest keys of each group (slot, type, owner), by `KeyBatch.weights`, kept while columns of keys stream by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import NONE, KeyBatch, gather_binary

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
