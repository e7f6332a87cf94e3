"""Columns of logged commands as Arrow: what leaves the walk for Spark, without a Python object per row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from cluster_core.kernels.aof.command_batch import CommandBatch
from cluster_core.kernels.columns import key_array, known


def command_columns(batch: CommandBatch, names: Sequence[bytes]) -> list[pa.Array]:
    """Return the columns of ``schemas.aof.COMMAND_FIELDS``, in that order, one row a command.

    The time is a timestamp in UTC, null where the log has none; names that are not UTF-8 stand with ``\\xhh``.
    """
    texts = pa.array([name.decode("utf-8", "backslashreplace") for name in names], pa.string())
    offsets = pa.array(batch.first_key)
    return [
        pa.array(batch.offset),
        known(batch.db, pa.int32()),
        texts.take(pa.array(batch.command)),
        pa.array(batch.words),
        pa.array(batch.size),
        pa.ListArray.from_arrays(offsets, key_array(batch.keys)),
        pa.ListArray.from_arrays(offsets, pa.array(batch.keys.slot.astype("int32"))),
        known(batch.time_s, pa.int64()).cast(pa.timestamp("s", "UTC")),
    ]
