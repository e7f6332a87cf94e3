"""What price lists prove of placements: by list the least that any placement costs, and how much more with a heavy slot on a master.

Let load on master n cost p[n][r] a unit of resource r, and room below its limit earn as much: a placement within all limits gets no
dearer by that, and every slot can be put where it is cheapest on its own (Lagrange).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.bound.joint_proof import JointProof, coarse
from cluster_core.rebalance.search.layout import Layout

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
FIRST = 64
"""Lists that there is room for at first."""
CONTENT = (1e-9, 1e-4, 1e-3, 1e-2, 0.03, 0.1)
"""Shares of what all lists prove that are given up, one after the other, until few lists are enough."""
PRECISION = 1e-6
"""Share of a bound that is not claimed: prices are whole numbers in a proof."""


class Way(NamedTuple):
    """Where a price list puts the light slots: what moves costs *fee*, and masters get *loads* [master, resource]."""

    fee: float
    loads: Floats


@njit()
def put_light(
    rows: Floats, fees: Floats, price: Floats, heavy: Bools, loads: Floats, places: Integers
) -> tuple[float, float]:
    """Put all slots but heavy ones where they are cheapest at *price*, in *places*, and add up their *loads*; return their fees, and what they cost in all."""
    fee, total = 0.0, 0.0
    masters, size = price.shape
    for s in range(len(rows)):
        if heavy[s]:
            continue
        least, at = 1e300, 0
        for n in range(masters):
            cost = fees[s, n]
            for r in range(size):
                cost += price[n, r] * rows[s, r]
            if cost < least:
                least, at = cost, n
        total += least
        places[s] = at
        fee += fees[s, at]
        for r in range(size):
            loads[at, r] += rows[s, r]
    return fee, total


class PriceLists:
    """Price lists and what they prove for the slots of a layout, of which *heavy* are decided one by one; costs in mean slots."""

    def __init__(self, layout: Layout, heavy: Sequence[int]) -> None:
        self._layout, self.limits = layout, layout.limits
        self._rows, self._heavy = np.ascontiguousarray(layout.rows), np.zeros(len(layout.slots), bool)
        self._heavy[heavy] = True
        self.fees = layout.fees_of_all()
        self.heavy_loads, self.heavy_fees = layout.loads_on(heavy), self.fees[heavy]
        self._total, self._price = np.empty(FIRST), np.empty((FIRST, self.limits.size))
        self._regret = np.empty((FIRST, len(heavy), len(layout.takers)))
        self._places = np.zeros(len(layout.slots), np.int64)
        self.count = 0
        self.work_of_one = int(self.fees.size * layout.size * 1.2)

    def weigh(self, price: Floats) -> Way:
        """Keep what *price* [master * size + resource] proves; return where it puts the light slots."""
        if self.count == len(self._total):
            self._total, self._price = (np.concatenate([a, np.empty_like(a)]) for a in (self._total, self._price))
            self._regret = np.concatenate([self._regret, np.empty_like(self._regret)])
        prices, loads = price.reshape(self.limits.shape), np.zeros(self.limits.shape)
        fee, light = put_light(self._rows, self.fees, prices, self._heavy, loads, self._places)
        costs = self.heavy_fees + (self.heavy_loads * prices).sum(2)
        least = costs.min(1) if len(costs) else np.zeros(0)
        self._total[self.count] = light + least.sum() - (prices * self.limits).sum()
        self._regret[self.count] = costs - least[:, None]
        self._price[self.count] = price
        self.count += 1
        return Way(fee, loads)

    def between(self, one: int, other: int, part: float) -> int:
        """Return the number of a new list, so large a *part* of the way from *one* to the *other*."""
        self.weigh(self._price[one] + part * (self._price[other] - self._price[one]))
        return self.count - 1

    def price(self, number: int) -> Floats:
        """Return a list."""
        price: Floats = self._price[number]
        return price

    def places(self, number: int) -> Integers:
        """Return where the slots go by a list; heavy ones on master 0."""
        prices = self._price[number].reshape(self.limits.shape)
        self._places[:] = 0
        put_light(self._rows, self.fees, prices, self._heavy, np.zeros(self.limits.shape), self._places)
        return self._places

    def proven(self, fixed: Sequence[tuple[int, int]], first: int = 0) -> Floats:
        """Return what each list from *first* on proves where heavy slots (by rank) are on the masters that *fixed* says."""
        first = max(first, 0)
        found = self._total[first : self.count].copy()
        for h, n in fixed:
            found += self._regret[first : self.count, h, n]
        return found

    def best(self, fixed: Sequence[tuple[int, int]], first: int = 0) -> tuple[float, int]:
        """Return the most that one of the lists from *first* on proves, and which."""
        found = self.proven(fixed, first)
        k = int(found.argmax())
        return float(found[k]), max(first, 0) + k

    def cover(self, cases: Sequence[Sequence[tuple[int, int]]], most: int) -> tuple[float, list[int]]:
        """Return what at most *most* of the lists prove for all *cases* together, and which do."""
        found = np.array([self.proven(fixed) for fixed in cases])
        least = float(found.max(1).min())
        chosen: list[int] = []
        for line in (least - abs(least) * part for part in CONTENT):
            left, chosen = found >= line, []
            while len(left) and len(chosen) < most:
                chosen.append(int(left.sum(0).argmax()))
                left = left[~left[:, chosen[-1]]]
            if not len(left):
                break
        return float(found[:, chosen].max(1).min()), chosen

    def proof(self, least: float, chosen: Sequence[int], tree: Sequence[int]) -> JointProof | None:
        """Return the proof that every placement costs *least*, by the lists *chosen* and a *tree* of cases; None where that is less than nothing."""
        layout = self._layout
        value = int(least * float(layout.mean[layout.arrays.scaled.cost]) * (1 - PRECISION))
        return JointProof(value, tuple(self.whole(k) for k in chosen), tuple(tree)) if value >= 0 else None

    def whole(self, number: int) -> tuple[int, ...]:
        """Return a list in 2**-60 units of cost a unit of the resource, for all masters."""
        layout = self._layout
        scaled, mean, size = layout.arrays.scaled, layout.mean, layout.size
        row = [0] * (size * len(scaled.masters))
        for k, n in enumerate(layout.takers):
            for r in range(size):
                unit = float(mean[scaled.cost] / mean[r])
                row[n * size + r] = int(float(self._price[number, k * size + r]) * unit * (1 << PRICE_BITS))
        return coarse(scaled, row)
