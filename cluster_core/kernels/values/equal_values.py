"""Values that are there several times, told by their hashes: the frequent ones by themselves, the others by a sample of hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VALUES_MAX = 20_000
"""Different values that are held; up to so many are counted exactly."""
FREQUENT_SHARE = 1000
"""A value that is one of so many, or of fewer, is counted by itself: each of them is among those that are held."""
SAMPLED_MIN = 30
"""Fewer sampled values that are there twice say nothing of the others."""
STORED_BYTES = 104
"""What the one copy that stays needs besides: entry, object, its name, rounding."""


class EqualValues:
    """Values by their hashes: *held* has a row of hash, copies, bytes that each copy saves; *shift*: the sample are hashes that are a multiple of ``1 << shift``."""

    def __init__(self) -> None:
        self.shift = 0
        self.count = 0
        self.held = np.empty((0, 3), np.int64)

    def add(self, hashes: NDArray[np.int64], savings: NDArray[np.int64]) -> None:
        """Count values: of those that are not held yet the ones in the sample."""
        self.count += len(hashes)
        chosen = self._is_sampled(hashes) | np.isin(hashes, self.held[:, 0])
        new = np.column_stack((hashes, np.ones_like(hashes), savings))[chosen]
        held = summed(np.concatenate((self.held, new)))
        if len(held) > VALUES_MAX:
            while self._is_sampled(held[:, 0]).sum() > VALUES_MAX // 2:
                self.shift += 1
            others = np.flatnonzero(~self._is_sampled(held[:, 0]) & (held[:, 1] > 1))
            others = others[np.argsort(-held[others, 1], kind="stable")][: VALUES_MAX // 2]
            held = held[np.sort(np.concatenate((np.flatnonzero(self._is_sampled(held[:, 0])), others)))]
        self.held = held

    def _is_sampled(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = hashes & ((1 << self.shift) - 1) == 0
        return found


def summed(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of hash, copies, bytes: one a hash, in rising order."""
    _, first, places = np.unique(rows[:, 0], return_index=True, return_inverse=True)
    found = rows[first]
    found[:, 1] = np.bincount(places, rows[:, 1]).astype(np.int64)
    return found


def shared(rows: NDArray[np.int64], shift: int, count: int) -> tuple[int, int]:
    """Keys whose values are there several times, and what storing each value once saves.

    *rows* (hash, copies, bytes) were held of *count* values, those that are rare by a sample of one in ``1 << shift``.
    """
    rows = summed(rows)
    hashes, copies, saving = rows.T
    saved = (copies - 1) * saving - STORED_BYTES
    several = (copies > 1) & (saved > 0)
    frequent = several & ((copies * FREQUENT_SHARE >= count) | (shift == 0))
    rare = several & ~frequent & (hashes & ((1 << shift) - 1) == 0)
    weight = 1 << shift if rare.sum() >= SAMPLED_MIN else 0
    keys, size = (int(of[frequent].sum() + weight * of[rare].sum()) for of in (copies, saved))
    return keys, size
