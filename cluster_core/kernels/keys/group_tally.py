"""Heavy groups of keys (hash tags, prefixes) in bounded memory, with a proven error.

A table holds at most *capacity* groups with their keys, bytes, bytes in memory and expiring keys. Before it overflows,
about half of the groups, light in keys, bytes *and* memory, are dropped, and the heaviest dropped figures become the
table's ``missed`` bound. A later group has the bound at its entry as error: ``keys <= true keys <= keys + keys_error``,
and the same for bytes and memory. (Lossy counting, Manku and Motwani 2002, with the Space-Saving bound of Metwally et al.
2005, for three weights at once.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch, gather_binary

NAME_BYTES_MAX = 1024
"""Longer group names are not tracked; `GroupTally.untracked_keys` counts their keys."""


class _Table(NamedTuple):
    """Groups: hash buckets, hashes, columns (one row each), sums of amounts, names; and the cells of *state* below."""

    buckets: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    groups: NDArray[np.int64]
    amounts: NDArray[np.int64]
    arena: NDArray[np.uint8]
    state: NDArray[np.int64]


_USED, _ARENA_USED, _MISSED_KEYS, _MISSED_BYTES, _MISSED_MEMORY, _UNTRACKED = range(6)
_KEYS, _BYTES, _MEMORY, _EXPIRES, _KEYS_ERROR, _BYTES_ERROR, _MEMORY_ERROR, _DEPTH, _START, _LENGTH = range(10)
_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x100000001B3)
_HASH_SHIFT = np.uint64(32)
_ARENA_BYTES_START = 1 << 20


@njit(inline="always")
def _find(table: Any, data: Any, begin: int, length: int, digest: Any) -> Any:
    """Return the entry of a name, or ``-1 - bucket`` of its free place."""
    mask = len(table.buckets) - 1
    bucket = np.int64((digest ^ (digest >> _HASH_SHIFT)) & np.uint64(mask))
    while True:
        entry = np.int64(table.buckets[bucket])
        if entry < 0:
            return -1 - bucket
        if table.hashes[entry] == digest and table.groups[entry, _LENGTH] == length:
            start = table.groups[entry, _START]
            same = True
            for i in range(length):
                if table.arena[start + i] != data[begin + i]:
                    same = False
                    break
            if same:
                return entry
        bucket = (bucket + 1) & mask


@njit(inline="always")
def _count(table: Any, data: Any, begin: int, length: int, digest: Any, depth: int, counts: Any) -> Any:
    groups = table.groups
    entry = _find(table, data, begin, length, digest)
    if entry < 0:
        bucket = -1 - entry
        entry = table.state[_USED]
        start = table.state[_ARENA_USED]
        table.state[_USED] += 1
        table.state[_ARENA_USED] += length
        table.buckets[bucket] = entry
        table.hashes[entry] = digest
        for i in range(length):
            table.arena[start + i] = data[begin + i]
        groups[entry] = 0
        table.amounts[entry] = 0
        groups[entry, _KEYS_ERROR] = table.state[_MISSED_KEYS]
        groups[entry, _BYTES_ERROR] = table.state[_MISSED_BYTES]
        groups[entry, _MEMORY_ERROR] = table.state[_MISSED_MEMORY]
        groups[entry, _DEPTH] = depth
        groups[entry, _START] = start
        groups[entry, _LENGTH] = length
    size, memory, expires = counts
    groups[entry, _KEYS] += 1
    groups[entry, _BYTES] += size
    groups[entry, _MEMORY] += memory
    groups[entry, _EXPIRES] += expires
    return entry


@njit(inline="always")
def _counts(weights: Any, i: int) -> Any:
    """Return bytes, bytes in memory and 1 if it expires of key *i*; unknown counts as 0."""
    sizes, memory, expire_at_ms = weights
    in_memory = np.int64(memory[i]) if len(memory) > 0 else np.int64(0)
    return max(np.int64(sizes[i]), 0), max(in_memory, 0), 1 if expire_at_ms[i] >= 0 else 0


@njit(inline="always")
def _has_room(table: Any, count: int) -> Any:
    used, arena_used = table.state[_USED] + count, table.state[_ARENA_USED] + count * NAME_BYTES_MAX
    return used <= len(table.groups) and arena_used <= len(table.arena)


@njit()
def _add_tags(first: int, names: Any, tags: Any, weights: Any, columns: Any) -> int:
    """Count keys from *first* on under their hash tags; return the first key without room.

    *names*: offsets and bytes; *tags*: starts and lengths; *weights*: sizes, sizes in memory (or none), expiries; *columns*:
    those of `_Table`.
    """
    table = _Table(*columns)
    offsets, data = names
    tag_start, tag_length = tags
    for i in range(first, len(tag_length)):
        length = np.int64(tag_length[i])
        if length == 0:
            continue
        if length > NAME_BYTES_MAX:
            table.state[_UNTRACKED] += 1
            continue
        if not _has_room(table, 1):
            return i
        begin = np.int64(offsets[i]) + np.int64(tag_start[i])
        digest = _HASH_SEED
        for j in range(begin, begin + length):
            digest = (digest ^ np.uint64(data[j])) * _HASH_PRIME
        _count(table, data, begin, length, digest, 0, _counts(weights, i))
    return len(tag_length)


@njit()
def _add_prefixes(first: int, names: Any, separators: Any, weights: Any, amounts: Any, columns: Any) -> int:
    """Count keys from *first* on under their prefixes; return the first key without room; see `_add_tags`.

    *separators*: a flag per byte, and the maximum prefixes per key; *amounts*: a row per key, or none.
    """
    separator, depth_max = separators
    table = _Table(*columns)
    offsets, data = names
    count = len(weights[0])
    for i in range(first, count):
        if not _has_room(table, depth_max):
            return i
        begin = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        counts = _counts(weights, i)
        digest = _HASH_SEED
        depth = 0
        for j in range(begin, end):
            digest = (digest ^ np.uint64(data[j])) * _HASH_PRIME
            if separator[data[j]]:
                depth += 1
                length = j + 1 - begin
                if length > NAME_BYTES_MAX:
                    table.state[_UNTRACKED] += 1
                else:
                    entry = _count(table, data, begin, length, digest, depth, counts)
                    if len(amounts) > 0:
                        for column in range(amounts.shape[1]):
                            table.amounts[entry, column] += amounts[i, column]
                if depth == depth_max:
                    break
    return count


@njit()
def _prune(keep: int, columns: Any) -> None:
    """Drop groups light in keys, bytes and memory, and compact the rest."""
    table = _Table(*columns)
    groups, state = table.groups, table.state
    used = state[_USED]
    keys_cut = np.sort(groups[:used, _KEYS])[used - keep]
    bytes_cut = np.sort(groups[:used, _BYTES])[used - keep]
    memory_cut = np.sort(groups[:used, _MEMORY])[used - keep]
    table.buckets[:] = -1
    mask = len(table.buckets) - 1
    entry = 0
    arena_used = 0
    for old in range(used):
        if groups[old, _KEYS] <= keys_cut and groups[old, _BYTES] <= bytes_cut and groups[old, _MEMORY] <= memory_cut:
            state[_MISSED_KEYS] = max(state[_MISSED_KEYS], groups[old, _KEYS] + groups[old, _KEYS_ERROR])
            state[_MISSED_BYTES] = max(state[_MISSED_BYTES], groups[old, _BYTES] + groups[old, _BYTES_ERROR])
            state[_MISSED_MEMORY] = max(state[_MISSED_MEMORY], groups[old, _MEMORY] + groups[old, _MEMORY_ERROR])
            continue
        start = groups[old, _START]
        length = groups[old, _LENGTH]
        for j in range(length):
            table.arena[arena_used + j] = table.arena[start + j]
        groups[entry] = groups[old]
        table.amounts[entry] = table.amounts[old]
        groups[entry, _START] = arena_used
        digest = table.hashes[entry] = table.hashes[old]
        bucket = np.int64((digest ^ (digest >> _HASH_SHIFT)) & np.uint64(mask))
        while table.buckets[bucket] >= 0:
            bucket = (bucket + 1) & mask
        table.buckets[bucket] = entry
        arena_used += length
        entry += 1
    state[_USED] = entry
    state[_ARENA_USED] = arena_used


class GroupTally:
    """A bounded table of groups as flat arrays, filled from columns of keys and sums of their *amounts*."""

    def __init__(self, capacity: int = 65536, amounts: int = 0) -> None:
        if capacity < 16:
            raise ValueError("a group tally needs room for at least 16 groups")
        self.capacity = capacity
        bucket_count = 1 << (2 * capacity - 1).bit_length()
        self._table = _Table(
            np.full(bucket_count, -1, np.int32), np.zeros(capacity, np.uint64), np.zeros((capacity, _LENGTH + 1), np.int64),
            np.zeros((capacity, amounts), np.int64), np.zeros(_ARENA_BYTES_START, np.uint8), np.zeros(_UNTRACKED + 1, np.int64),
        )  # fmt: skip

    @property
    def missed_keys(self) -> int:
        """Maximum keys of a group outside the table."""
        return int(self._table.state[_MISSED_KEYS])

    @property
    def missed_bytes(self) -> int:
        """Maximum bytes of a group outside the table."""
        return int(self._table.state[_MISSED_BYTES])

    @property
    def missed_memory(self) -> int:
        """Maximum bytes in memory of a group outside the table."""
        return int(self._table.state[_MISSED_MEMORY])

    @property
    def untracked_keys(self) -> int:
        """Return the number of keys with a group name longer than `NAME_BYTES_MAX`."""
        return int(self._table.state[_UNTRACKED])

    def add_tags(self, batch: KeyBatch) -> None:
        """Count every key of *batch* that has a hash tag under it."""
        names, weights = _columns(batch)
        tags, first = (batch.tag_start, batch.tag_length), 0
        while first < len(batch):
            first = _add_tags(first, names, tags, weights, tuple(self._table))
            if first < len(batch):
                self._make_room(1)

    def add_prefixes(
        self, batch: KeyBatch, separators: bytes, depth_max: int, amounts: NDArray[np.int64] | None = None
    ) -> None:
        """Count keys of *batch* under up to *depth_max* prefixes that end in one of *separators*; *amounts* has a row per key."""
        separator = np.zeros(256, np.bool_)
        separator[np.frombuffer(separators, np.uint8)] = True
        names, weights = _columns(batch)
        amounts = np.empty((0, 0), np.int64) if amounts is None else amounts
        first = 0
        while first < len(batch):
            first = _add_prefixes(first, names, (separator, depth_max), weights, amounts, tuple(self._table))
            if first < len(batch):
                self._make_room(depth_max)

    def names(self) -> pa.Array:
        """Return the names of all groups held, as Arrow ``binary``."""
        held = self._table.groups[: self._table.state[_USED]]
        return gather_binary(self._table.arena, held[:, _START].copy(), held[:, _LENGTH].copy())

    def counts(self) -> NDArray[np.int64]:
        """Return int64[groups, 8]: keys, bytes, memory, expiring keys, errors of keys, bytes and memory, depth; as in `names`."""
        return self._table.groups[: self._table.state[_USED], : _DEPTH + 1].copy()

    def amounts(self) -> NDArray[np.int64]:
        """Return each group's sums of amounts since its entry, in the order of `names`."""
        return self._table.amounts[: self._table.state[_USED]].copy()

    def _make_room(self, count: int) -> None:
        if self._table.state[_USED] + count > self.capacity:
            _prune(self.capacity // 4, tuple(self._table))
        arena = self._table.arena
        if self._table.state[_ARENA_USED] + count * NAME_BYTES_MAX > len(arena):
            self._table = self._table._replace(arena=np.concatenate([arena, np.zeros_like(arena)]))


def _columns(batch: KeyBatch) -> tuple[tuple[Any, Any], tuple[Any, Any, Any]]:
    memory = np.empty(0, np.int64) if batch.memory_bytes is None else batch.memory_bytes
    return (batch.key_offsets, batch.key_data), (batch.serialized_bytes, memory, batch.expire_at_ms)
