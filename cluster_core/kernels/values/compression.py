"""Values compressed one by one: what zstd makes of each, and the sums from which what all would save is estimated."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.advice.compression import UNIT_BITS, VALUE_BYTES_MAX


def compressed_sizes(values: Iterable[memoryview]) -> list[int]:
    """Return the bytes that zstd makes of each of *values*, at its usual level."""
    codec = pa.Codec("zstd")
    found = []
    for value in values:
        head = value[:VALUE_BYTES_MAX]
        found.append(len(codec.compress(head, asbytes=True)) * len(value) // max(len(head), 1))
    return found


def sampled_columns(held: NDArray[np.int64], saved: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return the columns of `TextSums` from *sampled* on, a row a compressed value that takes *held* bytes in memory, of which *saved* are saved."""
    weight = np.where(held < VALUE_BYTES_MAX, 1 << shift, 1)
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
