"""The living keys of a replayed log as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from cluster_core.aof.keyspace import LiveKey
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.kernels.keys.list_lines import batch_of_keys
from cluster_core.rdb.grammar import KEY_TYPES

_CODES = {name: code for code, name in enumerate(KEY_TYPES)}


def batch_of_live(rows: Sequence[LiveKey], first_row: int) -> KeyBatch:
    """Return keys that are certain as a `KeyBatch`; sizes are `LiveKey.live_bytes`, *offset* is a number from *first_row* on."""
    keys = pa.array([row.key for row in rows], pa.binary())
    batch = batch_of_keys(keys, np.array([row.live_bytes for row in rows], np.int64), first_row)
    batch.db = np.array([row.db for row in rows], np.int32)
    batch.type = np.array([_CODES[row.type or ""] for row in rows], np.uint8)
    batch.elements = np.array([row.elements for row in rows], np.int64)
    batch.expire_at_ms = np.array([row.expire_at_ms for row in rows], np.int64)
    return batch
