"""Prove a plan's bound by prices of load (Lagrangian duality), summed up in whole numbers.

A unit of resource r pays p[n][r] >= 0 on master n, q[z][r] >= 0 in zone z, and k[n][r] >= 0 if it stays on owner n.
Each slot pays at least at its cheapest master, and all load within limits pays at most prices times limits. So every
placement within limits has, for any prices,

    cost moved  >=  sum over slots of min(stay, move + cheapest master)  -  sum of prices times limits

If the right side is above 0 with free moves, no placement meets the limits. A slot heavier than a master's limit counts
as that limit, as its host holds no other load of that resource.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, fillers

WORD_BITS = 62
"""Sums below so many bits use machine words, larger ones Python's integers."""
PRICE_BITS = 24
"""Minimum bits of the largest price."""
HALF = 31
NO_ZONES: Mapping[str, NDArray[np.float64]] = {}


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by master id and by zone, per resource, in 2**-*bits* units of cost per unit of load (default 0).

    *staying*: additional prices of load that stays on its owner.
    """

    bits: int = 0
    masters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    zones: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    staying: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


FREE = Prices()
"""No prices: only loads of drained masters must move."""


def least_moved(scaled: Scaled, targets: Targets, prices: Prices, holding: Collection[int] = ()) -> int:
    """Return the cost that every placement within *targets* moves at least; drained masters in *holding* may keep slots."""
    paid, limits = _both_sides(scaled, targets, prices, holding, moving=True)
    return max(0, -(-(paid - limits) >> prices.bits))


def contradicts(scaled: Scaled, targets: Targets, prices: Prices) -> bool:
    """Return whether *prices* prove that no placement meets *targets*."""
    paid, limits = _both_sides(scaled, targets, prices, (), moving=False)
    return paid > limits


def is_valid(scaled: Scaled, prices: Prices) -> bool:
    """Return whether *prices* are non-negative, one per resource, of known takers and zones."""
    ids = {scaled.masters[n].id for n in scaled.takers()}
    zones = {master.zone for master in scaled.masters}
    rows = [*prices.masters.values(), *prices.zones.values(), *prices.staying.values()]
    fit = all(len(row) == len(scaled.resources) and min(row) >= 0 for row in rows)
    known = ids >= {*prices.masters, *prices.staying} and zones >= set(prices.zones)
    return fit and known and prices.bits >= 0


def _both_sides(
    scaled: Scaled, targets: Targets, prices: Prices, holding: Collection[int], *, moving: bool
) -> tuple[int, int]:  # fmt: skip
    """Return the least payment of all slots, and prices times limits, in 2**-bits units of cost."""
    zoned = prices.zones if targets.zone_share is not None else {}
    none = (0,) * len(scaled.resources)
    rows = [_sum_of(prices.masters.get(m.id, none), zoned.get(m.zone, none)) for m in scaled.masters]
    takers, heavy = scaled.takers(), {s for s, _ in fillers(scaled, targets)}
    staying = [_sum_of(row, prices.staying.get(m.id, none)) for row, m in zip(rows, scaled.masters, strict=True)]
    paid = _Payments(scaled, staying, prices.bits, moving=moving)
    stays = paid.stay()
    goes = paid.move([rows[n] for n in takers])
    must = np.array([m.drained and n not in holding for n, m in enumerate(scaled.masters)])[paid.owner]
    least = np.where(must, goes, np.minimum(stays, goes))
    fixed = sorted(scaled.fixed)
    least[fixed] = stays[fixed]
    least[sorted(heavy)] = 0
    total = _sum(least) + sum(_heavy(scaled, targets, prices, zoned, s, moving=moving) for s in sorted(heavy))
    limits = sum(
        p * most
        for n in takers
        for priced in (prices.masters, prices.staying)
        for p, most in zip(priced.get(scaled.masters[n].id, none), targets.common[n], strict=True)
    )
    for row in zoned.values():
        assert targets.zone_share is not None
        limits += sum(p * int(targets.zone_share * sum(load)) for p, load in zip(row, scaled.loads, strict=True))
    return total, limits


def _heavy(
    scaled: Scaled, targets: Targets, prices: Prices, zoned: Mapping[str, Sequence[int]], s: int, *, moving: bool
) -> int:  # fmt: skip
    """Return the least payment of a heavy slot, which counts as its master's limit."""
    none = (0,) * len(scaled.resources)
    filled = {r for t, r in fillers(scaled, targets) if t == s}
    owner, cost = scaled.owner[s], scaled.loads[scaled.cost][s] << prices.bits if moving else 0

    def pays(n: int) -> int:
        master = scaled.masters[n]
        own, zone = prices.masters.get(master.id, none), zoned.get(master.zone, none)
        own = _sum_of(own, prices.staying.get(master.id, none)) if n == owner else own
        paid = 0
        for r, load in enumerate(scaled.loads):
            paid += own[r] * (min(load[s], targets.common[n][r]) if r in filled else load[s]) + zone[r] * load[s]
        return paid + (cost if n != owner else 0)

    places = [owner] if s in scaled.fixed else scaled.takers()
    return min(map(pays, places))


