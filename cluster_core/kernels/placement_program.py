"""A placement with fractions allowed: columns of slots are spread over masters, in parts that add up to one, at the least cost.

How this works.  Every column begins on one master and has a variable for each other master it may be on; the part that stays follows
from the others, so that most columns need no row of their own.  Load above a limit is allowed, at `over_cost` a unit.  Where columns times
masters are many, variables are made when they are needed: at the prices of the limits each column names the masters where it would be
cheapest, and the program is solved again until no column names a new one (column generation, Dantzig and Wolfe 1960).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.linear_program import INFINITE, LinearProgram

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
NAMED = 4
"""New masters that a column names at most in a round."""
NAMED_A_ROUND = 5_000
"""Variables that are made at most in a round, those that gain most for their bulk."""
ROUNDS_MAX = 100
TIE_ROUNDS = 4
TIE_SPREAD = 1e-3
"""Many masters are equally cheap in the first rounds: each column prefers others of them, by this much."""
CLOSE = 1e-9
"""A gain below this part of a column's load is none; costs and loads are about 1 a slot."""
WHOLE = 1e-7
"""A part below this is none."""
STEP_WORK, LIMIT_WORK, VARIABLE_WORK = 25_000, 150, 3
"""Work of a simplex step, and of a limit and of a variable in it."""
PAIR_WORK = 200
"""Work of a column and a master where new variables are looked for."""


class Spread(NamedTuple):
    """A solution: its cost (infinite where it was cut short), the master of each column's largest part, the columns that are divided, and the
    limits' prices."""

    cost: float
    at: Indices
    divided: list[int]
    prices: Floats


