"""Where heavy slots go: a mixed integer program in which they are whole, and all others in bundles of like slots can be divided."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.rebalance.search.arrays import Arrays, Floats, Integers
from cluster_core.rebalance.search.relaxation import Relaxation, slack_cost

HEAVY_PART = 0.12
"""Slots of more than this part of a limit are heavy."""
HEAVY_MAX = 25
"""So many are placed whole; with more the program comes to nothing in its time."""
MEDIUM_PART = 0.01
"""Slots of more than this part of a limit are whole, too, one after the other: what remains divided hardly breaks limits when it is rounded."""
ROOM_PART = 0.002
"""Part of every limit that whole slots leave to light ones: a master that large slots fill to its limit could hold no others."""
FEW_CHOICES = 400
"""Up to so many slots times masters all slots are whole, and the program is the problem itself."""
BUNDLES = 32
"""Bundles of light slots a master."""
ENTRIES_MAX = 2_400
"""Bundles of all masters times masters that take slots, at most: the fewer bundles, the more placements of heavy slots are tried in time."""
NODES_MAX = 60
GAP = 0.005
CAPACITY_COST = 100.0
"""Times the price of load above a limit, that of load above a capacity."""


class Placed(NamedTuple):
    """Owners with heavy slots where programs put them: with light ones at home, or where a relaxation puts them, and what that moves."""

    home: Integers
    rounded: Integers
    cost: float


def place_heavy(arrays: Arrays, relaxation: Relaxation) -> Placed | None:
    """Place heavy slots; None where no slot is heavy, or nothing was found."""
    whole = heavy_slots(arrays)
    if not len(whole):
        return None
    arrays = arrays.with_limits(arrays.limits * (1 - ROOM_PART))
    takers = arrays.takers
    bundles = _bundles(arrays, relaxation, whole)
    groups = [np.array([s]) for s in whole] + bundles
    owners = np.array([arrays.owner[group[0]] for group in groups])
    loads = np.stack([arrays.loads[group].sum(0) for group in groups])
    cost = np.array([arrays.cost[group].sum() for group in groups])
    fixed = np.flatnonzero(arrays.fixed)
    held = np.zeros_like(arrays.limits)
    np.add.at(held, arrays.owner[fixed], arrays.loads[fixed])
    program = LinearProgram()
    limits = (arrays.limits - held)[takers].ravel()
    if arrays.zone_names:
        in_zones = np.stack([held[arrays.zones == z].sum(0) for z in range(len(arrays.zone_names))])
        limits = np.concatenate([limits, (arrays.zone_limits - in_zones).ravel()])
    rows = len(limits)
    program.add_rows(
        np.concatenate([np.full(rows, -INFINITE), np.ones(len(groups))]), np.concatenate([limits, np.ones(len(groups))])
    )
    starts, places, values, costs = _entries(arrays, owners, loads, cost, rows)
    program.add_columns(costs, np.ones(len(costs)), starts, places, values)
    _keep_one(program, arrays, len(groups))
    _add_slack(program, arrays, rows, slack_cost(arrays))
    found = program.solve_whole(np.arange(len(whole) * len(takers)), NODES_MAX, GAP)
    if not found.known:
        return None
    chosen = found.values[: len(whole) * len(takers)].reshape(len(whole), len(takers)).argmax(1)
    pinned = arrays.pinned(whole, takers[chosen])
    around = Relaxation(pinned)
    around.solve()
    around.make_whole(MEDIUM_PART)
    moved = float(arrays.cost[pinned.owner != arrays.owner].sum())
    rounded = around.rounded()
    home = np.where(arrays.parts_of_limits() > MEDIUM_PART, rounded, pinned.owner)
    return Placed(home, rounded, around.value + moved)


def _add_slack(program: LinearProgram, arrays: Arrays, rows: int, dear: float) -> None:
    """Let load be above limits at a price, and above capacities at a far higher one."""
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


def heavy_slots(arrays: Arrays) -> Integers:
    """Return the slots that are placed whole, the heaviest first."""
    free = np.flatnonzero(~arrays.fixed)
    part = arrays.parts_of_limits()[free]
    order = free[np.argsort(-part, kind="stable")]
    if len(free) * len(arrays.takers) <= FEW_CHOICES:
        return order
    return order[: min(HEAVY_MAX, int((part > HEAVY_PART).sum()))]


def _bundles(arrays: Arrays, relaxation: Relaxation, whole: Integers) -> list[Integers]:
    """Return the light slots of each master in groups of like worth at the prices of the relaxation."""
    light = ~arrays.fixed
    light[whole] = False
    masters = len(arrays.limits)
    count = max(2, min(BUNDLES, ENTRIES_MAX // (masters * len(arrays.takers))))
    worth = (arrays.loads * relaxation.prices[:masters][arrays.owner]).sum(1) - arrays.cost
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
    """Return the columns of a program, one a group and master, group by group: starts, rows, values and costs."""
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
