"""A problem as arrays of an engine, and how placements compare: the part of the planner between whole numbers and the loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from cluster_core.rebalance.goal.problem import Scaled, exact
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search.engine import Engine

SLOT_COST = Fraction(1, 50)
"""Mean slots that one more moved slot weighs: what made plans of few slots at hardly any cost in bytes where it was measured."""
RANGE_SLOTS = 20
"""Moved slots that one more slot range weighs, among placements of as few bytes."""
MANY, SOME = 400, 40
"""Slots a master from which it has many, or some; below it has few."""
SLACKS = ((MANY, 0.0004, 0.003), (SOME, 0.003, 0.01), (0, 0.006, 0.03))
"""From so many slots a master: how far above the bound bytes count as the least there are; when masters are empty or drained, and when not."""


class Rank(NamedTuple):
    """How good a placement is, smaller is better: load over limits, cost above what counts as least, slots and ranges."""

    over: float
    cost: float
    scattered: float


class Ground:
    """A problem as arrays of an engine; limits in zones that have one are cut down evenly.

    *least* is the proven bound on what moves, in units of the cost; *joins*: ranges cost what the problem says.
    """

    def __init__(
        self, scaled: Scaled, targets: Targets, engine: Engine, least: int = 0, *, joins: bool = False
    ) -> None:
        self.scaled, self.targets, self.engine = scaled, targets, engine
        self.size = len(scaled.resources)
        slots = len(scaled.owner)
        self.shares = [[float(load) for load in row] for row in scaled.loads]
        totals = [sum(row) for row in self.shares]
        self.mean_cost = totals[scaled.cost] / slots or 1.0
        self.scale = [self.mean_cost * slots / total if total else 0.0 for total in totals]
        self.w = engine.floats([self.shares[r][s] for s in range(slots) for r in range(self.size)])
        self.caps = _caps(scaled, targets)
        wanted = scaled.problem.slot_cost
        self.slot_cost = float(SLOT_COST if wanted is None else exact(wanted, "slot_cost"))
        extra = 0.0 if wanted is None and slots <= MANY * len(scaled.masters) else self.slot_cost * self.mean_cost
        self.cost = engine.floats([load + extra for load in self.shares[scaled.cost]])
        self.border = float(exact(scaled.problem.range_cost, "range_cost")) * self.mean_cost
        self.movable = engine.whole([int(s not in scaled.fixed) for s in range(slots)])
        held = [0] * len(scaled.masters)
        for n in scaled.owner:
            held[n] += 1
        takes = [not m.drained and not m.excluded for m in scaled.masters]
        self.takers = [n for n, take in enumerate(takes) if take]
        self.keeps = [(2 if held[n] else 1) if take else 0 for n, take in enumerate(takes)]
        self.held, self.joins = held, joins
        self.growing = any(not held[n] for n in self.takers) or any(m.drained for m in scaled.masters)
        self.per_master = slots / len(self.takers)
        slack = next(row[1 if self.growing else 2] for row in SLACKS if self.per_master > row[0])
        self.enough = least * (1 + slack)

    def loads_of(self, at: Sequence[int]) -> list[float]:
        """Return the loads ``[n * size + r]`` of a placement."""
        load = [0.0] * (len(self.held) * self.size)
        for r, row in enumerate(self.shares):
            for s, n in enumerate(at):
                load[n * self.size + r] += row[s]
        return load

    def judge(self, at: Sequence[int]) -> Rank:
        """Return how good a placement is."""
        over = 0.0
        for i, load in enumerate(self.loads_of(at)):
            if load > self.caps[i] and self.keeps[i // self.size]:
                over += (load - self.caps[i]) * self.scale[i % self.size] / self.mean_cost
        hold = set(at)
        over += sum(1.0 for n, keep in enumerate(self.keeps) if keep == 2 and n not in hold)
        row = self.shares[self.scaled.cost]
        moved, ranges = [row[s] for s, n in enumerate(self.scaled.owner) if at[s] != n], count_ranges(at)
        if self.joins:
            return Rank(over, sum(moved) + self.border * ranges, len(moved))
        return Rank(over, max(sum(moved), self.enough), len(moved) + RANGE_SLOTS * ranges)


def _caps(scaled: Scaled, targets: Targets) -> list[float]:
    caps = [[float(c) for c in row] for row in targets.caps]
    if targets.zone_share is not None:
        for r in range(len(scaled.resources)):
            zones: dict[str, float] = {}
            for n, master in enumerate(scaled.masters):
                zones[master.zone] = zones.get(master.zone, 0.0) + caps[n][r]
            room = float(targets.zone_share * sum(scaled.loads[r]))
            for n, master in enumerate(scaled.masters):
                if zones[master.zone] > room:
                    caps[n][r] = math.floor(caps[n][r] * room / zones[master.zone])
    return [cap if cap < 2.0**53 else cap * (1 - 1e-12) for row in caps for cap in row]
