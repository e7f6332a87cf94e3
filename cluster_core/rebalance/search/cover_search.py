"""Which slots a master had best give away, and prices by case that prove how little that can be.

Branch and bound over the covering program of one master: the best case first, divided by the heaviest slot that its solution divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, Floats, LinearProgram
from cluster_core.rebalance.bound.certificates import Certificate, ProofKind, proven
from cluster_core.rebalance.bound.cover import PRICE_BITS, Cover

STEPS_MAX = 1_000_000
"""Simplex steps of one program: a dozen were enough wherever it was measured."""
SOLVES_MAX, SOLVES_LEAST = 400, 8
"""Programs that one search solves, at most and at least; between them, `SOLVES_SLOTS` over its slots."""
SOLVES_SLOTS = 100_000
CLOSE_ENOUGH = 0.0003
"""A search ends when the best case left is within this share of the best choice."""
SOLVE_WORK, SLOT_WORK = 60_000, 500
"""Work of a program, and of a slot in it."""
WHOLE = 1e-9


class Case(NamedTuple):
    """An open case, the most promising first: *fixed* pairs of slot (by place) and whether it is chosen, the next one to *divide*."""

    bound: float
    leaf: int
    divide: int
    fixed: tuple[tuple[int, bool], ...]
    basis: Any


class CoverSearch:
    """One search: *chosen* are the places of the best choice found, of cost *high*; *lists* and *tree* prove what is left."""

    def __init__(self, cover: Cover, mean: Floats, unit: float, solves_max: int, slack: float = 0.0) -> None:
        """Search until no case may be cheaper than the best choice by *slack* (in the cost) or `CLOSE_ENOUGH`; *mean* loads and cost *unit* scale."""
        self.cover, self._mean, self._unit = cover, mean, unit
        self._loads = np.array(cover.loads, float).T.reshape(len(cover.slots), len(mean)) / mean
        self._costs = np.array(cover.costs, float) / unit
        self._need = np.array(cover.need, float) / mean
        self._program = self._make_program()
        self._held: list[int] = []
        self.lists: list[tuple[int, ...]] = []
        self._closed: dict[int, int] = {}
        self._divided: dict[int, tuple[int, int]] = {}
        self._leaves = 1
        self.solves = 0
        self.high = float("inf")
        self.chosen = np.ones(len(cover.slots), bool)
        self._search(
            slack / unit, min(solves_max, SOLVES_MAX, max(SOLVES_LEAST, SOLVES_SLOTS // max(1, len(cover.slots))))
        )

    @property
    def work(self) -> int:
        """What was done, in about nanoseconds."""
        return self.solves * (SOLVE_WORK + SLOT_WORK * len(self.cover.slots))

    def _make_program(self) -> LinearProgram:
        program = LinearProgram()
        count, size = self._loads.shape
        program.add_rows(np.where(self._need > 0, self._need, -INFINITE), np.full(size, INFINITE))
        rows = np.tile(np.arange(size), count)
        program.add_columns(self._costs, np.ones(count), np.arange(count) * size, rows, self._loads.ravel())
        return program

    def _search(self, slack: float, solves_max: int) -> None:
        first = self._solve(0, (), None, -np.inf, 0)
        heap = [] if first is None else [first]
        while heap and self.solves < solves_max:
            case = heappop(heap)
            if case.bound >= self.high - max(slack, CLOSE_ENOUGH * self.high) or case.divide < 0:
                break
            first_leaf = self._leaves
            self._leaves += 2
            by = self._closed.pop(case.leaf)
            self._divided[case.leaf] = (case.divide, first_leaf)
            for k, choose in enumerate((True, False)):
                below = self._solve(first_leaf + k, (*case.fixed, (case.divide, choose)), case.basis, case.bound, by)
                if below is not None:
                    heappush(heap, below)

    def _solve(self, leaf: int, fixed: tuple[tuple[int, bool], ...], basis: Any, bound: float, by: int) -> Case | None:
        """Solve a case; None where nothing can be chosen in it.  *by* is the list of the case above, of *bound*."""
        out = [j for j, choose in fixed if not choose]
        lacking = self._need - self._loads.sum(0) + self._loads[out].sum(0)
        if (lacking > WHOLE).any():
            self._close_impossible(leaf, out)
            return None
        self._hold(fixed)
        if basis is not None:
            self._program.restart(basis)
        solution = self._program.solve(STEPS_MAX)
        self.solves += 1
        self.lists.append(self._whole(np.maximum(0.0, solution.prices)))
        if solution.cost > bound or leaf == 0:
            bound, by = solution.cost, len(self.lists) - 1
        self._closed[leaf] = by
        x = solution.values
        self._round(x)
        parts = np.where((x > WHOLE) & (x < 1 - WHOLE), self._loads.max(1), 0.0)
        divide = int(parts.argmax()) if len(parts) and parts.max() > 0 else -1
        return Case(bound, leaf, divide, fixed, self._program.basis())

    def _hold(self, fixed: Sequence[tuple[int, bool]]) -> None:
        if self._held:
            self._program.bound(self._held, np.zeros(len(self._held)), np.ones(len(self._held)))
        self._held = [j for j, _ in fixed]
        if fixed:
            values = np.array([float(choose) for _, choose in fixed])
            self._program.bound(self._held, values, values)

    def _round(self, x: Floats) -> None:
        """Choose all that the solution chooses a part of, then leave out what is not needed, the dearest first."""
        chosen = x > WHOLE
        surplus = self._loads[chosen].sum(0) - self._need
        cost = float(self._costs[chosen].sum())
        while True:
            spare = np.flatnonzero(chosen & (self._loads <= surplus).all(1) & (self._costs > 0))
            if not len(spare):
                break
            j = int(spare[self._costs[spare].argmax()])
            chosen[j] = False
            surplus = surplus - self._loads[j]
            cost -= float(self._costs[j])
        if cost < self.high and (surplus > -WHOLE).all():
            self.high, self.chosen = cost, chosen

    def _close_impossible(self, leaf: int, out: Sequence[int]) -> None:
        """Close a case in which all that is left does not suffice, by one price that says so."""
        cover = self.cover
        left = set(range(len(cover.slots))) - set(out)
        short = [v - sum(load[j] for j in left) for v, load in zip(cover.need, cover.loads, strict=True)]
        r = max(range(len(short)), key=short.__getitem__)
        price = ((2 * sum(cover.costs) + 1) << PRICE_BITS) // max(1, short[r])
        self.lists.append(tuple(price * (i == r) for i in range(len(short))))
        self._closed[leaf] = len(self.lists) - 1

    def _whole(self, prices: Floats) -> tuple[int, ...]:
        """Return prices in 2**-60 units of cost a unit of the resource, none where there is no need."""
        unit = self._unit / self._mean * (1 << PRICE_BITS)
        return tuple(int(p) if v > 0 else 0 for p, v in zip((prices * unit).tolist(), self.cover.need, strict=True))

    def certificate(self, node: str) -> Certificate:
        """Return what was proven for master *node*; its value is 0 or more where nothing is earned."""
        lists, tree = self._prune()
        plain = Certificate(node, ProofKind.PRICES, 0, self.lists[0])
        value = proven(self.cover, plain) or 0
        if len(tree) > 1:
            cases = Certificate(node, ProofKind.CASES, 0, lists[0], len(tree), lists[1:], tree)
            better = proven(self.cover, cases)
            if better is not None and better > value:
                return replace(cases, value=better)
        return replace(plain, value=value)

    def _prune(self) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
        """Return the lists in use, the first one among them, and the tree in preorder."""
        number = {0: 0}
        tree: list[int] = []
        below = [0]
        while below:
            leaf = below.pop()
            if leaf in self._divided:
                j, first = self._divided[leaf]
                tree.append(self.cover.slots[j])
                below += [first + 1, first]
            else:
                tree.append(-1 - number.setdefault(self._closed[leaf], len(number)))
        return tuple(self.lists[k] for k in number), tuple(tree)

    def slots(self) -> list[int]:
        """Return the slots of the best choice."""
        return [s for s, x in zip(self.cover.slots, self.chosen.tolist(), strict=True) if x]
