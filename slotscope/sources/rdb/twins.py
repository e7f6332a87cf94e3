"""Keys that are in dumps more than once: the second look at those whose hashes met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cluster_core.errors import DecodeError
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.rdb.key_twins import TwinSearch, repeated_hashes
from slotscope.runtime.text import shown
from slotscope.sources.rdb.files import RdbUnit, RdbUnitReader

HASHES_MAX = 32 << 20
"""Keys of one unit among which those are sought that are there twice: 8 bytes each, and as much again at its end."""
TWINS_LISTED = 5


def find_twins(units: Sequence[RdbUnit], hashes: Iterable[NDArray[np.uint64]], *, listed_max: int) -> TwinSearch | None:
    """Return the keys that are in *units* more than once, whose hashes are *hashes*; None if there are none.

    The units are read again, each up to its first error, only where hashes met.
    """
    suspects = repeated_hashes(hashes)
    if not len(suspects):
        return None
    search = TwinSearch(suspects, listed_max)
    for unit in units:
        for batch in _readable(unit):
            search.add(batch.where(~batch.hollow()), unit.path)
    return search if search.count else None


def told(found: TwinSearch) -> list[str]:
    """Return the keys of *found* in words, with the places of their records."""
    return [
        f"key {shown(twin.key)} of database {twin.db} at offsets {twin.first[1]} and {twin.second[1]}"
        for twin in found.twins
    ]


def _readable(unit: RdbUnit) -> Iterator[KeyBatch]:
    try:
        yield from RdbUnitReader(unit, check_crc=False)
    except DecodeError:
        return
