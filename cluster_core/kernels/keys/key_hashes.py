"""A 64-bit hash of database and name of many keys at once, to choose a share of them."""

# numba's int64 is what `int` stands for below.
# mypy: disable-error-code="no-any-return,return-value,arg-type,assignment"
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.raw_bytes import word64

_FIRST, _SECOND, _LAST = 0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53


@njit(boundscheck=False)
def _hash_keys(data: Any, offsets: Any, db: Any, hashes: Any) -> None:
    """Write the hashes of the keys of a batch, none of them 0, to *hashes* (uint64, one a key)."""
    eight = np.uint64(8)
    for i in range(len(db)):
        at = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        value = (np.uint64(end - at) ^ (np.uint64(db[i]) << np.uint64(32))) * np.uint64(_FIRST)
        while at + 8 <= end:
            value = (value ^ word64(data, at)) * np.uint64(_SECOND)
            value ^= value >> np.uint64(32)
            at += 8
        word = np.uint64(0)
        while at < end:
            word = word << eight | np.uint64(data[at])
            at += 1
        value = (value ^ word) * np.uint64(_LAST)
        value ^= value >> np.uint64(29)
        hashes[i] = value if value != 0 else np.uint64(1)


def key_hashes(batch: KeyBatch) -> NDArray[np.uint64]:
    """Return a hash of database and name of each key of *batch*."""
    hashes = np.empty(len(batch), np.uint64)
    _hash_keys(batch.key_data, batch.key_offsets, batch.db, hashes)
    return hashes
