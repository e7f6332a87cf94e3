"""Prove lower bounds on moved cost, by prices of load (Lagrangian duality), and on slot ranges, in whole numbers.

A unit of resource r pays p[n][r] >= 0 on master n, q[z][r] >= 0 in zone z, and k[n][r] >= 0 if it stays on owner n.
Each slot pays at least at its cheapest master, and all load within limits pays at most prices times limits. So every
placement within limits has, for any prices,

    cost moved  >=  sum over slots of min(stay, move + cheapest master)  -  sum of prices times limits

If the right side is above 0 with free moves, no placement meets the limits. A slot heavier than a master's limit counts
as that limit, as its host holds no other load of that resource.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.rebalance.goal.problem import ScaledProblem
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


def least_moved(scaled: ScaledProblem, targets: Targets, prices: Prices, holding: Collection[int] = ()) -> int:
    """Return the cost that every placement within *targets* moves at least; drained masters in *holding* may keep slots."""
    paid, limits = _both_sides(scaled, targets, prices, holding, moving=True)
    return max(0, -(-(paid - limits) >> prices.bits))


def contradicts(scaled: ScaledProblem, targets: Targets, prices: Prices) -> bool:
    """Return whether *prices* prove that no placement meets *targets*."""
    paid, limits = _both_sides(scaled, targets, prices, (), moving=False)
    return paid > limits


def is_valid(scaled: ScaledProblem, prices: Prices) -> bool:
    """Return whether *prices* are non-negative, one per resource, of known takers and zones."""
    ids = {scaled.masters[n].id for n in scaled.takers()}
    zones = {master.zone for master in scaled.masters}
    rows = [*prices.masters.values(), *prices.zones.values(), *prices.staying.values()]
    fit = all(len(row) == len(scaled.resources) and min(row) >= 0 for row in rows)
    known = ids >= {*prices.masters, *prices.staying} and zones >= set(prices.zones)
    return fit and known and prices.bits >= 0


def _both_sides(
    scaled: ScaledProblem, targets: Targets, prices: Prices, holding: Collection[int], *, moving: bool
) -> tuple[int, int]:  # fmt: skip
    """Return the least payment of all slots, and prices times limits, in 2**-bits units of cost."""
    zoned = prices.zones if targets.zone_share is not None else {}
    none = (0,) * len(scaled.resources)
    takers, filled = scaled.takers(), fillers(scaled, targets)
    zones = [zoned.get(m.zone, none) for m in scaled.masters]
    masters = [prices.masters.get(m.id, none) for m in scaled.masters]
    staying = [_sum_of(row, prices.staying.get(m.id, none)) for row, m in zip(masters, scaled.masters, strict=True)]
    cost = [load << prices.bits if moving else 0 for load in scaled.loads[scaled.cost]]
    going = _cheapest({_sum_of(masters[n], zones[n]) for n in takers})
    stays, goes = _payments(scaled, cost, [_sum_of(*rows) for rows in zip(staying, zones, strict=True)], going)
    must = np.array([m.drained and n not in holding for n, m in enumerate(scaled.masters)])[list(scaled.owner)]
    least = np.where(must, goes, np.minimum(stays, goes))
    fixed, heavy = sorted(scaled.fixed), sorted({s for s, _ in filled})
    least[fixed] = stays[fixed]
    least[heavy] = 0
    total = _sum(least)
    for s in heavy:  # it counts as the limit of its master
        owner = scaled.owner[s]
        total += min(
            cost[s] * (n != owner)
            + sum(
                p * (min(load[s], most) if (s, r) in filled else load[s]) + q * load[s]
                for r, (p, q, most, load) in enumerate(
                    zip((staying if n == owner else masters)[n], zones[n], targets.common[n], scaled.loads, strict=True)
                )
            )
            for n in ([owner] if s in scaled.fixed else takers)
        )
    limits = sum(
        p * most
        for n in takers
        for row in (masters[n], prices.staying.get(scaled.masters[n].id, none))
        for p, most in zip(row, targets.common[n], strict=True)
    )
    for row in zoned.values():
        assert targets.zone_share is not None
        limits += sum(p * int(targets.zone_share * sum(load)) for p, load in zip(row, scaled.loads, strict=True))
    return total, limits


def _sum_of(values: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(values, other, strict=True))


def _payments(
    scaled: ScaledProblem, cost: Sequence[int], staying: Sequence[Sequence[int]], going: Sequence[Sequence[int]]
) -> tuple[NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Return what each slot pays on its owner, by prices *staying* [owner, resource], and at least elsewhere, by rows *going*.

    They are machine words if all sums fit, else Python's integers.
    """
    heaviest = [max(load) for load in scaled.loads]
    most = max(cost) + sum(max(1, *prices) * load for load, *prices in zip(heaviest, *staying, strict=True))
    kind: Any = np.int64 if most.bit_length() < WORD_BITS else object
    loads, owner, moves = np.array(scaled.loads, kind), np.array(scaled.owner), np.array(cost, kind)

    def pay(row: Sequence[int], slots: Any) -> NDArray[Any]:
        paid: NDArray[Any] = moves[slots] * 0
        for price, load in zip(row, loads, strict=True):
            if price:
                paid = paid + load[slots] * price
        return paid

    stays = moves * 0
    for n, row in enumerate(staying):
        if any(row):
            held = np.flatnonzero(owner == n)
            stays[held] = pay(row, held)
    return stays, moves + np.minimum.reduce([pay(row, slice(None)) for row in going])


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
    scaled: ScaledProblem,
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


def count_ranges(owner: Sequence[int] | Sequence[str] | NDArray[np.int64]) -> int:
    """Return the number of runs of slots with one owner."""
    at = np.asarray(owner)
    return int(len(at) > 0) + int((at[1:] != at[:-1]).sum())


def least_ranges(scaled: ScaledProblem, targets: Targets) -> int:
    """Return a lower bound on the slot ranges of every placement within *targets*.

    Neighbouring fixed slots of different masters have a border. Each remaining owner without fixed slots has a range, as
    has each empty master without which room is short.
    """
    fixed = [scaled.owner[s] for s in sorted(scaled.fixed)]
    stay = {n for n in set(scaled.owner) if not scaled.masters[n].drained}
    return max(1, count_ranges(fixed) + len(stay.difference(fixed)) + _needed(scaled, targets, stay))


def _needed(scaled: ScaledProblem, targets: Targets, stay: set[int]) -> int:
    """Return the number of empty masters that must take slots."""
    takers, shared = scaled.takers(), scaled.shared()
    most = 0
    for r, load in enumerate(scaled.loads):
        left = sum(load[s] for s in shared)
        for s, filled in fillers(scaled, targets):
            if filled == r:
                left -= max(0, load[s] - min(targets.common[n][r] for n in takers))
        left -= sum(targets.common[n][r] for n, m in enumerate(scaled.masters) if n in stay or m.drained)
        rooms = sorted((targets.common[n][r] for n in takers if n not in stay), reverse=True)
        needed = sum(room < left for room in accumulate(rooms, initial=0))
        most = max(most, min(needed, len(rooms)))
    return most
