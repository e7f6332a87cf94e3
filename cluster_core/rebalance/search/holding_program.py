"""Mixtures of what masters may hold: heavy slots in whole, and in any part what each sees of the others.

How this works.  A *holding* is what one master may hold within its limits.  The program mixes holdings so that every column is held once; at
its prices of columns, every master looks for a cheaper holding (`fill`), which is added, until none is found (column generation, Dantzig and
Wolfe 1960).  Prices stay in a box around the best ones so far, which grows when that pays and shrinks when it does not (Marsten, Hogan
and Blankenship 1975), and go a part of the way only that the program asks for (Wentges 1997): of some hundred columns, a third of the rounds.
No heavy slot is divided but between holdings that are possible, so a mixture costs nearly what whole slots do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.kernels.mixed_knapsack import Choice, Floats, fill, room_for_proof

SLACK = 1e-3
"""Share of that by which all masters together may miss their cheapest holdings."""
CASES_MAX = 3_000
"""Cases of one master in one round."""
STEP = 0.25
"""Part of the way to the program's prices that is gone."""
BOX, BOX_COST = 0.1, 0.05
"""How far prices may be from the best at first: these parts of each, or of what it costs to move the column."""
WIDER, MUCH_WIDER, NARROWER, IN_VAIN = 1.3, 3.0, 0.6, 3
"""How the box changes where more is proven, where it is all that is left in the way, and where so many rounds prove no more."""
PER_ROW_MAX, PER_ROW = 4, 2
"""Holdings a row that the program knows at most, and how many it keeps then."""
STEPS_MAX = 100_000
STEP_WORK, ROW_WORK, COLUMN_WORK = 5_000, 70, 10
"""Work of a step of the program, of a row in it, and of a column in a step of one master."""
PART_MIN = 1e-9
NEVER = 1e6
"""What it costs to hold what another master has, in mean slots."""


class Share(NamedTuple):
    """How much of a mixture is holdings of *master* with just these *columns*."""

    part: float
    master: int
    columns: frozenset[int]


