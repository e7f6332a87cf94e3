"""What an overloaded master must give away at least: a covering problem, and a search that proves its cost.

How this works.  A master that is over its limits must evict slots x (0 or 1 each) with ``sum(w[r] x) >= need[r]`` in every
resource r, at the least cost ``sum(b x)``.  *Any* prices p >= 0 prove that at least ``sum(p need) - sum(max(0, p w - b))`` must move.
`dive` is a depth-first search over whole slots that proves a higher figure.  It uses only + - * and comparisons, therefore the same
code runs compiled on floats to find a bound and as it is on whole numbers to check it without rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Numbers = Any
"""A list, or the array that compiled code takes instead."""
BEYOND = 1e300
COUNT_MAX = 64
"""Slots that the heaviest is counted as, at most, to see how many a need takes."""


class Cover(NamedTuple):
    """The covering problem of one master, its slots in the order of their reduced cost ``rc = |b - prices w|``.

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


def dive(cover: Cover, room: Room, limit: Any, nodes_max: int, find: bool) -> tuple[bool, Any, int]:
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
