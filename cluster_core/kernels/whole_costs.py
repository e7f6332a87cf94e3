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


class WholeColumns:
    """Costs of columns and their *loads* [resource][column]."""

    def __init__(self, costs: Sequence[int], loads: Sequence[Sequence[int]]) -> None:
        self._most = max(map(abs, costs), default=0), [max(load, default=0) for load in loads]
        kind = np.int64 if max(self._most[0], *self._most[1]).bit_length() <= WORD_BITS else object
        self._costs, self._loads = np.array(costs, kind), [np.array(load, kind) for load in loads]

    def reduced(self, prices: Sequence[int], bits: int) -> tuple[NDArray[Any], int]:
        """Return by column its cost less what its load is worth at *prices* of 2**-*bits* units, in units of 2**-k, and k: no more than the prices need."""
        dropped = unused_bits(prices, bits)
        kind = np.int64 if self.bits(prices, bits) - dropped <= WORD_BITS else object
        rest: NDArray[Any] = self._costs.astype(kind) << (bits - dropped)
        for p, load in zip(prices, self._loads, strict=True):
            if p:
                rest -= load.astype(kind) * (p >> dropped)
        return rest, bits - dropped

    def bits(self, prices: Sequence[int], bits: int) -> int:
        """Return how many bits a cost less what a load is worth may have."""
        cost, loads = self._most
        return ((cost << bits) + sum(p * load for p, load in zip(prices, loads, strict=True))).bit_length()

    def coarse(self, prices: Sequence[int], bits: int) -> tuple[int, ...]:
        """Return *prices* rounded down so that costs less what loads are worth fit a word: that is checked much faster."""
        return coarse(prices, self.bits(prices, bits), bits)


def cheapest_elsewhere(
    owner: Sequence[int], loads: Sequence[Sequence[int]], prices: Sequence[Sequence[int]], masters: Sequence[int], bits: int
) -> list[int]:  # fmt: skip
    """Return what each slot's loads [resource][slot] cost, rounded down, on the cheapest of *masters* that is not its *owner*, at *prices* [master][resource] of 2**-*bits* units."""
    most = sum(max(prices[n][r] for n in masters) * max(load) for r, load in enumerate(loads))
    kind = np.int64 if most.bit_length() <= WORD_BITS else object
    columns, owners = [np.array(load, kind) for load in loads], np.array(owner)
    least = np.full(len(owners), most, kind)
    for n in masters:
        costs = sum((column * p for p, column in zip(prices[n], columns, strict=True)), np.zeros(len(owners), kind))
        least = np.where(owners == n, least, np.minimum(least, costs))
    return [int(cost) >> bits for cost in least.tolist()]


def unused_bits(prices: Sequence[int], bits: int) -> int:
    """Return how many of the last *bits* are 0 in all *prices*."""
    used = 0
    for p in prices:
        used |= p
    return min(bits, (used & -used).bit_length() - 1) if used else bits


def coarse(prices: Sequence[int], needed: int, bits: int) -> tuple[int, ...]:
    """Return *prices* rounded down in their last *bits* until what takes *needed* of them fits a word: that is checked much faster."""
    dropped = min(bits, max(0, needed - WORD_BITS))
    return tuple(p >> dropped << dropped for p in prices)


def bits_needed(fee: Sequence[int], loads: Sequence[Sequence[int]], prices: Sequence[Sequence[int]]) -> int:
    """Return how many bits the greatest cost may have."""
    most = max(fee) + sum(max(row[r] for row in prices) * max(load) for r, load in enumerate(loads))
    return most.bit_length()


def add_up(values: NDArray[Any]) -> int:
    """Return the exact sum of whole numbers that are not negative."""
    half = WORD_BITS // 2
    return (int((values >> half).sum()) << half) + int((values & ((1 << half) - 1)).sum())
