"""A problem as arrays, and how placements compare: the part of the planner between whole numbers and the compiled loops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.anneal import KEEPS_ONE, MAY_END_EMPTY, TAKES_NOTHING, Board

SLOT_COST = 0.02
"""Mean slots that one more moved slot weighs: what made plans of few slots at hardly any cost in bytes where it was measured."""
RANGE_SLOTS = 20
"""Moved slots that one more slot range weighs, among placements of as few bytes."""
MANY, SOME = 400, 40
"""Slots a master from which it has many, or some; below it has few."""
SLACKS = ((MANY, 0.0004, 0.003), (SOME, 0.003, 0.006), (0, 0.006, 0.03))
"""From so many slots a master: how far above the bound bytes count as the least there are; when masters are empty or drained, and when not."""


class Rank(NamedTuple):
    """How good a placement is, smaller is better: load over limits, cost above what counts as least, slots and ranges."""

    over: float
    cost: float
    scattered: float


class ProblemArrays:
    """A problem as arrays; limits in zones that have one are cut down evenly.

    *least* is the proven bound on what moves, in units of the cost; all searches for placements draw on the *account*.
    """

    def __init__(self, scaled: Scaled, targets: Targets, least: int = 0, account: Account | None = None) -> None:
        self.scaled, self.targets, self.account = scaled, targets, account or Account()
        self.size = len(scaled.resources)
        slots = len(scaled.owner)
        self.shares = [[float(load) for load in row] for row in scaled.loads]
        totals = [sum(row) for row in self.shares]
        self.mean_cost = totals[scaled.cost] / slots or 1.0
        self.scale = [self.mean_cost * slots / total if total else 0.0 for total in totals]
        self.caps = _caps(scaled, targets)
        extra = 0.0 if slots <= MANY * len(scaled.masters) else SLOT_COST * self.mean_cost
        self.cost = [load + extra for load in self.shares[scaled.cost]]
        held = [0] * len(scaled.masters)
        for n in scaled.owner:
            held[n] += 1
        takes = [not m.drained and not m.excluded for m in scaled.masters]
        self.takers = [n for n, take in enumerate(takes) if take]
        self.keeps = [
            (KEEPS_ONE if held[n] else MAY_END_EMPTY) if take else TAKES_NOTHING for n, take in enumerate(takes)
        ]
        self.held = held
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

    def board(self, at: Sequence[int], sources: Sequence[int], limits: Sequence[float] | None = None) -> Board:
        """Return where a walk from the placement *at* begins, where the *sources* have to give something away; all prices are 0.

        *limits* [master * R + resource] take the place of the problem's.
        """
        now, owner, masters = np.array(at), np.array(self.scaled.owner), len(self.held)
        movable = np.array([s not in self.scaled.fixed for s in range(len(owner))])
        changed = np.flatnonzero(now != owner)
        moved, place = np.zeros(len(owner), np.int64), np.full(len(owner), -1)
        moved[: len(changed)] = changed
        place[changed] = np.arange(len(changed))
        loads = np.array(self.shares).T
        by_owner = np.lexsort((-(loads * self.scale).max(1), owner))
        load, caps = np.array(self.loads_of(at)), np.array(self.caps if limits is None else limits)
        first = np.cumsum([0, *self.held[:-1]])
        lists = np.zeros((masters, 3), np.int64)
        lists[: len(self.takers), 0] = self.takers
        lists[: len(sources), 1] = sources
        columns = [self.keeps, np.bincount(now, minlength=masters), first, self.held, *lists.T]
        return Board(
            np.stack([owner, now, movable, place, by_owner]),
            np.column_stack([loads, self.cost]),
            np.stack([caps, load, np.zeros(len(caps)), np.tile(self.scale, masters)], axis=1),
            np.stack([np.array(column) for column in columns], axis=1),
            moved,
            np.array([len(changed), int((load > caps).sum()), 0, 0, len(self.takers), len(sources), 0]),
        )

    def judge(self, at: Sequence[int]) -> Rank:
        """Return how good a placement is."""
        over = 0.0
        for i, load in enumerate(self.loads_of(at)):
            if load > self.caps[i] and self.keeps[i // self.size]:
                over += (load - self.caps[i]) * self.scale[i % self.size] / self.mean_cost
        hold = set(at)
        over += sum(1.0 for n, keep in enumerate(self.keeps) if keep == KEEPS_ONE and n not in hold)
        row = self.shares[self.scaled.cost]
        moved, ranges = [row[s] for s, n in enumerate(self.scaled.owner) if at[s] != n], count_ranges(at)
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
