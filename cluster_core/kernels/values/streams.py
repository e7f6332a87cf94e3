"""Streams measured under several conditions: their records are skimmed once more for each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.formats.rdb.head import RdbHead
from cluster_core.kernels.rdb.skim import RdbSkimmer
from cluster_core.kernels.rdb.tables import Tables
from cluster_core.memory.model import UNMEASURED, MemorySettings

_START = 1
"""Records without a file's beginning do not begin at 0."""


class _OneModelSkimmer(RdbSkimmer):
    """Skims *count* records of a file whose head is *head*, and measures them by one model, whatever server wrote them."""

    def __init__(self, head: RdbHead, count: int, size: int, tables: Tables) -> None:
        self._given = tables
        super().__init__(
            "", start=_START, end=_START + size, head=head, check_crc=False, batch_keys=count, memory=MemorySettings()
        )

    def _new_tables(self) -> Tables:
        return self._given


def measure_streams(
    head: RdbHead,
    records: NDArray[np.uint8],
    count: int,
    grammar: NDArray[np.int64],
    models: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return int64[count, models]: what each of the *count* streams whose *records* follow each other takes; `UNMEASURED` where one is damaged."""
    found = np.full((count, len(models)), UNMEASURED, np.int64)
    for column, model in enumerate(models):
        skimmer = _OneModelSkimmer(head, count, len(records), Tables(grammar, model, np.empty(0, np.int64)))
        at = row = 0
        try:
            while not skimmer.done:
                ahead = skimmer.skippable()
                skimmer.skipped(ahead)
                at += ahead
                room = skimmer.room()
                size = min(len(room), len(records) - at)
                room[:size] = records[at : at + size].data
                skimmer.filled(size)
                at += size
                for batch in skimmer.batches():
                    assert batch.memory_bytes is not None
                    found[row : row + len(batch), column] = batch.memory_bytes
                    row += len(batch)
        except DecodeError:
            found[:] = UNMEASURED
            break
    return found
