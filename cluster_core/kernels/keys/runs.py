"""Keys of a batch that lie side by side in the file and go to one place: what can be copied in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.key_batch import KeyBatch


class KeyRuns(NamedTuple):
    """Runs as columns, one entry a run: bytes *start* to *end* of the file are whole keys of database *db*, all for *part*; the first
    key of a run is of *slot*.
    """

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    part: NDArray[np.int64]
    db: NDArray[np.int32]
    slot: NDArray[np.uint16]

    def spans(self, span_bytes: int) -> Iterator[KeyRuns]:
        """Yield the runs in groups that lie within *span_bytes* of the file each; a run that is longer is alone."""
        first = 0
        while first < len(self.start):
            within = int(np.searchsorted(self.end, self.start[first] + span_bytes, side="right"))
            last = max(within, first + 1)
            cut = slice(first, last)
            yield KeyRuns(self.start[cut], self.end[cut], self.part[cut], self.db[cut], self.slot[cut])
            first = last


def key_runs(batch: KeyBatch, part_of: NDArray[np.int64], *, by_slot: bool) -> KeyRuns:
    """Return the runs of *batch*; *part_of* holds the part of each of the 16384 slots.  With *by_slot* no run crosses slots."""
    starts, ends = batch.offset, batch.offset + batch.serialized_bytes
    parts = part_of[batch.slot]
    breaks = (parts[1:] != parts[:-1]) | (starts[1:] != ends[:-1]) | (batch.db[1:] != batch.db[:-1])
    if by_slot:
        breaks |= batch.slot[1:] != batch.slot[:-1]
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1)).astype(np.int64)[: len(batch)]
    last = np.concatenate((first[1:] - 1, [len(batch) - 1])).astype(np.int64)[: len(first)]
    return KeyRuns(starts[first], ends[last], parts[first], batch.db[first], batch.slot[first])


def gaps(batch: KeyBatch, before: int) -> list[tuple[int, int]]:
    """Return (start, end) of what lies before and between the keys of *batch*; the key before it ended at *before*."""
    starts = batch.offset
    ends = np.concatenate(([before], (batch.offset + batch.serialized_bytes)[:-1]))
    found = np.flatnonzero(starts != ends)
    return list(zip(ends[found].tolist(), starts[found].tolist(), strict=True))