class PlacementProgram:
    """The program of *loads* [column, resource], *room* [master, resource] and *fees* [column, master]; columns begin at *start*; *spend* is told what work every solution took."""

    def __init__(
        self, loads: Floats, room: Floats, fees: Floats, start: Indices, over_cost: float,
        spend: Callable[[int], None] | None = None,
    ) -> None:  # fmt: skip
        self._spend = spend
        self.loads, self.room, self.fees, self.start = loads, room, fees, start
        self.columns, self.masters = fees.shape
        self.size = loads.shape[1]
        limits = self.masters * self.size
        self._program = LinearProgram(growing=True)
        left = room.copy()
        np.subtract.at(left, start, loads)
        self._program.add_rows(np.full(limits, -INFINITE), left.ravel())
        each = np.arange(limits)
        self._program.add_columns(np.full(limits, over_cost), np.full(limits, INFINITE), each, each, -np.ones(limits))
        self._base = float(fees[np.arange(self.columns), start].sum())
        self._number = np.full(fees.shape, -1)
        self._row = np.full(self.columns, -1)
        self._count = np.zeros(self.columns, int)
        self._column = np.empty(0, int)
        self._master = np.empty(0, int)
        self._held: dict[int, int] = {}
        self.solves = 0

    @property
    def work(self) -> int:
        """What was done so far, in about nanoseconds."""
        return int(self._program.steps * self._step_work + self.solves * PAIR_WORK * self.fees.size)

    @property
    def _step_work(self) -> int:
        return int(STEP_WORK + LIMIT_WORK * self.masters * self.size + VARIABLE_WORK * len(self._column))

    def costs_at(self, prices: Floats) -> Floats:
        """Return what every column costs on every master when load costs *prices* [master * size + resource]."""
        return self.fees + self.loads @ prices.reshape(self.masters, self.size).T

    def solve(self, held: Mapping[int, int], work_max: int) -> Spread:
        """Solve with the columns of *held* on the masters it says, from where the last solution stands.

        Ends with the best solution so far when `work` reaches *work_max*.
        """
        self._hold(held)
        limits, before = self.masters * self.size, self.work
        free = np.ones(self.columns, bool)
        free[list(held)] = False
        for number in range(ROUNDS_MAX):
            solution = self._program.solve(max(1, (work_max - self.work) // self._step_work))
            self.solves += 1
            prices = np.maximum(0.0, -solution.prices[:limits])
            if self.work >= work_max or not self._name(prices, free, TIE_SPREAD if number < TIE_ROUNDS else 0.0):
                break
        at, divided = self._parts(solution.values[limits:])
        if self._spend is not None:
            self._spend(self.work - before)
        cost = solution.cost + self._base if solution.known else np.inf
        return Spread(cost, at, divided, prices)

    def _parts(self, values: Floats) -> tuple[Indices, list[int]]:
        parts = np.zeros((self.columns, self.masters))
        parts[self._column, self._master] = values
        parts[np.arange(self.columns), self.start] = 1.0 - parts.sum(1)
        return parts.argmax(1), np.flatnonzero(parts.max(1) < 1 - WHOLE).tolist()

    def _name(self, prices: Floats, free: NDArray[np.bool_], tie_spread: float) -> bool:
        """Make the variables that would lower the cost at *prices*, and return whether there are any."""
        costs = self.costs_at(prices)
        known = self._number >= 0
        known[np.arange(self.columns), self.start] = True
        gain = np.where(known, costs, np.inf).min(1)[:, None] - costs
        bulk = CLOSE + self.loads.sum(1)
        columns = np.flatnonzero(free & (gain.max(1) > CLOSE * (1.0 + bulk)))
        if not len(columns):
            return False
        worth = gain[columns] / bulk[columns, None]
        ranked = worth + tie_spread * _scatter(columns, self.masters)
        named = min(NAMED, self.masters)
        masters = np.argpartition(-ranked, named - 1, axis=1)[:, :named]
        useful = np.take_along_axis(worth, masters, 1).ravel()
        best = np.argsort(-useful, kind="stable")[:NAMED_A_ROUND]
        best = best[useful[best] > CLOSE]
        self._add(np.repeat(columns, named)[best], masters.ravel()[best])
        return bool(len(best))

    def _hold(self, held: Mapping[int, int]) -> None:
        """Fix the variables of the columns of *held*, and let those loose that were held before."""
        loose = [s for s in self._held if s not in held]
        changed = [s for s, n in held.items() if self._held.get(s) != n]
        missing = [(s, held[s]) for s in changed if held[s] != self.start[s] and self._number[s, held[s]] < 0]
        if missing:
            pairs = np.array(missing)
            self._add(pairs[:, 0], pairs[:, 1])
        touched = np.array([*loose, *changed], int)
        if not len(touched):
            return
        known = self._number[touched]
        target = np.array([held.get(s, -1) for s in touched])[:, None]
        here = target == np.arange(self.masters)
        wanted = known >= 0
        limits = self.masters * self.size
        self._program.bound(
            known[wanted] + limits, here[wanted].astype(float), ((target < 0) | here)[wanted].astype(float)
        )
        self._held = dict(held)

    def _add(self, column: Indices, master: Indices) -> None:
        """Make variables, with a row for every column that has more than one: its parts are at most the whole."""
        limits = self.masters * self.size
        count = self._count + np.bincount(column, minlength=self.columns)
        fresh = np.flatnonzero((count > 1) & (self._row < 0))
        if len(fresh):
            first = self._number[fresh].max(1)
            one = first >= 0
            self._row[fresh] = limits + int((self._row >= 0).sum()) + np.arange(len(fresh))
            least, most = np.full(len(fresh), -INFINITE), np.ones(len(fresh))
            self._program.add_rows(least, most, np.cumsum(one) - one, first[one] + limits, most[one])
        home, own = self.start[column], np.arange(self.size)
        rows = np.column_stack([master[:, None] * self.size + own, home[:, None] * self.size + own, self._row[column]])
        values = np.column_stack([self.loads[column], -self.loads[column], np.ones(len(column))])
        used = rows >= 0
        starts = np.cumsum(used.sum(1)) - used.sum(1)
        fees = self.fees[column, master] - self.fees[column, home]
        self._program.add_columns(fees, np.ones(len(column)), starts, rows[used], values[used])
        self._number[column, master] = len(self._column) + np.arange(len(column))
        self._column, self._master = np.concatenate([self._column, column]), np.concatenate([self._master, master])
        self._count = count


def _scatter(columns: Indices, masters: int) -> Floats:
    """Return a number below 1 for every column and master, about evenly spread and always the same."""
    spread: Floats = ((columns[:, None] * 7919 + np.arange(masters) * 104729) % 1009) / 1009
    return spread
