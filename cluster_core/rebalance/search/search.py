"""Search a placement within limits, with few slot ranges and few bytes above the bound.

1. Prices of a linear program per master over a limit prove a bound on the moved cost.
2. Walks from the present owners search few ranges within a budget above the bound, unless many masters have half as many
   heavy slots. On ordinary loads the search ends here.
3. Otherwise programs place heavy slots, for few masters after one of all moves, and walks continue from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from cluster_core.rebalance.bounds import FREE, Prices, count_ranges, least_moved, least_ranges, whole_prices
from cluster_core.rebalance.goal.problem import RANGES_A_MASTER, ScaledProblem
from cluster_core.rebalance.goal.targets import Targets, excess, find_targets, must_drain, overload
from cluster_core.rebalance.plan import CurvePoint
from cluster_core.rebalance.search.arrays import Arrays, Integers
from cluster_core.rebalance.search.heavy import HeavyPlacement, heavy_slots, place_heavy
from cluster_core.rebalance.search.relaxation import Relaxation
from cluster_core.rebalance.search.walks import (
    BYTES_FIRST,
    COOL,
    FEW_MASTERS,
    FROM_PLACED,
    FROM_ROUNDED,
    MEND,
    SETTLE,
    WARM,
    Walk,
    Walks,
    cut_runs,
)

RELAXED_MASTERS_MAX = 9
"""Maximum masters of a relaxation of all moves."""
PLACED_MASTERS_MAX = 40
"""Maximum masters to place heavy slots first."""
FAR_PART = 0.0003
"""Share of all load above limits after walks that makes a second search useless."""
PLACED_PART = Fraction(3, 5)
"""Remaining share of the budget after a placement of heavy slots that exceeds the whole budget."""
SHREDDED = 10
"""Slot ranges per master above which heavy slots are placed although a plan was found."""
UNBOUNDED = float("inf")

Owners = tuple[int, ...]


class Result(NamedTuple):
    """Best owners for the limits of *aim*, prices for the bound, the budget above it, and results of other budgets.

    *forgone*: a better placement was found but gains too little.
    """

    aim: ScaledProblem
    owner: Owners
    prices: Prices = FREE
    budget: Fraction | None = None
    curve: tuple[CurvePoint, ...] = ()
    forgone: bool = False


class LimitDistance(NamedTuple):
    """Distance of owners from meeting limits; smaller is better."""

    keeps_drained: bool
    loses_last: bool
    above_capacity: Fraction
    above_limits: Fraction


class Search:
    """A search within the limits of *scaled*; *effort* is the share of the usual steps."""

    def __init__(self, scaled: ScaledProblem, effort: float = 1.0) -> None:
        self.scaled, self.targets = scaled, find_targets(scaled)
        self._arrays = Arrays(scaled, self.targets)
        self._relaxation = Relaxation(self._arrays)
        self._walks = Walks(self._arrays, effort)
        self._fewest = least_ranges(scaled, self.targets)
        self._cost = scaled.loads[scaled.cost]
        self.prices, self.bound = self._prove()
        if self._arrays.zone_names and len(self._arrays.takers) <= RELAXED_MASTERS_MAX:
            self._relax()

    def run(self, known: Sequence[int] | None = None, *, is_short: bool = False) -> Result:
        """Return the best placement found; *known* owners are a further start.

        A search that *is_short* walks once from the present owners, and returns these if that finds nothing.
        """
        of_bound, of_data = self.scaled.budgets
        base = self.bound
        heavy, takers = len(heavy_slots(self._arrays)), len(self._arrays.takers)
        is_crowded = FEW_MASTERS < takers <= min(2 * heavy, PLACED_MASTERS_MAX)
        best = None if is_crowded else self._within(base * (1 + of_bound), known, once=is_short)
        if is_short and best is None and not is_crowded:
            return Result(self.scaled, self.scaled.owner, self.prices, of_bound)
        if best is None or (heavy and not is_short and count_ranges(best) > SHREDDED * takers):
            placed = self._place_heavy()
            least, near = self._fewest_bytes(known if best is None else best, placed)
            if least is None:
                return Result(self.scaled, _tuple(near), self.prices, of_bound)
            base, part = self.bound, of_bound
            if self.moved(least) > base * (1 + of_bound):  # above the bound already
                base, part = self.moved(least), PLACED_PART * of_bound
            start = None if placed is None else placed.home
            joined = self._within(base * (1 + part), least, start, once=True) or least
            best = joined if best is None else min(best, joined, key=self._rank)
        budget = of_bound
        more = Fraction(int(of_data * sum(self._cost)), base) if base else Fraction(0)
        if more > budget and count_ranges(best) > RANGES_A_MASTER * len(self._arrays.takers):
            wider = self._within(base * (1 + more), best)
            if wider is not None and count_ranges(wider) < count_ranges(best):
                best, budget = wider, more
        least, joined = self._fewer_bytes(best), self._fewer_ranges(best)
        best = min((at for at in (best, least, joined) if self.moved(at) <= base * (1 + budget)), key=self._rank)
        points = [(budget, best), (None, min(joined, best, key=self._rank))]
        if budget:
            points.insert(0, (Fraction(0), min(least, best, key=self.moved)))
        return Result(self.scaled, best, self.prices, budget, tuple(self._point(part, at) for part, at in points))

    def unbounded(self) -> Owners | None:
        """Return the placement with the fewest ranges, at any cost."""
        return self._within(UNBOUNDED, None)

    def joined(self, known: Owners) -> Owners | None:
        """Return the placement with the fewest ranges that moves hardly more than *known*."""
        return self._within(self.moved(known) * (1 + self.scaled.budgets[0]), known, once=True)

    def moved(self, at: Sequence[int]) -> int:
        """Return the cost of moving to *at*."""
        return sum(load for load, n, owner in zip(self._cost, at, self.scaled.owner, strict=True) if n != owner)

    def _in_means(self, most: Fraction | float) -> float:
        """Convert a cost to mean slots' cost."""
        if most == UNBOUNDED:
            return UNBOUNDED
        return float(Fraction(most) * len(self._cost) / (sum(self._cost) or 1))

    def badness(self, at: Sequence[int]) -> LimitDistance:
        """Return the distance of *at* from meeting the limits."""
        return badness(self.scaled, self.targets, at)

    def _prove(self) -> tuple[Prices, int]:
        """Return the prices with the highest bound, and that bound."""
        relaxation, arrays = self._relaxation, self._arrays
        masters = len(arrays.limits)
        zones = dict(zip(arrays.zone_names, relaxation.prices[masters:], strict=True))
        tried = [
            whole_prices(self.scaled, relaxation.staying, staying=True),
            whole_prices(self.scaled, relaxation.prices[:masters], zones),
        ]
        proven = [least_moved(self.scaled, self.targets, prices) for prices in tried]
        best = proven.index(max(proven))
        return tried[best], proven[best]

    def _relax(self) -> None:
        self._relaxation.solve()
        prices, bound = self._prove()
        if bound > self.bound:
            self.prices, self.bound = prices, bound

    def _start(self) -> Integers:
        few = len(self._arrays.takers) <= FEW_MASTERS and not self.targets.heavy
        return self._arrays.owner.copy() if few else cut_runs(self._arrays)

    def _keeps(self, at: Sequence[int]) -> bool:
        return not any(self.badness(at))

    def _within(
        self, most: Fraction | float, known: Sequence[int] | None, start: Integers | None = None, *, once: bool = False
    ) -> Owners | None:  # fmt: skip
        """Return the placement with the fewest ranges that moves at most *most*, None for none.

        Walks begin at *start* with placed heavy slots, or near the owners if None; *once*: without a second search.
        """
        walks, limit = self._walks, self._in_means(most)
        candidates: list[Owners] = [] if known is None else [_tuple(known)]
        few = RANGES_A_MASTER * len(self._arrays.takers)
        begin_at = self._start() if start is None else start
        for courses in walks.thorough:
            best, last = walks.find(begin_at, limit, courses, walks.ranges_first, self._fewest)
            candidates += [] if best is None else [_tuple(best)]
            is_far = best is None and self._arrays.excess(last) > FAR_PART * len(self._cost)
            if is_far or once or (best is not None and count_ranges(candidates[-1]) <= few):
                break
        if known is not None and min(map(count_ranges, candidates)) > self._fewest:
            again = walks.thorough[1][-2:]
            best, _ = walks.find(np.array(candidates[-1], np.int64), limit, again, walks.ranges_first, self._fewest)
            candidates += [] if best is None else [_tuple(best)]
        candidates = [at for at in candidates if self.moved(at) <= most and self._keeps(at)]
        return min(candidates, key=self._rank, default=None)

    def _rank(self, at: Owners) -> tuple[float, int]:
        slots = sum(n != owner for n, owner in zip(at, self.scaled.owner, strict=True))
        return count_ranges(at) + self._walks.ranges_first.slot * slots, self.moved(at)

    def _place_heavy(self) -> HeavyPlacement | None:
        """Place heavy slots by a program; None without heavy slots or with too many masters."""
        takers = len(self._arrays.takers)
        if takers > PLACED_MASTERS_MAX:
            return None
        if takers <= RELAXED_MASTERS_MAX and not self._arrays.zone_names:
            self._relax()
        return place_heavy(self._arrays, self._relaxation)

    def _fewest_bytes(self, known: Sequence[int] | None, placed: HeavyPlacement | None) -> tuple[Owners | None, Owners]:
        """Return the placement within limits that moves least, None for none, and the nearest to the limits."""
        arrays, walks = self._arrays, self._walks
        first = cut_runs(arrays) if self.targets.heavy else arrays.owner.copy()
        starts: list[tuple[Integers, Sequence[Walk]]] = [(first, walks.from_owners)]
        if placed is not None:
            starts = [(placed.rounded, (COOL,)), (placed.rounded, FROM_PLACED), *starts]
        elif self._relaxation.parts:
            starts.append((self._relaxation.rounded(), FROM_ROUNDED))
        if known is not None:
            starts.append((np.array(known, np.int64), FROM_ROUNDED))
        ends: list[Owners] = []
        for start, courses in starts:
            best, last = walks.find(start, UNBOUNDED, courses, BYTES_FIRST)
            ends += [_tuple(start), _tuple(last)] + ([] if best is None else [_tuple(best)])
            if placed is not None and best is not None:
                break
        if not any(map(self._keeps, ends)):
            nearest = np.array(min(ends, key=self.badness), np.int64)
            best, last = walks.find(nearest, UNBOUNDED, (MEND,), BYTES_FIRST)
            ends += [_tuple(last)] + ([] if best is None else [_tuple(best)])
        within = [at for at in ends if self._keeps(at)]
        least = min(within, key=lambda at: (self.moved(at), count_ranges(at)), default=None)
        near = min(ends, key=lambda at: (self.badness(at), self.moved(at), count_ranges(at)))
        return least, near

    def _fewer_bytes(self, best: Owners) -> Owners:
        """Return the placement of fewest bytes near *best*."""
        limit = self._in_means(self.moved(best))
        cheaper, _ = self._walks.find(np.array(best, np.int64), limit, (COOL,), BYTES_FIRST)
        near = best if cheaper is None else _tuple(cheaper)
        return near if self._keeps(near) and self.moved(near) < self.moved(best) else best

    def _fewer_ranges(self, best: Owners) -> Owners:
        """Return the placement of fewest ranges near *best*, at any cost."""
        if count_ranges(best) <= self._fewest:
            return best
        walks = self._walks
        joined, _ = walks.find(np.array(best, np.int64), UNBOUNDED, (WARM, SETTLE), walks.ranges_first, self._fewest)
        near = best if joined is None else _tuple(joined)
        return near if self._keeps(near) and self._rank(near) < self._rank(best) else best

    def _point(self, budget: Fraction | None, at: Owners) -> CurvePoint:
        slots = sum(n != owner for n, owner in zip(at, self.scaled.owner, strict=True))
        return CurvePoint(budget, self.moved(at), count_ranges(at), slots)


def badness(scaled: ScaledProblem, targets: Targets, at: Sequence[int]) -> LimitDistance:
    """Return the distance of *at* from meeting *targets*, the limits of *scaled*."""
    stay = {n for n in set(scaled.owner) if not scaled.masters[n].drained}
    return LimitDistance(must_drain(scaled, at), not stay <= set(at), overload(scaled, at), excess(scaled, targets, at))


def _tuple(at: Sequence[int] | Integers) -> Owners:
    return tuple(at.tolist() if isinstance(at, np.ndarray) else at)
