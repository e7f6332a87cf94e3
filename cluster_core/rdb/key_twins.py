"""Keys that are in a dump more than once, which no server loads: suspects by a 64-bit hash of database and name, then the names themselves.

A hash takes 8 bytes a key; names are compared only for keys whose hash was met before, so nothing is found that is not there.
"""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch

SUSPECTS_MAX = 1 << 16
"""More hashes than this are not followed up: that there are so many is enough to know."""

_BUCKET_HASHES = 1 << 14
_FIRST, _SECOND, _LAST = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


class Twin(NamedTuple):
    """A key that was met before: where it is, and where it was first (*source* and offset of each record)."""

    db: int
    key: bytes
    first: tuple[str, int]
    second: tuple[str, int]


@njit(boundscheck=False)
def _hash_keys(data: Any, offsets: Any, db: Any, hashes: Any) -> None:
    """Write the hashes of the keys of a batch, none of them 0, to *hashes* (uint64, one a key)."""
    eight = np.uint64(8)
    for i in range(len(db)):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        value = (np.uint64(end - at) ^ (np.uint64(db[i]) << np.uint64(32))) * np.uint64(_FIRST)
        while at + 8 <= end:
            word = np.uint64(data[at]) | np.uint64(data[at + 1]) << eight
            word |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
            word |= np.uint64(data[at + 4]) << np.uint64(32) | np.uint64(data[at + 5]) << np.uint64(40)
            word |= np.uint64(data[at + 6]) << np.uint64(48) | np.uint64(data[at + 7]) << np.uint64(56)
            value = (value ^ word) * np.uint64(_SECOND)
            value ^= value >> np.uint64(32)
            at += 8
        word = np.uint64(0)
        while at < end:
            word = word << eight | np.uint64(data[at])
            at += 1
        value = (value ^ word) * np.uint64(_LAST)
        value ^= value >> np.uint64(29)
        hashes[i] = value if value != 0 else np.uint64(1)


@njit(boundscheck=False)
def _find_repeated(hashes: Any, bits: int, starts: Any, placed: Any, table: Any, found: Any) -> int:
    """Write hashes that are in *hashes* twice or more to *found*; return how many were met before.

    *starts* int64[2**bits + 1] zeros, *placed* like *hashes*; *table* uint64, a power of two in length, more than twice the largest bucket.
    """
    shift = np.uint64(64 - bits)
    for i in range(len(hashes)):
        starts[np.int64(hashes[i] >> shift) + 1] += 1
    for bucket in range(1, len(starts)):
        starts[bucket] += starts[bucket - 1]
    for i in range(len(hashes)):
        bucket = np.int64(hashes[i] >> shift)
        placed[starts[bucket]] = hashes[i]
        starts[bucket] += 1
    mask = np.uint64(len(table) - 1)
    repeated = 0
    first = np.int64(0)
    for bucket in range(len(starts) - 1):
        last = starts[bucket]
        if last - first > len(table) // 2:  # a hostile bucket: whoever makes hashes meet is suspected, too
            for i in range(first, last):
                if repeated < len(found):
                    found[repeated] = placed[i]
                repeated += 1
            first = last
            continue
        table[:] = 0
        for i in range(first, last):
            value = placed[i]
            place = value & mask
            while table[place] != 0 and table[place] != value:
                place = (place + np.uint64(1)) & mask
            if table[place] == value:
                if repeated < len(found):
                    found[repeated] = value
                repeated += 1
            table[place] = value
        first = last
    return repeated


def key_hashes(batch: KeyBatch) -> NDArray[np.uint64]:
    """Return a hash of database and name of each key of *batch*."""
    hashes = np.empty(len(batch), np.uint64)
    _hash_keys(batch.key_data, batch.key_offsets, batch.db, hashes)
    return hashes


def repeated_hashes(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Return, sorted, the hashes that are in *parts* more than once, at most `SUSPECTS_MAX` of them."""
    held = list(parts)
    hashes = np.concatenate(held) if held else np.empty(0, np.uint64)
    bits = max((len(hashes) // _BUCKET_HASHES).bit_length(), 1)
    found = np.empty(SUSPECTS_MAX, np.uint64)
    count = _find_repeated(
        hashes, bits, np.zeros((1 << bits) + 1, np.int64), np.empty_like(hashes), np.zeros(4 * _BUCKET_HASHES, np.uint64), found
    )  # fmt: skip
    found = np.sort(found[: min(count, SUSPECTS_MAX)])  # np.unique would load masked arrays, a twenty-fifth of a second
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


class TwinSearch:
    """Follows up *suspects*: `add` every batch of every dump in order; *twins* are keys that were met before, *count* of them in all."""

    def __init__(self, suspects: NDArray[np.uint64], listed_max: int) -> None:
        self.count = 0
        self.twins: list[Twin] = []
        self._suspects = suspects
        self._listed_max = listed_max
        self._met: dict[tuple[int, bytes], tuple[str, int]] = {}

    def add(self, batch: KeyBatch, source: str) -> None:
        """Compare the suspected keys of *batch* with those before."""
        hashes = key_hashes(batch)
        places = np.minimum(np.searchsorted(self._suspects, hashes), len(self._suspects) - 1)
        for row in np.flatnonzero(self._suspects[places] == hashes).tolist():
            name = int(batch.db[row]), batch.key(row)
            place = source, int(batch.offset[row])
            first = self._met.get(name)
            if first is None:
                self._met[name] = place
            else:
                self.count += 1
                if len(self.twins) < self._listed_max:
                    self.twins.append(Twin(*name, first, place))
