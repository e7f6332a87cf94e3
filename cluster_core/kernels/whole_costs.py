"""What slots cost on every master, in whole numbers without rounding: in words where these hold it, else in whole numbers of any size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 62
"""Whole numbers of so many bits are added in one word."""


class WholeCosts:
    """Costs ``[master][slot]``: *fee* by slot where it is not on its *owner*, and its *loads* [resource][slot] at *prices* [master][resource]."""

    def __init__(
        self, fee: Sequence[int], owner: Sequence[int], loads: Sequence[Sequence[int]], prices: Sequence[Sequence[int]]
    ) -> None:
        kind = np.int64 if bits_needed(fee, loads, prices) <= WORD_BITS else object
        columns = [np.array(load, kind) for load in loads]
        fees, owners = np.array(fee, kind), np.array(owner)
        self._costs: list[NDArray[Any]] = []
        for n, row in enumerate(prices):
            costs = fees * (owners != n)
            for p, column in zip(row, columns, strict=True):
                if p:
                    costs += p * column
            self._costs.append(costs)

    def lower(self, s: int, n: int, cost: int) -> None:
        """Let slot *s* cost less on master *n* by a part of what its load costs there."""
        self._costs[n][s] -= cost

    def cheapest(self, masters: Sequence[int], fixed: Sequence[tuple[int, int]]) -> NDArray[Any]:
        """Return by slot the least cost on one of *masters*; those of *fixed* on the master that it says."""
        least: NDArray[Any] = np.minimum.reduce([self._costs[n] for n in masters])
        for s, n in fixed:
            least[s] = self._costs[n][s]
        return least

    def at(self, s: int, n: int) -> int:
        """Return what slot *s* costs on master *n*."""
        return int(self._costs[n][s])


def bits_needed(fee: Sequence[int], loads: Sequence[Sequence[int]], prices: Sequence[Sequence[int]]) -> int:
    """Return how many bits the greatest cost may have."""
    most = max(fee) + sum(max(row[r] for row in prices) * max(load) for r, load in enumerate(loads))
    return most.bit_length()


def add_up(values: NDArray[Any]) -> int:
    """Return the exact sum of whole numbers that are not negative."""
    half = WORD_BITS // 2
    return (int((values >> half).sum()) << half) + int((values & ((1 << half) - 1)).sum())
