"""Place heavy slots by a program with whole heavy slots and divisible bundles of similar light slots.

An integer program for few masters; else a linear program, solved again as divided slots become whole. Then groups of
masters exchange whole slots by the same program while that costs less.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram, Solution
from cluster_core.rebalance.goal.problem import ScaledProblem
from cluster_core.rebalance.goal.targets import Targets
from cluster_core.rebalance.search.arrays import Arrays, Floats, Integers
from cluster_core.rebalance.search.relaxation import Relaxation, slack_cost

HEAVY_PART = 0.12
"""Minimum share of a limit of a heavy slot."""
HEAVY_MAX = 25
"""Maximum heavy slots of an integer program; with more it finds nothing in time."""
WHOLE_MASTERS_MAX = 9
"""Maximum masters of an integer program; beyond, a linear program is as good and faster."""
MEDIUM_PART = 0.01
"""Minimum share of a limit of a medium slot, which is whole, too: rounding the rest hardly breaks limits."""
ROOM_PART = 0.002
"""Share of every limit reserved for light slots."""
FEW_CHOICES = 400
"""Maximum slots times masters for a program with all slots whole."""
BUNDLES = 32
"""Bundles of light slots per master."""
ENTRIES_MAX = 2_400
"""Maximum bundles of all masters times takers: fewer bundles allow more placements in time."""
NODES_MAX = 60
GAP = 0.005
TOGETHER = (1.0, 0.95, 0.5, 0.7)
"""Slots of at least this share of the heaviest divided slot become whole together; the cheapest result is kept."""
TOGETHER_AGAIN = (1.0, 0.5)
"""The same for groups of masters, in turn."""
GROUP = 4
"""Masters that exchange whole slots at a time."""
PRICE_ROUNDS = 3
"""Linear programs in turn; the prices of each order the light slots of the next."""
DIVE_STEPS_MAX = 36_000
"""Simplex steps after which no further group exchanges slots."""
FINE_BUNDLES = 64
FINE_ENTRIES_MAX = 40_000
"""Bundles of light slots once whole slots are placed."""
LINEAR_BUNDLES = 8
LINEAR_ENTRIES_MAX = 8_000
"""Maximum whole slots times takers, and bundles times takers, in linear programs."""
STEPS_MAX = 200_000
"""Maximum simplex steps of one solution."""
OVER_MIN = 1e-6
"""Share of all load above limits that exceeds rounding errors of floats."""
SLACK_TIMES = 4.0
"""Price of load above a limit, relative to that of a relaxation."""
CAPACITY_COST = 100.0
"""Price of load above a capacity, relative to load above a limit."""


class HeavyPlacement(NamedTuple):
    """Owners with placed heavy slots: light ones at home, and light ones placed, too."""

    home: Integers
    rounded: Integers


def heavy_slots(arrays: Arrays) -> Integers:
    """Return the heavy slots, the heaviest first."""
    return _above(arrays, -1.0 if _has_few_choices(arrays) else HEAVY_PART)


def _has_few_choices(arrays: Arrays) -> bool:
    return int((~arrays.fixed).sum()) * len(arrays.takers) <= FEW_CHOICES


def _above(arrays: Arrays, part: float) -> Integers:
    """Return movable slots above *part* of a limit, the heaviest first."""
    weights = np.where(arrays.fixed, -np.inf, arrays.parts_of_limits())
    order = np.argsort(-weights, kind="stable")
    return order[: int((weights > part).sum())]


def place_heavy(arrays: Arrays, relaxation: Relaxation) -> HeavyPlacement | None:
    """Place heavy slots; None without heavy slots or without a solution."""
    whole = heavy_slots(arrays)
    if not len(whole):
        return None
    tight = arrays.changed(limits=arrays.limits * (1 - ROOM_PART))
    if len(arrays.takers) <= WHOLE_MASTERS_MAX:
        return _place_few(tight, relaxation, whole if _has_few_choices(arrays) else whole[:HEAVY_MAX])
    return _place_many(tight, relaxation)


def exceeds_limits(scaled: ScaledProblem, targets: Targets) -> bool:
    """Return whether an integer program finds that no placement of heavy slots meets the limits; False for many masters.

    Its bound is a float: advice, no proof.
    """
    if len(scaled.takers()) > WHOLE_MASTERS_MAX:
        return False
    arrays = Arrays(scaled, targets)
    arrays = arrays.changed(cost=np.zeros_like(arrays.cost))
    whole = heavy_slots(arrays)[:HEAVY_MAX]
    if not len(whole):
        return False
    solution = _solve_whole(arrays, Relaxation(arrays), whole)
    return solution.least > OVER_MIN * len(arrays.owner) * SLACK_TIMES * slack_cost(arrays)


def _solve_whole(arrays: Arrays, relaxation: Relaxation, whole: Integers) -> Solution:
    """Return the solution of the integer program that places *whole* slots and bundles of the others."""
    bundles = _bundles(arrays, relaxation.prices, whole, BUNDLES, ENTRIES_MAX)
    program = _program(arrays, [np.array([s]) for s in whole] + bundles)
    return program.solve_whole(np.arange(len(whole) * len(arrays.takers)), NODES_MAX, GAP)


def _place_few(arrays: Arrays, relaxation: Relaxation, whole: Integers) -> HeavyPlacement | None:
    """Place *whole* slots by an integer program, and medium ones by relaxations, one after another."""
    takers = arrays.takers
    solution = _solve_whole(arrays, relaxation, whole)
    if not solution.known:
        return None
    chosen = solution.values[: len(whole) * len(takers)].reshape(len(whole), len(takers)).argmax(1)
    pinned = arrays.pinned(whole, takers[chosen])
    around = Relaxation(pinned)
    around.solve()
    around.make_whole(MEDIUM_PART)
    rounded = around.rounded()
    return HeavyPlacement(np.where(arrays.parts_of_limits() > MEDIUM_PART, rounded, pinned.owner), rounded)


def _place_many(arrays: Arrays, relaxation: Relaxation) -> HeavyPlacement | None:
    """Place heavy and medium slots by a linear program, then again those of a few masters at a time."""
    takers = arrays.takers
    whole = _above(arrays, MEDIUM_PART)[: LINEAR_ENTRIES_MAX // len(takers)]
    prices = relaxation.prices
    for _ in range(PRICE_ROUNDS):
        bundles = _bundles(arrays, prices, whole, LINEAR_BUNDLES, LINEAR_ENTRIES_MAX)
        dive = _Dive(arrays, whole, bundles)
        prices = dive.prices()
    everywhere = np.full(len(whole), -1)
    solutions = [dive.settle(everywhere, part) for part in TOGETHER if 2 * dive.program.steps <= DIVE_STEPS_MAX]
    known = [solution for solution in solutions if solution.known]
    if not known:
        return None
    best = min(known, key=lambda solution: solution.cost)
    for masters, together in zip(_groups(len(takers)), cycle(TOGETHER_AGAIN)):
        if dive.program.steps > DIVE_STEPS_MAX:
            break
        at = dive.places(best)
        other = dive.settle(np.where(np.isin(at, masters), -1, at), together)
        best = other if other.known and other.cost < best.cost else best
    at = dive.places(best)
    bundles = _bundles(arrays, prices, whole, FINE_BUNDLES, FINE_ENTRIES_MAX)
    solution = _Dive(arrays, whole, bundles).settle(at)
    home = arrays.owner.copy()
    home[whole] = takers[at]
    if not solution.known:
        return HeavyPlacement(home, home)
    rounded = home.copy()
    parts = solution.values[: (len(whole) + len(bundles)) * len(takers)].reshape(-1, len(takers))
    for bundle, row in zip(map(np.sort, bundles), parts[len(whole) :], strict=True):
        rounded[bundle] = _spread(arrays, bundle, row)
    return HeavyPlacement(home, rounded)


def _groups(masters: int) -> Iterator[list[int]]:
    """Yield groups of `GROUP` masters, each master in as many."""
    for stride in range(1, masters):
        for first in range(masters):
            yield [(first + k * stride) % masters for k in range(GROUP)]


class _Dive:
    """A linear program of *whole* slots and *bundles*; divided slots become whole, the heaviest first."""

    def __init__(self, arrays: Arrays, whole: Integers, bundles: list[Integers]) -> None:
        self.program = _program(arrays, [np.array([s]) for s in whole] + bundles)
        self._arrays = arrays
        self._weights = arrays.parts_of_limits()[whole]
        self._shape = (len(whole), len(arrays.takers))
        self._columns = np.arange(len(whole) * len(arrays.takers)).reshape(self._shape)

    def prices(self) -> Floats:
        """Return the prices [master, resource] of limits while all slots are divisible."""
        limits = self._arrays.limits
        prices, size = np.zeros_like(limits), limits.shape[1]
        rows = self.program.solve(STEPS_MAX).prices[: self._shape[1] * size]
        prices[self._arrays.takers] = np.maximum(0.0, -rows).reshape(-1, size)
        return prices

    def _parts(self, solution: Solution) -> Floats:
        return solution.values[: self._columns.size].reshape(self._shape)

    def places(self, solution: Solution) -> Integers:
        """Return the taker of each whole slot, by index."""
        at: Integers = self._parts(solution).argmax(1)
        return at

    def settle(self, at: Integers, together: float = 1.0) -> Solution:
        """Place whole slots on their takers *at*, those at -1 on the master with most of them."""
        self._bound(np.flatnonzero(at < 0), at)
        self._bound(np.flatnonzero(at >= 0), at)
        free = at < 0
        while True:
            solution = self.program.solve(STEPS_MAX)
            parts = self._parts(solution)
            divided = free & (parts.max(1) < 1 - 1e-6)
            if not (solution.known and divided.any()):
                return solution
            first = np.flatnonzero(divided & (self._weights >= together * self._weights[divided].max()))
            free[first] = False
            self._bound(first, parts.argmax(1))

    def _bound(self, slots: Integers, at: Integers) -> None:
        """Keep *slots* on their takers *at*, or nowhere at -1."""
        lower = (at[slots, None] == np.arange(self._shape[1])).astype(float)
        upper = np.where(at[slots, None] < 0, 1.0, lower)
        self.program.bound(self._columns[slots].ravel(), lower.ravel(), upper.ravel())


def _spread(arrays: Arrays, bundle: Integers, row: Floats) -> Integers:
    """Divide the slots of *bundle* among takers by the shares *row*, neighbours together."""
    hit = np.flatnonzero(row > 1e-9)
    mass = np.cumsum(arrays.loads[bundle].max(1))
    ends = np.cumsum(row[hit]) * mass[-1]
    return arrays.takers[hit[np.minimum(np.searchsorted(ends, mass - 1e-9), len(hit) - 1)]]


def _program(arrays: Arrays, groups: list[Integers]) -> LinearProgram:
    """Return the program that places *groups* of slots at least cost, with one column per group and taker."""
    owners = np.array([arrays.owner[group[0]] for group in groups])
    loads = np.stack([arrays.loads[group].sum(0) for group in groups])
    cost = np.array([arrays.cost[group].sum() for group in groups])
    fixed = np.flatnonzero(arrays.fixed)
    held = np.zeros_like(arrays.limits)
    np.add.at(held, arrays.owner[fixed], arrays.loads[fixed])
    program = LinearProgram()
    limits = arrays.room(held)
    rows = len(limits)
    program.add_rows(
        np.concatenate([np.full(rows, -INFINITE), np.ones(len(groups))]), np.concatenate([limits, np.ones(len(groups))])
    )
    starts, places, values, costs = _entries(arrays, owners, loads, cost, rows)
    program.add_columns(costs, np.ones(len(costs)), starts, places, values)
    _keep_one(program, arrays, len(groups))
    _add_slack(program, arrays, rows, SLACK_TIMES * slack_cost(arrays))
    return program


def _add_slack(program: LinearProgram, arrays: Arrays, rows: int, dear: float) -> None:
    """Allow load above limits at a price, and above capacities at a far higher one."""
    spare = np.full(rows, INFINITE)
    below = (arrays.capacity - arrays.limits)[arrays.takers].ravel()
    spare[: len(below)] = np.maximum(below, 0.0)
    every = np.arange(rows)
    program.add_columns(np.full(rows, dear), spare, every, every, -np.ones(rows))
    program.add_columns(np.full(rows, CAPACITY_COST * dear), np.full(rows, INFINITE), every, every, -np.ones(rows))


def _keep_one(program: LinearProgram, arrays: Arrays, groups: int) -> None:
    """Add a row for each master that must keep a slot."""
    pinned = set(arrays.owner[arrays.fixed].tolist())
    stay = [k for k, n in enumerate(arrays.takers.tolist()) if arrays.keeps_one[n] and n not in pinned]
    masters = len(arrays.takers)
    columns = np.concatenate([np.arange(groups) * masters + k for k in stay]) if stay else np.zeros(0)
    starts = np.arange(len(stay)) * groups
    program.add_rows(np.ones(len(stay)), np.full(len(stay), INFINITE), starts, columns, np.ones(len(columns)))


def _bundles(arrays: Arrays, prices: Floats, whole: Integers, most: int, entries: int) -> list[Integers]:
    """Return the light slots of each master in at most *most* groups of similar value at the relaxation's prices."""
    light = ~arrays.fixed
    light[whole] = False
    masters = len(arrays.limits)
    count = max(2, min(most, entries // (masters * len(arrays.takers))))
    worth = (arrays.loads * prices[:masters][arrays.owner]).sum(1) - arrays.cost
    mix = arrays.loads[:, -1] / np.maximum(arrays.loads[:, 0], 1e-9)
    groups: list[Integers] = []
    for n in range(masters):
        mine = np.flatnonzero(light & (arrays.owner == n))
        if len(mine):
            order = mine[np.lexsort((mix[mine], np.round(worth[mine] / max(float(worth[mine].std()), 1e-9))))]
            mass = np.cumsum(arrays.loads[order].max(1))
            cuts = np.flatnonzero(np.diff(np.floor(mass * count / max(mass[-1], 1e-9)))) + 1
            groups += np.split(order, cuts)
    return groups


def _entries(
    arrays: Arrays, owners: Integers, loads: Floats, cost: Floats, rows: int
) -> tuple[Integers, Integers, Floats, Floats]:  # fmt: skip
    """Return the columns of a program by group and master: starts, rows, values and costs."""
    takers, size = arrays.takers, loads.shape[1]
    groups, masters = len(owners), len(takers)
    own = [(np.arange(masters) * size + r)[None, :].repeat(groups, 0) for r in range(size)]
    weights = [loads[:, r][:, None].repeat(masters, 1) for r in range(size)]
    if arrays.zone_names:
        zone = masters * size + arrays.zones[takers] * size
        own += [(zone + r)[None, :].repeat(groups, 0) for r in range(size)]
        weights += weights[:size]
    own.append((rows + np.arange(groups))[:, None].repeat(masters, 1))
    weights.append(np.ones((groups, masters)))
    places = np.stack(own, axis=2).reshape(groups * masters, -1)
    costs = np.where(owners[:, None] == takers[None, :], 0.0, cost[:, None])
    starts = np.arange(groups * masters) * places.shape[1]
    return starts, places.ravel(), np.stack(weights, axis=2).ravel(), costs.ravel()
