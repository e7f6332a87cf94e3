"""How keys are used and how long they stay, as columns of amounts that add up: untouched memory, memory that expires, accesses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.kernels.key_batch import KeyBatch
from cluster_core.load.access_rate import NEW_KEY_COUNTER

HOUR_S = 3600
DAY_S = 24 * HOUR_S
UNTOUCHED_S = (DAY_S, 7 * DAY_S, 30 * DAY_S)
EXPIRING_S = (HOUR_S, DAY_S, 7 * DAY_S)

USES = (
    "untouched_1d_bytes",
    "untouched_7d_bytes",
    "untouched_30d_bytes",
    "expiring_1h_bytes",
    "expiring_1d_bytes",
    "expiring_7d_bytes",
    "expiring_bytes",
    "accesses_a_1000000_s",
    "accesses_error",
)
"""The amounts of a key: bytes in memory (of the dump where memory is not known) by how long nobody touched them and how soon they
expire, each with all that came before it; accesses in 1,000,000 s, and by how much they may be more.
"""
PER_S = 1_000_000
_EXPIRING, _ACCESSES = len(UNTOUCHED_S), len(UNTOUCHED_S) + len(EXPIRING_S) + 1


@njit()
def _fill(
    idle_s: Any, freq: Any, expire_at_ms: Any, weights: Any, taken_at_ms: Any, rates: Any, limits: Any, amounts: Any
) -> Any:
    untouched, expiring = limits
    known = 0
    for i in range(len(weights)):
        weight: Any = max(np.int64(weights[i]), 0)
        if idle_s[i] >= 0:
            known |= 1
            for step in range(len(untouched)):
                if idle_s[i] >= untouched[step]:
                    amounts[i, step] = weight
        if expire_at_ms[i] >= 0:
            known |= 4
            left_ms = expire_at_ms[i] - taken_at_ms
            for step in range(len(expiring)):
                if left_ms < expiring[step] * 1000:
                    amounts[i, _EXPIRING + step] = weight
            amounts[i, _ACCESSES - 1] = weight
        if freq[i] >= 0 and len(rates) > 0:
            known |= 2
            amounts[i, _ACCESSES + (0 if freq[i] > NEW_KEY_COUNTER else 1)] = rates[freq[i]]
    return known


@njit()
def add_by_slot(slot: Any, amounts: Any, sums: Any) -> None:
    """Add the row of *amounts* of each key to that of its slot in *sums*."""
    for i in range(len(slot)):
        for column in range(amounts.shape[1]):
            sums[slot[i], column] += amounts[i, column]


class KeyUses:
    """Makes the amounts (`USES`) of batches of keys whose dump was taken at *taken_at_ms*; *rates* are accesses a second by LFU counter.

    *knows_idle*, *knows_counters*: whether any key had an idle time, or a counter that tells a rate.
    """

    def __init__(self, taken_at_ms: int, rates: Sequence[float] | None) -> None:
        self.knows_idle = self.knows_counters = False
        self._taken_at_ms = taken_at_ms
        self._rates = np.array([round(rate * PER_S) for rate in rates or ()], np.int64)
        self._limits = np.array(UNTOUCHED_S, np.int64), np.array(EXPIRING_S, np.int64)

    def amounts(self, batch: KeyBatch) -> NDArray[np.int64] | None:
        """Return int64[keys, `USES`]; None where nothing is known of any key."""
        amounts = np.zeros((len(batch), len(USES)), np.int64)
        known = _fill(
            batch.idle_s,
            batch.freq,
            batch.expire_at_ms,
            batch.weights(),
            self._taken_at_ms,
            self._rates,
            self._limits,
            amounts,
        )
        self.knows_idle |= bool(known & 1)
        self.knows_counters |= bool(known & 2)
        return amounts if known else None
