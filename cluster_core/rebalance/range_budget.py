"""What a budget of bytes buys: fewer slot ranges than the placement that moves least, and the curve to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from cluster_core.rebalance.bound.range_bound import least_ranges
from cluster_core.rebalance.goal.limits import above_capacity, excess, must_drain, overload
from cluster_core.rebalance.goal.problem import Scaled, exact
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.plan import CurvePoint, count_ranges
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.arrays import MANY, ProblemArrays
from cluster_core.rebalance.search.first_placements import cut_runs
from cluster_core.rebalance.search.layout import Layout
from cluster_core.rebalance.search.picking import Picking
from cluster_core.rebalance.search.ranges import FEW_MASTERS, FIRM, SETTLE, WARM, RangeSearch, Walk, thorough

BUDGETS = (Fraction(0), Fraction(1, 100), Fraction(1, 50), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
"""Budgets of the curve, above the bound; the problem's own and none at all are tried, too."""
CURVE_EFFORT = 0.1
"""Part of a walk that each other budget gets."""
KEPT_PART = 0.15
"""Part of the work that is kept for larger budgets."""
SHREDDED = 10
"""With more ranges a master than this, limits or the budget are in the way, ..."""
COOL = FIRM._replace(warm=0.5)
"""... and a cool walk from the placement that moves least, which stays near it, may find what hot ones do not, where little more may move."""
PICKED = (WARM._replace(warm=0.3, price=30.0, anew=True), SETTLE)
"""Walks from windows beside picked slots: cool, with limits dear, since hardly any is broken."""
PICKED_TURNS = 4
"""Placements of windows and picked slots that are tried."""
WALKS_BACK, HOPELESS, HOPELESS_MAX = 1.2, 2.0, 2
"""So many times what may move beyond the least: walks do not begin where more than the first moved; where more than the second did, so often, nothing
is tried again."""
WALKS_PART = 0.4
"""Part of the work that is kept for walks while they are looked for."""
UNBOUNDED = float("inf")


class Spent(NamedTuple):
    """The owners found, and what other budgets would give."""

    owner: tuple[int, ...]
    curve: tuple[CurvePoint, ...] = ()


