"""Batches of keys for tests, with defaults for all columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.keys.list_lines import batch_of_keys


def key_batch(
    keys: Sequence[tuple[bytes, int, int]], first_offset: int = 0, memory: Sequence[int] | None = None
) -> KeyBatch:
    """Strings of one element, as (key, serialized bytes, expiry in ms), and what each takes in memory, -1 where that is unknown."""
    batch = batch_of_keys(
        pa.array([key for key, _, _ in keys], pa.binary()),
        np.array([size for _, size, _ in keys], np.int64),
        first_offset,
    )
    batch.type = np.zeros(len(keys), np.uint8)
    batch.encoding = np.zeros(len(keys), np.uint8)
    batch.elements = np.ones(len(keys), np.int64)
    batch.expire_at_ms = np.array([expire_at_ms for _, _, expire_at_ms in keys], np.int64)
    if memory is not None:
        batch.memory_bytes = np.array(memory, np.int64)
        batch.estimate = np.zeros(len(keys), np.uint8)
    return batch
