"""What a master of few slots must give away at least: a depth-first search over whole slots that proves it.

The covering problem is that of `cover`, at one list of prices.  `dive` uses only + - * and comparisons, therefore the same code runs
compiled on floats to find a bound and as it is on whole numbers to check it without rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cluster_core.kernels.whole_costs import WholeColumns
from cluster_core.rebalance.bound.cover import PRICE_BITS, Cover

Numbers = Any
"""A list, or the array that compiled code takes instead."""
BEYOND = 1e300
NODES_MAX = 3000
"""Nodes of the search that proves one certificate."""
CHECK_NODES_MAX = 4 * NODES_MAX
SLOTS_MAX = 40
"""Slots of a master that are few."""
COUNT_MAX = 64
"""Slots that the heaviest is counted as, at most, to see how many a need takes."""


class PricedCover(NamedTuple):
    """The covering problem of one master at *prices*, everything of the cost scaled by 2**60, its slots in the order of their reduced cost ``rc = |b - prices w|``.

    *w* [j * R + r]; *x0* is the best choice at the prices, *surplus* what it covers beyond the need, *base* the bound that the prices prove:
    any cover costs base + rc of the slots that differ from x0 + prices * surplus.  *tail* [d * (4 R + 1)] sums up the slots from d on: by
    resource least rc/w, all w, least b/w, largest w; then the least b.
    """

    slots: Numbers
    b: Numbers
    rc: Numbers
    x0: Numbers
    w: Numbers
    need: Numbers
    surplus: Numbers
    prices: Numbers
    base: Any
    tail: Numbers


class Room(NamedTuple):
    """What a search works in, by depth: choices, sums of what is covered, of what is picked, costs; and the *best* cover found."""

    choices: Numbers
    sums: Numbers
    picks: Numbers
    cost: Numbers
    best: Numbers


def dive(cover: PricedCover, room: Room, limit: Any, nodes_max: int, find: bool) -> tuple[bool, Any, int]:
    """Look for a cover that costs less than *limit*; return whether the search was complete, the limit in the end, and nodes visited.

    With *find* better covers lower the limit and land in ``room.best``; without, the first one stops the search.
    """
    b, rc, x0, w, need, prices, tail = cover.b, cover.rc, cover.x0, cover.w, cover.need, cover.prices, cover.tail
    xs, sums, picks, cost = room.choices, room.sums, room.picks, room.cost
    n, size = len(b), len(need)
    best = limit
    zero = cover.base - cover.base
    nodes = 0
    wide = 4 * size + 1
    d = 0
    for r in range(size):
        sums[r] = cover.surplus[r]
        picks[r] = zero
    cost[0] = cover.base
    cost[1] = zero
    xs[0] = -1
    while d >= 0:
        if xs[d] == -1:
            nodes += 1
            if nodes > nodes_max:
                return False, best, nodes
            low = zero
            lin = zero
            plain = zero
            ok = True
            dead = False
            for r in range(size):
                v = sums[d * size + r]
                q = tail[d * wide + 4 * r]
                if v < 0:
                    ok = False
                    c = -v * q
                else:
                    c = v * min(prices[r], q)
                    lin += v * prices[r]
                if c > low:
                    low = c
                v = need[r] - picks[d * size + r]
                if v > 0:
                    if v > tail[d * wide + 4 * r + 1]:
                        dead = True
                        break
                    c = v * tail[d * wide + 4 * r + 2]
                    if c > plain:
                        plain = c
                    k = 1
                    while k * tail[d * wide + 4 * r + 3] < v and k < COUNT_MAX:
                        k += 1
                    c = k * tail[d * wide + 4 * size]
                    if c > plain:
                        plain = c
            if dead or cost[2 * d] + low >= best or cost[2 * d + 1] + plain >= best:
                d -= 1
                continue
            if ok and cost[2 * d] + lin < best:
                if not find:
                    return False, best, nodes
                best = cost[2 * d] + lin
                for j in range(n):
                    room.best[j] = x0[j] ^ (1 if j < d and xs[j] == 1 else 0)
        if d == n or xs[d] == 1:
            d -= 1
            continue
        xs[d] += 1
        x = x0[d] ^ xs[d]
        sign = 0
        if xs[d] == 1:
            sign = 1 if x == 1 else -1
        for r in range(size):
            v = w[d * size + r]
            sums[(d + 1) * size + r] = sums[d * size + r] + sign * v
            picks[(d + 1) * size + r] = picks[d * size + r] + x * v
        cost[2 * d + 2] = cost[2 * d] + rc[d] * xs[d]
        cost[2 * d + 3] = cost[2 * d + 1] + b[d] * x
        d += 1
        xs[d] = -1
    return True, best, nodes


def price(cover: Cover, prices: Sequence[int]) -> PricedCover:
    """Return *cover* at *prices* (2**-60 units)."""
    size = len(cover.need)
    prices = [p if e > 0 else 0 for p, e in zip(prices, cover.need, strict=True)]
    rest, bits = WholeColumns(cover.costs, cover.loads).reduced(prices, PRICE_BITS)
    rows = sorted(
        (abs(v) << (PRICE_BITS - bits), -cost << PRICE_BITS, j, v < 0)
        for j, (v, cost) in enumerate(zip(rest.tolist(), cover.costs, strict=True))
    )
    w = [cover.loads[r][row[2]] for row in rows for r in range(size)]
    x0 = [int(row[3]) for row in rows]
    surplus = [sum(w[j * size + r] for j, x in enumerate(x0) if x) - cover.need[r] for r in range(size)]
    base = sum(p * e for p, e in zip(prices, cover.need, strict=True)) - sum(row[0] for row in rows if row[3])
    b, rc = [-row[1] for row in rows], [row[0] for row in rows]
    order = [cover.slots[row[2]] for row in rows]
    return PricedCover(order, b, rc, x0, w, list(cover.need), surplus, prices, base, _tail(size, b, rc, w))


def _tail(size: int, b: list[int], rc: list[int], w: list[int]) -> list[int | float]:
    wide = 4 * size + 1
    row: list[int | float] = [0] * wide
    for r in range(size):
        row[4 * r] = row[4 * r + 2] = BEYOND
    row[4 * size] = BEYOND
    rows = [row]
    for j in range(len(b) - 1, -1, -1):
        row = list(row)
        for r in range(size):
            v = w[j * size + r]
            if v:
                row[4 * r] = min(row[4 * r], rc[j] // v)
                row[4 * r + 2] = min(row[4 * r + 2], b[j] // v)
            row[4 * r + 1] += v
            row[4 * r + 3] = max(row[4 * r + 3], v)
        row[4 * size] = min(row[4 * size], b[j])
        rows.append(row)
    return [value for row in reversed(rows) for value in row]


def costs_at_least(cover: Cover, prices: Sequence[int], value: int) -> bool:
    """Return whether the search proves that every choice costs *value* (whole units) or more."""
    depth, size = len(cover.slots) + 2, len(cover.need)
    room = Room([0] * depth, [0] * (depth * size), [0] * (depth * size), [0] * (2 * depth), [0] * len(cover.slots))
    return dive(price(cover, prices), room, value << PRICE_BITS, CHECK_NODES_MAX, False)[0]
