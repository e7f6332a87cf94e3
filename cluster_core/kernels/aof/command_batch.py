"""Columns of a batch of logged commands: the value that flows from an append-only log to the tallies, and the same as Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cluster_core.kernels.key_batch import KeyBatch, key_array, known


@dataclass(slots=True)
class CommandBatch:
    """One row a command, *n* rows, and in *keys* one row for every key that a command names.

    The keys of command *i* are rows ``first_key[i]`` to ``first_key[i + 1] - 1`` of *keys*; *command* indexes the walker's
    ``names``; *db* is -1 where a range has not told it yet; *time_s* (epoch) is -1 where the log has no timestamps.  In
    *keys*, ``serialized_bytes`` is the key's share of the command's bytes (its own word and what follows up to the next
    key; the first key's begins with the command), ``offset`` is the command's; type, size and expiry are not known.
    """

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    command: NDArray[np.uint16]
    words: NDArray[np.int64]
    db: NDArray[np.int32]
    time_s: NDArray[np.int64]
    first_key: NDArray[np.int32]
    keys: KeyBatch

    def __len__(self) -> int:
        return len(self.offset)

    def per_key(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return *column*, which has a row a command, with a row a key."""
        return np.repeat(column, np.diff(self.first_key))


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