def _sum_of(values: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(values, other, strict=True))


class _Payments:
    """Payments of slots, as arrays of machine words if sums fit."""

    def __init__(self, scaled: Scaled, rows: Sequence[Sequence[int]], bits: int, *, moving: bool) -> None:
        most = (max(scaled.loads[scaled.cost]) << bits) + sum(
            max(row[r] for row in rows) * max(load) for r, load in enumerate(scaled.loads)
        )
        self._kind: Any = np.int64 if most.bit_length() < WORD_BITS else object
        self._loads = [np.array(load, self._kind) for load in scaled.loads]
        self._rows = rows
        self.owner = np.array(scaled.owner)
        cost = self._loads[scaled.cost] * (1 << bits)
        self._cost = cost if moving else cost * 0

    def _pay(self, row: Sequence[int], slots: Any) -> NDArray[Any]:
        paid: NDArray[Any] = self._cost[slots] * 0
        for price, load in zip(row, self._loads, strict=True):
            if price:
                paid = paid + load[slots] * price
        return paid

    def stay(self) -> NDArray[Any]:
        paid: NDArray[Any] = self._cost * 0
        for n, row in enumerate(self._rows):
            if any(row):
                held = np.flatnonzero(self.owner == n)
                paid[held] = self._pay(row, held)
        return paid

    def move(self, rows: Iterable[Sequence[int]]) -> NDArray[Any]:
        """Return per slot the cost of a move plus the prices of the cheapest master."""
        kinds = _cheapest({tuple(row) for row in rows})
        every = slice(None)
        paid: NDArray[Any] = np.minimum.reduce([self._pay(row, every) for row in kinds])
        together: NDArray[Any] = self._cost + paid
        return together


def _cheapest(rows: Collection[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return *rows* without dominated ones."""
    kept: list[tuple[int, ...]] = []
    for row in sorted(rows):
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in kept):
            kept.append(row)
    return kept


def _sum(values: NDArray[Any]) -> int:
    """Return the exact sum of non-negative whole numbers."""
    if values.dtype == object:
        return sum(values.tolist())
    return (int((values >> HALF).sum()) << HALF) + int((values & ((1 << HALF) - 1)).sum())


def whole_prices(
    scaled: Scaled,
    masters: NDArray[np.float64],
    zones: Mapping[str, NDArray[np.float64]] = NO_ZONES,
    *,
    staying: bool = False,
) -> Prices:
    """Return whole-number prices from *masters* [master, resource], in mean costs per mean load; for load that stays if
    *staying*.
    """
    totals = [sum(load) or 1 for load in scaled.loads]
    paid = totals[scaled.cost]
    rows = {scaled.masters[n].id: masters[n] for n in scaled.takers()}
    dear = max(float(row.max()) for row in [*rows.values(), *zones.values()])
    if dear <= 0:
        return FREE
    bits = max(0, PRICE_BITS + max(t.bit_length() for t in totals) - paid.bit_length() + max(0, -int(np.log2(dear))))
    fine = 1 << 40

    def whole(priced: Mapping[str, NDArray[np.float64]]) -> dict[str, tuple[int, ...]]:
        rows = {
            name: tuple(
                (int(max(0.0, value) * fine) * paid << bits) // (total * fine)
                for value, total in zip(row.tolist(), totals, strict=True)
            )
            for name, row in priced.items()
        }
        return {name: row for name, row in rows.items() if any(row)}

    by_master = whole(rows)
    return Prices(bits, {} if staying else by_master, whole(zones), by_master if staying else {})
