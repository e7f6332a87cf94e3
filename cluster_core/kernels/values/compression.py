"""Values compressed one by one: what zstd makes of each, and the sums from which what all would save is estimated."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.compression import UNIT_BITS, VALUE_BYTES_MAX

SAMPLED_BYTES = 2 << 20
"""Of a file about so many bytes are compressed, all of a smaller one."""


def sample_shifts(places: NDArray[np.int64], size: int = 0) -> NDArray[np.int64]:
    """Return n for each of *places* in a file of *size* bytes where one value of 2**n is compressed.

    Of a file whose size is not known (0) all at the beginning are, and of each doubling behind it half as many as of the one before.
    """
    before = np.full(len(places), size - 1) if size else places
    digits: NDArray[np.int32] = np.frexp(before // SAMPLED_BYTES)[1]
    return digits.astype(np.int64)


def compressed_sizes(values: Iterable[memoryview]) -> list[int]:
    """Return the bytes that zstd makes of each of *values*, at its usual level."""
    codec = pa.Codec("zstd")
    found = []
    for value in values:
        head = value[:VALUE_BYTES_MAX]
        found.append(len(codec.compress(head, asbytes=True)) * len(value) // max(len(head), 1))
    return found


def sampled_columns(held: NDArray[np.int64], saved: NDArray[np.int64], shifts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the columns of `TextSums` from *sampled* on, a row a compressed value that takes *held* bytes in memory, of which *saved* are saved."""
    weight = np.where(held < VALUE_BYTES_MAX, 1 << shifts, 1)
    spread = weight * (weight - 1)
    saved_units, held_units = saved >> UNIT_BITS, held >> UNIT_BITS
    columns = (
        np.ones_like(held),
        weight * held,
        weight * saved,
        spread * saved_units**2,
        spread * saved_units * held_units,
    )
    return np.column_stack((*columns, spread * held_units**2))