class HoldingProgram:
    """The program of columns of *loads* [master][resource, column], held whole, at *fees* [column, master], in *room* [master, resource].

    Columns of *loads* after those of *fees* are a master's own, at *own* [master][column]: they may be held in any part.  The search begins
    at *prices* of columns; *spend* is told what work is done.
    """

    def __init__(
        self, loads: Sequence[Floats], room: Floats, fees: Floats, own: Sequence[Floats], prices: Floats,
        spend: Callable[[float], None], base: float,
    ) -> None:  # fmt: skip
        """Begin; *base* is what is to be paid besides: the search ends when the rest is but a small part of it all."""
        self._loads, self._room, self._fees, self._own = loads, room, fees, own
        self._spend, self._base = spend, base
        self._columns, self._masters = fees.shape
        self._rows = self._columns + self._masters
        self.prices, self._proven = prices, -np.inf
        self._program = LinearProgram(growing=True)
        least = np.repeat([1.0, 0.0], [self._columns, self._masters])  # a master may hold nothing
        self._program.add_rows(least, np.ones(self._rows))
        each, self._first = np.arange(self._columns), 2 * self._columns
        self._program.add_columns(
            np.zeros(self._first), np.full(self._first, INFINITE), np.arange(self._first),
            np.concatenate([each, each]), np.repeat([1.0, -1.0], self._columns),
        )  # fmt: skip
        self._box, self._values = self._first_box(), np.zeros(self._first)
        self._owners, self._helds, self._costs = np.zeros(0, np.int64), np.zeros((0, self._columns)), np.zeros(0)
        self._places: dict[int, frozenset[int]] = {}
        self._taken: set[int] = set()
        self._proof = room_for_proof(CASES_MAX, room.shape[1])
        self.work = 0.0

    @property
    def proven(self) -> float:
        """Return what the best prices so far prove."""
        return self._proven + self._base

    def search(self, work_max: float, close: float) -> None:
        """Look for the prices that prove all but the share *close* of what the mixture costs, until `work` reaches *work_max*."""
        prices, in_vain = self.prices, 0
        while self.work < work_max:
            known, step = len(self._owners), STEP
            if self._round(prices):
                in_vain = 0
                self._box = self._box * WIDER
            else:
                in_vain += 1
                self._box = self._box * (NARROWER if in_vain % IN_VAIN == 0 else 1.0)
                step = STEP if len(self._owners) > known else 1.0  # nothing was learned there
            cost, prices = self._mix(step)
            if cost - self._proven < close * abs(self.proven):
                if self._values[: self._first].sum() < PART_MIN:
                    break
                self._box = self._box * MUCH_WIDER
            if len(self._owners) > PER_ROW_MAX * self._rows:
                kept = self._program.drop(self._first, PER_ROW * self._rows)
                self._owners, self._helds, self._costs = self._owners[kept], self._helds[kept], self._costs[kept]
        self._box = self._first_box()
        self._mix()

    def shares(self) -> list[Share]:
        """Return what the mixture has for masters that are not decided, the largest part first."""
        parts: dict[tuple[int, frozenset[int]], float] = {}
        for n, columns, part in zip(
            self._owners.tolist(), self._columns_held(), self._values[self._first :].tolist(), strict=False
        ):
            if part > PART_MIN and n not in self._places:
                parts[n, columns] = parts.get((n, columns), 0.0) + part
        found = [Share(part, n, columns) for (n, columns), part in parts.items()]
        return sorted(found, key=lambda share: (-share.part, share.master, sorted(share.columns)))

    def decide(self, places: Mapping[int, frozenset[int]], rounds: int) -> None:
        """Let masters have just the columns that *places* says, and look for so many *rounds* what they and the others hold beside that."""
        self._places |= places
        self._taken |= {k for columns in places.values() for k in columns}
        known = zip(self._owners.tolist(), self._columns_held(), strict=True)
        out = [
            self._first + k for k, (n, columns) in enumerate(known)
            if (columns != self._places[n] if n in self._places else columns & self._taken)
        ]  # fmt: skip
        self._program.bound(out, np.zeros(len(out)), np.zeros(len(out)))
        self._proven, prices = -np.inf, self.prices
        for _ in range(rounds):
            self._round(prices)
            _, prices = self._mix()

    def _columns_held(self) -> list[frozenset[int]]:
        return [frozenset(np.flatnonzero(row > 0.5).tolist()) for row in self._helds]

    def _first_box(self) -> Floats:
        box: Floats = np.maximum(BOX * np.abs(self.prices), BOX_COST * self._fees.max(1) + PART_MIN)
        return box

    def _do(self, work: float) -> None:
        self.work += work
        self._spend(work)

    def _round(self, prices: Floats) -> bool:
        """Add every master's cheapest holding at *prices* where it is cheaper than those known; return whether more is proven than before."""
        known = np.zeros(self._masters)
        if not self._places:
            np.minimum.at(known, self._owners, self._costs - self._helds @ prices)
        slack = max(0.0, self.proven) * SLACK / self._masters
        owners, helds, proven = [], [], float(prices.sum())
        for n in range(self._masters):
            low, held = self._fill(n, prices, float(known[n]), slack)
            proven += low
            if held is not None:
                owners.append(n)
                helds.append(held)
        if owners:
            self._add(owners, helds)
        if proven <= self._proven:
            return False
        self._proven, self.prices = proven, prices
        return True

    def _fill(self, n: int, prices: Floats, known: float, slack: float) -> tuple[float, Floats | None]:
        """Return what master *n* costs at least at *prices*, and how much of every column it then holds; None where that is no less than what is *known*."""
        loads, costs, room = self._loads[n], np.append(self._fees[:, n] - prices, self._own[n]), self._room[n]
        own = list(self._places.get(n, ()))
        base = float(costs[own].sum())
        if n in self._places:
            room = np.maximum(0.0, room - loads[:, own].sum(1))
            costs[: self._columns] = NEVER
        else:
            costs[list(self._taken)] = NEVER
        held = np.zeros(len(costs))
        known_here = min(0.0, known - base)
        low, high, steps = fill(Choice(costs, loads, room), self._columns, known_here, slack, held, self._proof)
        self._do(COLUMN_WORK * len(costs) * steps)
        held[own] = 1.0
        return low + base, held if high + base < known or n in self._places else None

    def _add(self, masters: Sequence[int], found: Sequence[Floats]) -> None:
        owners, helds = np.array(masters), np.array([held[: self._columns] for held in found])
        own = [self._own[n] @ held[self._columns :] for n, held in zip(masters, found, strict=True)]
        full = np.hstack([helds, np.zeros((len(owners), self._masters))])
        full[np.arange(len(owners)), self._columns + owners] = 1.0
        lines, rows = np.nonzero(full > PART_MIN)
        costs = (helds * self._fees[:, owners].T).sum(1) + own
        starts = np.searchsorted(lines, np.arange(len(owners)))
        self._program.add_columns(costs, np.full(len(owners), INFINITE), starts, rows, full[lines, rows])
        self._owners, self._helds = np.concatenate([self._owners, owners]), np.vstack([self._helds, helds])
        self._costs = np.concatenate([self._costs, costs])

    def _mix(self, step: float = STEP) -> tuple[float, Floats]:
        """Return what the best mixture of the known holdings costs within the box, and the prices a *step* of the way from the best ones to its."""
        out = np.concatenate([self.prices + self._box, self._box - self.prices])
        self._program.price(np.arange(self._first), out)
        steps = self._program.steps
        solution = self._program.solve(STEPS_MAX)
        self._do((self._program.steps - steps + 1) * (STEP_WORK + ROW_WORK * self._rows))
        self._values = solution.values
        return solution.cost, self.prices + step * (solution.prices[: self._columns] - self.prices)
