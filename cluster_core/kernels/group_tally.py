"""Heavy groups of keys (hash tags, prefixes) in bounded memory, with a proven error.

How this works.  A table holds at most *capacity* groups with their keys, bytes and expiring keys.  When it could overflow, the
groups that are light in keys *and* in bytes are dropped, about half of them, and the heaviest dropped figures become the table's
``missed`` bound: no group outside the table has more than that.  A group that enters later carries the bound of that moment as
its error, so for every group shown ``keys <= true keys <= keys + keys_error``, and the same for bytes.  With room for all groups
nothing is dropped and every error is 0.  (Lossy counting, Manku and Motwani 2002, with the Space-Saving bound of Metwally et
al. 2005, for two weights at once.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.columns import gather_binary
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch

NAME_BYTES_MAX = 1024
"""Longer group names are not tracked; `GroupTally.untracked_keys` counts their keys."""


class GroupRow(NamedTuple):
    """One group: counts, and by how much the true counts may be higher."""

    name: bytes
    depth: int
    keys: int
    serialized_bytes: int
    expires: int
    keys_error: int
    bytes_error: int


_USED, _ARENA_USED, _MISSED_KEYS, _MISSED_BYTES, _UNTRACKED = range(5)
_DEPTH, _START, _LENGTH = 5, 6, 7
_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x100000001B3)
_HASH_SHIFT = np.uint64(32)
_ARENA_BYTES_START = 1 << 20


@njit(inline="always")
def _find(data, begin, length, digest, buckets, hashes, groups, arena):  # type: ignore[no-untyped-def]
    """Return the entry of a name, or ``-1 - bucket`` where it would go."""
    mask = len(buckets) - 1
    bucket = np.int64((digest ^ (digest >> _HASH_SHIFT)) & np.uint64(mask))
    while True:
        entry = np.int64(buckets[bucket])
        if entry < 0:
            return -1 - bucket
        if hashes[entry] == digest and groups[entry, 7] == length:
            start = groups[entry, 6]
            same = True
            for i in range(length):
                if arena[start + i] != data[begin + i]:
                    same = False
                    break
            if same:
                return entry
        bucket = (bucket + 1) & mask


@njit(inline="always")
def _count(data, begin, length, digest, depth, size, expires, buckets, hashes, groups, arena, state):  # type: ignore[no-untyped-def]
    entry = _find(data, begin, length, digest, buckets, hashes, groups, arena)
    if entry < 0:
        bucket = -1 - entry
        entry = state[0]
        start = state[1]
        state[0] += 1
        state[1] += length
        buckets[bucket] = entry
        hashes[entry] = digest
        for i in range(length):
            arena[start + i] = data[begin + i]
        groups[entry, 0] = 0
        groups[entry, 1] = 0
        groups[entry, 2] = 0
        groups[entry, 3] = state[2]
        groups[entry, 4] = state[3]
        groups[entry, 5] = depth
        groups[entry, 6] = start
        groups[entry, 7] = length
    groups[entry, 0] += 1
    groups[entry, 1] += size
    groups[entry, 2] += expires


@njit()
def _add_tags(first, offsets, data, tag_start, tag_length, sizes, expire_at_ms, buckets, hashes, groups, arena, state):  # type: ignore[no-untyped-def]
    """Count keys from *first* on under their hash tags; return the first key for which there is no room."""
    for i in range(first, len(tag_length)):
        length = np.int64(tag_length[i])
        if length == 0:
            continue
        if length > NAME_BYTES_MAX:
            state[4] += 1
            continue
        if state[0] + 1 > len(groups) or state[1] + NAME_BYTES_MAX > len(arena):
            return i
        begin = np.int64(offsets[i]) + np.int64(tag_start[i])
        digest = _HASH_SEED
        for j in range(begin, begin + length):
            digest = (digest ^ np.uint64(data[j])) * _HASH_PRIME
        size = max(np.int64(sizes[i]), 0)
        expires = 1 if expire_at_ms[i] >= 0 else 0
        _count(data, begin, length, digest, 0, size, expires, buckets, hashes, groups, arena, state)
    return len(tag_length)


@njit()
def _add_prefixes(  # type: ignore[no-untyped-def]
    first, offsets, data, separator, depth_max, sizes, expire_at_ms, buckets, hashes, groups, arena, state
):
    """Count keys from *first* on under their prefixes; return the first key for which there is no room."""
    for i in range(first, len(sizes)):
        if state[0] + depth_max > len(groups) or state[1] + depth_max * NAME_BYTES_MAX > len(arena):
            return i
        begin = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        size = max(np.int64(sizes[i]), 0)
        expires = 1 if expire_at_ms[i] >= 0 else 0
        digest = _HASH_SEED
        depth = 0
        for j in range(begin, end):
            digest = (digest ^ np.uint64(data[j])) * _HASH_PRIME
            if separator[data[j]]:
                depth += 1
                length = j + 1 - begin
                if length > NAME_BYTES_MAX:
                    state[4] += 1
                else:
                    _count(data, begin, length, digest, depth, size, expires, buckets, hashes, groups, arena, state)
                if depth == depth_max:
                    break
    return len(sizes)


@njit()
def _prune(keep, buckets, hashes, groups, arena, state):  # type: ignore[no-untyped-def]
    """Drop the groups that are light in keys and in bytes, and pack what stays."""
    used = state[0]
    keys_cut = np.sort(groups[:used, 0])[used - keep]
    bytes_cut = np.sort(groups[:used, 1])[used - keep]
    buckets[:] = -1
    mask = len(buckets) - 1
    entry = 0
    arena_used = 0
    for old in range(used):
        if not (groups[old, 0] > keys_cut or groups[old, 1] > bytes_cut):
            state[2] = max(state[2], groups[old, 0] + groups[old, 3])
            state[3] = max(state[3], groups[old, 1] + groups[old, 4])
            continue
        start = groups[old, 6]
        length = groups[old, 7]
        for j in range(length):
            arena[arena_used + j] = arena[start + j]
        for column in range(8):
            groups[entry, column] = groups[old, column]
        groups[entry, 6] = arena_used
        hashes[entry] = hashes[old]
        digest = hashes[entry]
        bucket = np.int64((digest ^ (digest >> _HASH_SHIFT)) & np.uint64(mask))
        while buckets[bucket] >= 0:
            bucket = (bucket + 1) & mask
        buckets[bucket] = entry
        arena_used += length
        entry += 1
    state[0] = entry
    state[1] = arena_used


class GroupTally:
    """A bounded table of groups as flat arrays, filled from columns of keys."""

    def __init__(self, capacity: int = 65536) -> None:
        if capacity < 16:
            raise ValueError("a group tally needs room for at least 16 groups")
        self.capacity = capacity
        bucket_count = 1 << (2 * capacity - 1).bit_length()
        self._buckets = np.full(bucket_count, -1, np.int32)
        self._hashes = np.zeros(capacity, np.uint64)
        self._groups = np.zeros((capacity, 8), np.int64)
        self._arena = np.zeros(_ARENA_BYTES_START, np.uint8)
        self._state = np.zeros(8, np.int64)

    @property
    def missed_keys(self) -> int:
        """No group outside the table has more keys than this."""
        return int(self._state[_MISSED_KEYS])

    @property
    def missed_bytes(self) -> int:
        """No group outside the table has more bytes than this."""
        return int(self._state[_MISSED_BYTES])

    @property
    def untracked_keys(self) -> int:
        """Keys whose group name is longer than `NAME_BYTES_MAX`."""
        return int(self._state[_UNTRACKED])

    def add_tags(self, batch: KeyBatch) -> None:
        """Count every key of *batch* that has a hash tag under it."""
        first = 0
        while first < len(batch):
            first = _add_tags(
                first, batch.key_offsets, batch.key_data, batch.tag_start, batch.tag_length,
                batch.serialized_bytes, batch.expire_at_ms,
                self._buckets, self._hashes, self._groups, self._arena, self._state,
            )  # fmt: skip
            if first < len(batch):
                self._make_room(1)

    def add_prefixes(self, batch: KeyBatch, separators: bytes, depth_max: int) -> None:
        """Count every key of *batch* under its first *depth_max* prefixes that end in a byte of *separators*."""
        separator = np.zeros(256, np.bool_)
        separator[np.frombuffer(separators, np.uint8)] = True
        first = 0
        while first < len(batch):
            first = _add_prefixes(
                first, batch.key_offsets, batch.key_data, separator, depth_max,
                batch.serialized_bytes, batch.expire_at_ms,
                self._buckets, self._hashes, self._groups, self._arena, self._state,
            )  # fmt: skip
            if first < len(batch):
                self._make_room(depth_max)

    def names(self) -> pa.Array:
        """Return the names of all groups held, as Arrow ``binary``."""
        held = self._groups[: self._state[_USED]]
        return gather_binary(self._arena, held[:, _START].copy(), held[:, _LENGTH].copy())

    def counts(self) -> NDArray[np.int64]:
        """Return int64[groups, 6]: keys, bytes, expiring keys, keys error, bytes error, depth; in the order of `names`."""
        return self._groups[: self._state[_USED], : _DEPTH + 1].copy()

    def rows(self) -> list[GroupRow]:
        """Return all groups held, in the order of their names."""
        return sorted(
            GroupRow(name, depth, keys, size, expires, keys_error, bytes_error)
            for name, (keys, size, expires, keys_error, bytes_error, depth) in zip(
                self.names().to_pylist(), self.counts().tolist(), strict=True
            )
        )

    def _make_room(self, count: int) -> None:
        if self._state[_USED] + count > self.capacity:
            _prune(self.capacity // 4, self._buckets, self._hashes, self._groups, self._arena, self._state)
        if self._state[_ARENA_USED] + count * NAME_BYTES_MAX > len(self._arena):
            larger: NDArray[np.uint8] = np.zeros(2 * len(self._arena), np.uint8)
            larger[: len(self._arena)] = self._arena
            self._arena = larger
