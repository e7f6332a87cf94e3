"""Where the heavy slots go among few masters, decided exactly: branch and bound over the linear program of the whole placement.

How this works.  Heavy slots (`HEAVY`) are decided one by one, all others may be divided: a `WayProgram` solves the cases.  Where its solution
divides a heavy slot, the search tries that slot on every master.  It begins with a placement of the largest that no other place of one of
them betters; it goes on with the most promising of all cases: what is proven is no more than the least of them.  Price lists give bounds that hold for all slots, in every case (`PriceLists`); as masters are much alike, one for a
slot on one master, with the prices of the two exchanged, says much of that slot on another.  What the lists prove together is the
`JointProof` proof.  Where the work ends, the heavy slots of the most promising case are rounded.  `complete` then solves the program of all slots around
the decided ones, and decides the next lighter ones until no slot is divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.placement_program import Floats, Spread
from cluster_core.rebalance.bound.joint_proof import CASES_MAX, PRICES_MAX, JointProof
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.layout import OVER_COST, Layout, settle
from cluster_core.rebalance.search.price_lists import PriceLists
from cluster_core.rebalance.search.way_program import WayProgram

HEAVY = 64
"""Slots above this part of a limit in any resource are heavy."""
FEW_LIMITS, PAIRS_MAX = 42, 600
"""So many limits, of all masters, are few: with more, or with slots above a limit, `Holdings` decide.  Heavy slots times masters are at most so many."""
CLOSE_ENOUGH = 0.0005
"""The search ends when the best case left is within this share of the best placement."""
WORK_MAX = 4_950_000_000
"""Work of the search, in about nanoseconds."""
POOL = 400
"""How many of the latest price lists are tried on a case before it is solved."""
LARGE = 0.5
"""Part of a limit from which on a slot is decided before a case is rounded."""
ROUND_AFTER = 10
"""Cases that are divided between two that are rounded."""


def is_few(arrays: ProblemArrays) -> bool:
    """Return whether the masters that take slots are so few that heavy ones are decided case by case: not where one fills its host."""
    return len(arrays.takers) * arrays.size <= FEW_LIMITS and not arrays.targets.heavy


class Case(NamedTuple):
    """An open case, the most promising first: *fixed* pairs of heavy slot (by rank) and master, *leaf* its place in the tree; solved where there is a *spread*."""

    bound: float
    leaf: int
    cost: float
    fixed: tuple[tuple[int, int], ...]
    spread: Spread | None


class Branching:
    """One search: `decided` are the masters of the heavy slots that it found, `proof` is what it proved."""

    def __init__(self, layout: Layout, work_max: float = WORK_MAX) -> None:
        self.layout = layout
        self._masters = len(layout.takers)
        self.heavy = [s for s in layout.singles if layout.part[s] > 1 / HEAVY][: PAIRS_MAX // self._masters]
        self._work_max = work_max
        self.lists = PriceLists(layout, self.heavy)
        self._program = WayProgram(self.lists, OVER_COST, layout.arrays.account.spend)
        self._tree: list[tuple[int, int]] = [(-1, 0)]
        self._closed: dict[int, tuple[tuple[int, int], ...]] = {}
        self._least = np.inf
        root = self._solve(())
        first = Case(self.lists.best(())[0], 0, root.cost, (), root)
        self._found = root
        self._round(self._place_large(first))
        self._search(first)

    def _solve(self, fixed: Sequence[tuple[int, int]], enough: float = np.inf) -> Spread:
        """Solve a case, or until it is proven to cost *enough*, and keep its prices."""
        return self._program.solve(dict(fixed), self._program.work + self.layout.work_max(), enough)

    def _is_over(self) -> bool:
        large = len(self._tree) + self._masters > CASES_MAX
        return large or self._program.work > self._work_max or self.layout.arrays.account.is_over()

    def _search(self, root: Case) -> None:
        heap, since = [root], 0
        while heap and heap[0].bound < self._enough():
            if self._is_over():
                self._round(next((case for case in sorted(heap) if case.spread is not None), root))
                break
            case = heappop(heap)
            if case.spread is None:
                for solved in self._solved(case):
                    heappush(heap, solved)
                continue
            choices = [h for h in case.spread.divided if h < len(self.heavy)]
            if not choices:
                self._closed[case.leaf] = case.fixed
                if case.cost < self._least:
                    self._least, self._found = case.cost, case.spread
                continue
            since += 1
            if since > ROUND_AFTER:
                self._round(self._place_large(case))
                since = 0
            for below in self._divide(case, min(choices)):
                heappush(heap, below)
        for case in heap:
            self._closed[case.leaf] = case.fixed

    def _place_large(self, case: Case) -> Case:
        """Return a case like *case* in which every large slot is where it, moved alone, would cost no less."""
        assert case.spread is not None
        large = [h for h, s in enumerate(self.heavy) if self.layout.part[s] > LARGE]
        if not {*large}.intersection(case.spread.divided):
            return case
        at = {**{h: int(case.spread.at[h]) for h in large}, **dict(case.fixed)}
        large.sort(key=lambda h: (h in dict(case.fixed), h))
        before = self.lists.count
        spread = self._solve(tuple(at.items()))
        own = self.lists.best(tuple(at.items()), before)
        turns, h = 0, 0
        while turns < len(large) and not self._is_over():
            turns += 1
            for n in range(self._masters):
                fixed = tuple({**at, large[h]: n}.items())
                if n == at[large[h]] or self.lists.best(fixed, self.lists.count - POOL)[0] >= spread.cost:
                    continue
                self._exchange(own[1], at[large[h]], n)
                if self.lists.best(fixed, self.lists.count - 1)[0] >= spread.cost:
                    continue
                before = self.lists.count
                other = self._solve(fixed, spread.cost)
                if other.cost < spread.cost * (1 - CLOSE_ENOUGH):
                    at, spread, own, turns = dict(fixed), other, self.lists.best(fixed, before), 0
            h = (h + 1) % len(large)
        return Case(own[0], 0, spread.cost, tuple(at.items()), spread)

    def _enough(self) -> float:
        return self._least * (1 - CLOSE_ENOUGH)

    def _round(self, case: Case) -> None:
        """Decide the heavy slots that *case* divides one after the other, without looking back."""
        work_max = self._program.work + self.layout.work_max() // 4
        assert case.spread is not None
        found = settle(self._program, case.spread, dict(case.fixed), len(self.heavy), work_max)
        if found.cost < self._least:
            self._least, self._found = found.cost, found

    def _divide(self, case: Case, h: int) -> list[Case]:
        """Return the cases of heavy slot *h* on each master that may still be cheaper than the best placement, of which the first is solved."""
        self._tree[case.leaf] = (h, len(self._tree))
        first = len(self._tree)
        self._tree += [(-1, 0)] * self._masters
        found: list[Case] = []
        like: tuple[int, int] | None = None
        assert case.spread is not None
        chief = int(case.spread.at[h])
        for n in sorted(range(self._masters), key=lambda n: (n != chief, n)):
            fixed = (*case.fixed, (h, n))
            bound = max(case.bound, self.lists.best(fixed, self.lists.count - POOL)[0])
            if bound < self._enough() and like is not None:
                self._exchange(*like, n)
                bound = max(bound, self.lists.best(fixed, self.lists.count - 1)[0])
            one = Case(bound, first + n, case.cost, fixed, None)
            if bound >= self._enough():
                self._closed[one.leaf] = fixed
            elif like is not None or (found and self.layout.arrays.account.is_over()):
                found.append(one)
            else:
                before = self.lists.count
                found += self._solved(one)
                like = (self.lists.best(fixed, before)[1], n)
        return found

    def _solved(self, case: Case) -> list[Case]:
        """Return *case* solved; nothing, and close it, where it is no cheaper than the best placement."""
        before = self.lists.count
        spread = self._solve(case.fixed, self._enough())
        bound = max(case.bound, self.lists.best(case.fixed, before)[0])
        if bound >= self._enough():
            self._closed[case.leaf] = case.fixed
            return []
        return [case._replace(bound=bound, cost=spread.cost, spread=spread)]

    def _exchange(self, number: int, one: int, other: int) -> None:
        """Look at price list *number* with the prices of two masters exchanged."""
        price = self.lists.price(number).reshape(self._masters, -1).copy()
        price[[one, other]] = price[[other, one]]
        self._program.learn(price.ravel())

    def decided(self) -> dict[int, int]:
        """Return the masters of the heavy slots, as the layout numbers both."""
        return {s: int(self._found.at[h]) for h, s in enumerate(self.heavy)}

    def parts(self) -> Floats:
        """Return what part of every slot is on every master where the decided ones are whole; of a decided one, nothing."""
        self._solve([(h, int(self._found.at[h])) for h in range(len(self.heavy))])
        return self._program.parts()

    def proof(self) -> JointProof | None:
        """Return what is proven by as few price lists as a proof may have; None where that is less than nothing."""
        least, chosen = self.lists.cover(list(self._closed.values()), PRICES_MAX)
        tree: list[int] = []
        below = [0]
        while below:
            leaf = below.pop()
            h, first = self._tree[leaf]
            if h >= 0:
                tree.append(self.layout.slots[self.heavy[h]])
                below += range(first + self._masters - 1, first - 1, -1)
            else:
                tree.append(-1 - int(self.lists.proven(self._closed[leaf])[chosen].argmax()))
        return self.lists.proof(least, chosen, tree)
