"""Where the heavy slots go, decided exactly: branch and bound over the linear program of the whole placement.

How this works.  Slots come in three weights.  Heavy ones (`HEAVY`) are decided one by one; middling ones may be divided; the light ones
of one owner are bundled by the proportions of their loads (`bundle`), so that a program has a thousand columns, not all slots.  Where heavy
slots and masters make many cases (`PAIRS_MANY`), middling ones are bundled, too: more cases can be looked at, which proves more.
Where its solution divides a heavy slot, the search tries that slot on every master, and goes on with the most promising of all cases:
what is proven is no more than the least of them.  Every solution's prices give a bound that holds for all slots (`_weigh`), in every case: what they
prove together is the `JointProof` proof.  Where the work ends, the heavy slots of the most promising case are rounded.  `complete` then solves the program of all slots around the decided ones, and decides the next
lighter ones until no slot is divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.placement_program import Spread
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.bound.joint_proof import PRICES_MAX, JointProof
from cluster_core.rebalance.search.layout import BUNDLES, Layout, gather, settle

HEAVY = 64
"""Slots above this part of a limit in any resource are heavy."""
PAIRS_MANY, BUNDLES_FEW = 800, 32
"""With more heavy slots times masters than this, all others are in so many bundles an owner."""
CLOSE_ENOUGH = 0.0005
"""The search ends when the best case left is within this share of the best placement."""
WORK_MAX = 1_200_000_000
"""Work of the search, in about nanoseconds; half of it where there are many cases."""
POOL = 40
"""How many of the latest price lists are tried on a case before it is solved."""


class Case(NamedTuple):
    """An open case, the most promising first: *fixed* pairs of heavy slot (by rank) and master, *leaf* its place in the tree; price list *by* proves
    the bound."""

    bound: float
    leaf: int
    by: int
    cost: float
    fixed: tuple[tuple[int, int], ...]
    spread: Spread


class Prices(NamedTuple):
    """A price list and what it proves: *total* for any placement, *regret* [h, n] more with heavy slot h on n."""

    total: float
    regret: NDArray[np.float64]
    price: NDArray[np.float64]


class Branching:
    """One search: `decided` are the masters of the heavy slots that it found, `proof` is what it proved."""

    def __init__(self, layout: Layout, work_max: int = WORK_MAX, given: Mapping[int, int] | None = None) -> None:
        """Search; with some slots where they are *given*, as the layout numbers both, nothing is proven."""
        self.layout = layout
        self._masters = len(layout.takers)
        self.heavy = [s for s in layout.singles if layout.part[s] > 1 / HEAVY]
        self._given = given or {}
        self.many = len(self.heavy) * self._masters > PAIRS_MANY
        self._work_max = work_max // 2 if self.many else work_max
        singles = self.heavy if self.many else layout.singles
        columns, self._held = gather(layout, layout.home, alone=singles, bundles=BUNDLES_FEW if self.many else BUNDLES)
        self._held |= {k: self._given[s] for k, s in enumerate(singles) if s in self._given}
        home = [layout.home[column[0]] for column in columns]
        self._program = layout.program(columns, [n if n >= 0 else k % self._masters for k, n in enumerate(home)])
        self._fees = layout.fees([[s] for s in range(len(layout.slots))], layout.home, 0.0)
        for s, n in enumerate(layout.home):
            if n >= 0 and not layout.free[s]:
                self._fees[s] = np.where(np.arange(self._masters) == n, self._fees[s], np.inf)
        self._pool: list[Prices] = []
        self._weigh_work = self._fees.size * layout.size
        self._tree: list[tuple[int, int]] = [(-1, 0)]
        self._closed: dict[int, tuple[tuple[tuple[int, int], ...], int]] = {}
        root = self._solve((), None)
        first = Case(self._pool[0].total, 0, 0, root.cost, (), root)
        self._least, self._found = np.inf, root
        self._round(first)
        self._search(first)

    def _solve(self, fixed: Sequence[tuple[int, int]], basis: Any) -> Spread:
        """Solve a case, and keep its prices."""
        spread = self._program.solve({**self._held, **dict(fixed)}, self.layout.work_max(), basis)
        self._weigh(spread.prices)
        return spread

    def _weigh(self, price: NDArray[np.float64]) -> None:
        """Keep what *price* proves for all slots: what any placement costs at least when load costs it and room earns it (Lagrange)."""
        layout = self.layout
        costs = self._fees + layout.rows @ price.reshape(self._masters, layout.size).T
        least = costs.min(1)
        total = float(least.sum() - (price * layout.limits.ravel()).sum())
        self._pool.append(Prices(total, costs[self.heavy] - least[self.heavy, None], price))

    def _proven(self, number: int, fixed: Sequence[tuple[int, int]]) -> float:
        prices = self._pool[number]
        return prices.total + sum(float(prices.regret[h, n]) for h, n in fixed)

    def _best_list(self, fixed: Sequence[tuple[int, int]], first: int) -> tuple[float, int]:
        """Return the most that one of the price lists from *first* on proves for a case, and which."""
        return max((self._proven(k, fixed), k) for k in range(max(0, first), len(self._pool)))

    def _spent(self) -> int:
        return self._program.work + len(self._pool) * self._weigh_work

    def _search(self, root: Case) -> None:
        heap = [root]
        while heap and heap[0].bound < self._enough():
            if self._spent() > self._work_max:
                self._round(heap[0])
                break
            case = heappop(heap)
            choices = [s for s in case.spread.divided if s < len(self.heavy)]
            if choices:
                for below in self._divide(case, min(choices)):
                    heappush(heap, below)
                continue
            self._closed[case.leaf] = case.fixed, case.by
            if case.cost < self._least:
                self._least, self._found = case.cost, case.spread
        for case in heap:
            self._closed[case.leaf] = case.fixed, case.by

    def _enough(self) -> float:
        return self._least * (1 - CLOSE_ENOUGH)

    def _round(self, case: Case) -> None:
        """Decide the heavy slots that *case* divides one after the other, without looking back."""
        held = {**self._held, **dict(case.fixed)}
        work_max = self._program.work + self.layout.work_max() // 4
        found = settle(self._program, case.spread, held, len(self.heavy), work_max)
        if found.cost < self._least:
            self._least, self._found = found.cost, found

    def _divide(self, case: Case, h: int) -> list[Case]:
        """Return the cases of heavy slot *h* on each master that may still be cheaper than the best placement."""
        self._tree[case.leaf] = (h, len(self._tree))
        first = len(self._tree)
        self._tree += [(-1, 0)] * self._masters
        found, enough = [], self._enough()
        for n in range(self._masters):
            leaf, fixed = first + n, (*case.fixed, (h, n))
            bound, by = self._best_list(fixed, len(self._pool) - POOL)
            if bound >= enough:
                self._closed[leaf] = fixed, by
                continue
            spread = self._solve(fixed, case.spread.basis)
            here = len(self._pool) - 1
            bound, by = max((case.bound, case.by), (bound, by), (self._proven(here, fixed), here))
            if bound >= enough:
                self._closed[leaf] = fixed, by
            else:
                found.append(Case(bound, leaf, by, spread.cost, fixed, spread))
        return found

    def decided(self) -> dict[int, int]:
        """Return the masters of the heavy slots, as the layout numbers both."""
        return {s: int(self._found.at[h]) for h, s in enumerate(self.heavy)}

    def proof(self) -> JointProof | None:
        """Return what is proven by as few price lists as a proof may have; None where that is less than nothing, or slots are too heavy for any limit."""
        layout = self.layout
        scaled = layout.arrays.scaled
        if layout.arrays.targets.heavy or self._given:
            return None
        bounds = {leaf: self._proven(0, fixed) for leaf, (fixed, _) in self._closed.items()}
        chosen = [0]
        while len(chosen) < PRICES_MAX:
            lowest = min(bounds, key=lambda leaf: (bounds[leaf], leaf))
            best = self._closed[lowest][1]
            if best in chosen:
                break
            chosen.append(best)
            for leaf, (fixed, _) in self._closed.items():
                bounds[leaf] = max(bounds[leaf], self._proven(best, fixed))
        value = int(min(bounds.values()) * float(layout.mean[scaled.cost]) * (1 - 1e-9))
        if value < 0:
            return None
        tree: list[int] = []
        below = [0]
        while below:
            leaf = below.pop()
            h, first = self._tree[leaf]
            if h >= 0:
                tree.append(layout.slots[self.heavy[h]])
                below += range(first + self._masters - 1, first - 1, -1)
            else:
                fixed = self._closed[leaf][0]
                tree.append(-1 - max(range(len(chosen)), key=lambda i: (self._proven(chosen[i], fixed), -i)))
        return JointProof(value, tuple(self._whole(self._pool[k].price) for k in chosen), tuple(tree))

    def _whole(self, price: NDArray[np.float64]) -> tuple[int, ...]:
        """Return a price list in 2**-60 units of cost a unit of the resource, for all masters."""
        layout = self.layout
        mean, size = layout.mean, layout.size
        row = [0] * (size * len(layout.arrays.scaled.masters))
        for k, n in enumerate(layout.takers):
            for r in range(size):
                unit = float(mean[layout.arrays.scaled.cost] / mean[r])
                row[n * size + r] = int(float(price[k * size + r]) * unit * (1 << PRICE_BITS))
        return tuple(row)