class RangeBudget:
    """A problem whose cost may exceed *bound* (whole units), from *owner*, the placement that moves least among those found."""

    def __init__(
        self, scaled: Scaled, targets: Targets, owner: Sequence[int], bound: int, account: Account | None = None
    ) -> None:  # fmt: skip
        self.scaled, self.targets, self.owner, self.bound = scaled, targets, tuple(owner), bound
        self._closed = above_capacity(targets, scaled.totals(owner))
        self._arrays = ProblemArrays(scaled, targets, account=account)
        self._account = self._arrays.account
        self._search = RangeSearch(self._arrays, owner, closed=self._closed)
        self._least = self._search.cost_of(owner)
        self._walks = thorough(len(self._arrays.takers))
        self._wanted = exact(scaled.problem.bytes_budget, "bytes_budget")
        self.base = bound if self._least <= bound * (1 + self._wanted) else self._least
        self._fewest = least_ranges(scaled, targets)
        self._worst = excess(scaled, targets, owner), overload(scaled, targets, owner)

    def amount(self, budget: Fraction) -> int:
        """Return what may move: *budget* above the bound, or where nothing was found within the problem's own, above the least that was."""
        return max(int(self.base * (1 + budget)), self._least)

    def spend(self, *, quick: bool = False) -> Spent:
        """Return the placement of fewest ranges within the problem's budget; with its curve, unless *quick*."""
        wanted = self._wanted
        if quick:
            return Spent(self._find(self.owner, self.amount(wanted), self._walks, CURVE_EFFORT))
        chosen: dict[Fraction | None, tuple[int, ...]] = {}
        self._arrays.account = self._account.part(1.0, KEPT_PART)
        most = self.amount(wanted)
        at = chosen[Fraction(0)] = self._find(self.owner, self._least, (SETTLE,), CURVE_EFFORT)
        picked = self._picked(self._find(at, most, self._walks, CURVE_EFFORT), most) if wanted else at
        for budget in sorted(b for b in BUDGETS if 0 < b < wanted):
            if self.amount(budget) > self._least:
                at = chosen[budget] = self._find(at, self.amount(budget), self._walks, CURVE_EFFORT)
        at = min(at, picked, key=count_ranges)
        at = self._find(at, most if wanted else self._least, self._walks)
        if self._is_shredded(at):
            at = min(at, self._find(self.owner, most, (COOL, SETTLE)), key=count_ranges)
        chosen[wanted] = at
        self._arrays.account = self._account
        for more in [*sorted(b for b in BUDGETS if b > wanted), None]:
            limit = UNBOUNDED if more is None else self.amount(more)
            chosen[more] = at = self._find(at, limit, self._walks, CURVE_EFFORT)
        # what a larger budget found may be the better for a smaller one, too
        for larger, smaller in pairwise(reversed(chosen)):
            if self._is_no_worse(chosen[larger], chosen[smaller]):
                chosen[smaller] = chosen[larger]
        return Spent(chosen[wanted], tuple(self._point(budget, found) for budget, found in chosen.items()))

    def _is_no_worse(self, one: Sequence[int], other: Sequence[int]) -> bool:
        return self._search.cost_of(one) <= self._search.cost_of(other) and count_ranges(one) <= count_ranges(other)

    def _is_shredded(self, at: Sequence[int]) -> bool:
        return count_ranges(at) > SHREDDED * len(self._arrays.takers)

    def _picked(self, at: tuple[int, ...], limit: int) -> tuple[int, ...]:
        """Return the fewest ranges of *at*, where it has many, and of what is found from windows beside as few picked slots as limits allow."""
        arrays = self._arrays
        few = len(arrays.takers) <= FEW_MASTERS and arrays.per_master > MANY
        if not few or not self._is_shredded(at) or limit <= self._least or self._closed:
            return at
        account, layout = arrays.account, Layout(arrays)
        base = cut_runs(arrays, self.scaled.owner) if arrays.growing else self.scaled.owner
        budget = limit / float(layout.mean[self.scaled.cost])
        picking = Picking(layout, layout.inside(self.owner), layout.inside(base), budget)
        hopeless = 0
        for _ in range(PICKED_TURNS):
            arrays.account = account.part(1.0, WALKS_PART)
            placed = layout.outside(picking.place())
            is_last, arrays.account = arrays.account.is_over(), account
            found = self._find(at, limit, PICKED, start=placed) if picking.spent < WALKS_BACK else at
            picking.go_on(layout.inside(found if found != at else placed))
            at = min(at, found, key=count_ranges)
            hopeless += picking.spent > HOPELESS
            if is_last or hopeless == HOPELESS_MAX:
                break
        return at

    def unbound(self) -> tuple[int, ...]:
        """Return the placement of fewest ranges, whatever moves."""
        return self._find(self.owner, UNBOUNDED, self._walks)

    def _find(
        self,
        at: Sequence[int],
        limit: float,
        walks: Sequence[Walk],
        effort: float = 1.0,
        *,
        start: Sequence[int] | None = None,
    ) -> tuple[int, ...]:
        """Return what the search finds from *at*, or *at* where in whole numbers that breaks a limit or the budget, or none can be better."""
        fewest = count_ranges(at) <= self._fewest and not self._search.slot_cost
        if fewest and self._search.cost_of(at) <= limit:
            return tuple(at)
        found = tuple(self._search.find(at, limit, walks, effort, self._fewest, start))
        kept = (
            self._search.cost_of(found) <= limit
            and not (must_drain(self.scaled, found) and not must_drain(self.scaled, at))
            and excess(self.scaled, self.targets, found) <= self._worst[0]
            and overload(self.scaled, self.targets, found) <= self._worst[1]
        )
        return found if kept else tuple(at)

    def _point(self, budget: Fraction | None, found: Sequence[int]) -> CurvePoint:
        moved = sum(1 for s, n in enumerate(found) if n != self.scaled.owner[s])
        return CurvePoint(budget, self._search.cost_of(found), count_ranges(found), moved)
