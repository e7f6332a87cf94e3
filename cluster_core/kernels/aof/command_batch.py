"""Columns of a batch of logged commands, the value that flows from an append-only log to the tallies and to Arrow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.keys.batch import KeyBatch


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
