"""A placement with fractions allowed, for few masters: heavy slots have a variable a master, all others are placed as one.

How this works.  A *way* places all light slots; the program mixes the ways that it knows.  At the prices of its limits the cheapest way is
found in one pass, slot by slot, and is added, until it is no cheaper than the mixture (column generation, Dantzig and Wolfe 1960).  Each
pass proves a bound besides (`PriceLists`).  No slot is bundled, there is a row for every limit and every heavy slot only, and ways that
one case has found serve all others: where heavy slots are varies, what the others do at given prices does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.kernels.placement_program import WHOLE, Floats, Spread
from cluster_core.rebalance.search.price_lists import PriceLists

WAYS_MAX, WAYS_KEPT = 600, 270
"""Ways that the program holds, and the cheapest that it keeps where they become more."""
CLOSE = 0.002
"""A case is solved when the best bound is within this share of the mixture."""
WARM_ROUNDS, STEP = 20, 0.2
"""After so many rounds of a case, prices go this part of the way from the best so far to those of the mixture only (Wentges 1997)."""
ROUNDS_MAX = 600
STEPS_MAX = 100_000
STEP_WORK, ROW_WORK, SOLVE_WORK = 8_000, 120, 150_000
"""Work of a simplex step, of a row in it, and of setting up one solution."""


class WayProgram:
    """The program of *lists*, whose heavy slots are its columns; *spend* is told what work every solution took."""

    def __init__(self, lists: PriceLists, over_cost: float, spend: Callable[[float], None]) -> None:
        self.lists, self._spend = lists, spend
        self.loads = lists.heavy_loads.max(1)
        count, masters = lists.heavy_fees.shape
        self._count, self._masters, self._limits = count, masters, lists.limits.size
        size = self._limits // masters
        self._program = LinearProgram(growing=True)
        ones = np.ones(1 + count)
        self._program.add_rows(np.append(np.full(self._limits, -INFINITE), ones), np.append(lists.limits.ravel(), ones))
        each = np.arange(self._limits)
        self._program.add_columns(
            np.full(self._limits, over_cost), np.full(self._limits, INFINITE), each, each, -np.ones(self._limits)
        )
        own = np.repeat(self._limits + 1 + np.arange(count), masters)[:, None]
        rows = np.hstack([np.tile(each.reshape(masters, size), (count, 1)), own])
        values = np.hstack([lists.heavy_loads.reshape(-1, size), np.ones((count * masters, 1))])
        fees = lists.heavy_fees.ravel()
        upper = np.where(np.isfinite(fees), 1.0, 0.0)
        starts = np.arange(count * masters) * (size + 1)
        self._program.add_columns(np.where(upper > 0, fees, 0.0), upper, starts, rows.ravel(), values.ravel())
        self._upper = upper.reshape(count, masters)
        self._first = self._limits + count * masters
        self._ways: list[int] = []
        self._mixture: list[tuple[int, float]] = []
        self._held: dict[int, int] = {}
        self._work = 0
        self.solves = 0
        self.learn(np.zeros(self._limits))

    @property
    def work(self) -> int:
        """What was done so far, in about nanoseconds."""
        return self._work

    def _do(self, work: int) -> None:
        self._work += work
        self._spend(work)

    def learn(self, price: Floats) -> None:
        """Add the cheapest way at *price*, and keep what that proves."""
        way = self.lists.weigh(price)
        rows, values = np.arange(self._limits + 1), np.append(way.loads.ravel(), 1.0)
        self._program.add_columns(np.array([way.fee]), np.array([INFINITE]), [0], rows, values)
        self._ways.append(self.lists.count - 1)
        self._do(self.lists.work_of_one)

    def solve(self, held: Mapping[int, int], work_max: int, enough: float = INFINITE) -> Spread:
        """Solve with the heavy slots of *held* (by rank) on the masters it says, or until that is proven to cost *enough*.

        Ends with the best solution so far when `work` reaches *work_max*.
        """
        self._hold(held)
        fixed, best, center = list(held.items()), -np.inf, None
        for number in range(ROUNDS_MAX):
            steps = self._program.steps
            solution = self._program.solve(STEPS_MAX)
            rows = self._limits + 1 + self._count
            self._do(SOLVE_WORK + (self._program.steps - steps) * (STEP_WORK + ROW_WORK * rows))
            price = np.maximum(0.0, -solution.prices[: self._limits])
            if center is not None and number >= WARM_ROUNDS:
                price = center + STEP * (price - center)
            self.learn(price)
            found = self.lists.best(fixed, self.lists.count - 1)[0]
            if found > best:
                best, center = found, price
            self.solves += 1
            if best >= enough or solution.cost - best <= CLOSE * abs(solution.cost) or self._work >= work_max:
                break
        parts = solution.values[self._limits : self._first].reshape(self._count, self._masters)
        mixed = zip(self._ways, solution.values[self._first :].tolist(), strict=False)
        self._mixture = [(number, part) for number, part in mixed if part > WHOLE]
        if len(self._ways) > WAYS_MAX:
            self._ways = [self._ways[k] for k in self._program.drop(self._first, WAYS_KEPT).tolist()]
        at = parts.argmax(1) if self._count else np.zeros(0, np.int64)
        divided = np.flatnonzero(parts.max(1) < 1 - WHOLE).tolist() if self._count else []
        return Spread(solution.cost if solution.known else np.inf, at, divided, price)

    def parts(self) -> Floats:
        """Return what part of every slot the last solution has on every master; of a heavy one, nothing."""
        parts: Floats = np.zeros(self.lists.fees.shape)
        for number, part in self._mixture:
            at = self.lists.places(number)
            parts[np.arange(len(at)), at] += part
        return parts

    def _hold(self, held: Mapping[int, int]) -> None:
        changed = [h for h in {*self._held, *held} if self._held.get(h) != held.get(h)]
        if not changed:
            return
        target = np.array([held.get(h, -1) for h in changed])[:, None]
        here = target == np.arange(self._masters)
        columns = self._limits + np.array(changed)[:, None] * self._masters + np.arange(self._masters)
        upper = np.where(target < 0, self._upper[changed], here.astype(float))
        self._program.bound(columns.ravel(), here.astype(float).ravel(), upper.ravel())
        self._held = dict(held)
