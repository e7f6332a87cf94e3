"""What an overloaded master must give away at least: a covering problem, its prices, and a search that proves more.

How this works.  A master that is over its limits must evict slots x (0 or 1 each) with ``sum(w[r] x) >= need[r]`` in every
resource r, at the least cost ``sum(b x)``.  With fractions allowed that is a linear program with as many rows as resources;
`price` solves it by the dual simplex method with bound flipping (a dozen steps for thousands of slots), so that no solver has to
be shipped: the prices are only advice, since *any* prices p >= 0 prove that at least ``sum(p need) - sum(max(0, p w - b))`` must move.
`dive` is a depth-first search over whole slots that proves a higher figure.  It uses only + - * and comparisons, therefore the same
code runs on floats to find a bound and on whole numbers to check it without rounding.

Arrays are flat: ``w[j * R + r]``.  `cluster_core.kernels.rebalance_engine` compiles these very functions.
"""

from __future__ import annotations

from typing import Any

Numbers = Any
"""A list, or the array that the compiled engine takes instead."""

TURNS_MAX = 600
EPSILON = 1e-12
BEYOND = 1e300


def solve(matrix: Numbers, x: Numbers, size: int) -> bool:
    """Solve ``matrix x = x`` in place (rows flat, partial pivots); False when the matrix is singular."""
    for k in range(size):
        p = k
        for i in range(k + 1, size):
            if abs(matrix[i * size + k]) > abs(matrix[p * size + k]):
                p = i
        if abs(matrix[p * size + k]) < EPSILON:
            return False
        if p != k:
            for j in range(size):
                held = matrix[k * size + j]
                matrix[k * size + j] = matrix[p * size + j]
                matrix[p * size + j] = held
            held = x[k]
            x[k] = x[p]
            x[p] = held
        for i in range(size):
            if i != k:
                f = matrix[i * size + k] / matrix[k * size + k]
                if f != 0.0:
                    for j in range(k, size):
                        matrix[i * size + j] -= f * matrix[k * size + j]
                    x[i] -= f * x[k]
    for k in range(size):
        x[k] /= matrix[k * size + k]
    return True


def fill_basis(w: Numbers, n: int, size: int, basis: Numbers, matrix: Numbers, by_row: bool) -> None:
    """Write the columns of the basis into *matrix*, as its rows or as its columns; column n + r is the surplus of r."""
    for k in range(size):
        v = basis[k]
        for r in range(size):
            entry = w[v * size + r] if v < n else (-1.0 if v - n == r else 0.0)
            if by_row:
                matrix[k * size + r] = entry
            else:
                matrix[r * size + k] = entry


def enter(
    b: Numbers, w: Numbers, size: int, prices: Numbers, basis: Numbers, upper: Numbers, row: Numbers,
    alpha: Numbers, steps: Numbers, sign: float, slope: float,
) -> int:  # fmt: skip
    """Return the column that enters the basis, flipping the bounds of those passed on the way; -1 when there is none."""
    n = len(b)
    for j in range(n + size):
        steps[j] = -1.0
        basic = False
        for k in range(size):
            if basis[k] == j:
                basic = True
        if basic:
            continue
        if j < n:
            a = 0.0
            d = b[j]
            for r in range(size):
                a += row[r] * w[j * size + r]
                d -= prices[r] * w[j * size + r]
        else:
            a = -row[j - n]
            d = prices[j - n]
        a *= sign
        alpha[j] = a
        if j < n and upper[j] == 1:
            if a < -EPSILON:
                steps[j] = max(0.0, d / a)
        elif a > EPSILON:
            steps[j] = max(0.0, d / a)
    while True:
        e = -1
        for j in range(n + size):
            if steps[j] >= 0.0 and (e < 0 or steps[j] < steps[e]):
                e = j
        if e < 0 or e >= n:
            return e
        slope -= abs(alpha[e])
        if slope <= 0.0:
            return e
        upper[e] = 1 - upper[e]
        steps[e] = -1.0


def price(
    b: Numbers, w: Numbers, need: Numbers, size: int, prices: Numbers, basis: Numbers, upper: Numbers,
    matrix: Numbers, row: Numbers, alpha: Numbers, steps: Numbers,
) -> int:  # fmt: skip
    """Fill *prices* with the best ones for the covering program; return the number of steps, or -1 when it gave up.

    *b* [n], *w* [n * size], *need* [size] >= 0; the rest is room to work in.  All of it float64 of moderate size.
    """
    n = len(b)
    for r in range(size):
        basis[r] = n + r
        prices[r] = 0.0
    for j in range(n):
        upper[j] = 0
    for turn in range(TURNS_MAX):
        fill_basis(w, n, size, basis, matrix, True)
        for k in range(size):
            prices[k] = b[basis[k]] if basis[k] < n else 0.0
        if not solve(matrix, prices, size):
            return -1
        for r in range(size):
            row[r] = need[r]
        for j in range(n):
            if upper[j] == 1:
                for r in range(size):
                    row[r] -= w[j * size + r]
        fill_basis(w, n, size, basis, matrix, False)
        if not solve(matrix, row, size):
            return -1
        leave = -1
        worst = 1e-9
        above = False
        for k in range(size):
            if -row[k] > worst:
                worst = -row[k]
                leave = k
                above = False
            if basis[k] < n and row[k] - 1.0 > worst:
                worst = row[k] - 1.0
                leave = k
                above = True
        if leave < 0:
            return turn
        fill_basis(w, n, size, basis, matrix, True)
        for r in range(size):
            row[r] = 1.0 if r == leave else 0.0
        if not solve(matrix, row, size):
            return -1
        e = enter(b, w, size, prices, basis, upper, row, alpha, steps, 1.0 if above else -1.0, worst)
        if e < 0:
            return -1
        out = basis[leave]
        if out < n:
            upper[out] = 1 if above else 0
        if e < n:
            upper[e] = 0
        basis[leave] = e
    return -1


def dive(
    n: int, size: int, b: Numbers, rc: Numbers, x0: Numbers, w: Numbers, need: Numbers, sur: Numbers, prices: Numbers,
    base: Any, limit: Any, nodes_max: int, find: int, tail: Numbers, xs: Numbers, best_x: Numbers, sums: Numbers,
    picks: Numbers, cost: Numbers, out: Numbers,
) -> int:  # fmt: skip
    """Look for a cover that costs less than *limit*; 1 when the search was complete, 0 when it was not.

    Slots come in the order of their reduced cost ``rc = |b - prices w|``; *x0* is the best choice at the prices, *sur* its surplus,
    *base* the bound that the prices prove.  Any cover costs base + rc of the slots that differ from x0 + prices * surplus.  With *find*
    better covers lower the limit and land in *best_x*; without, the first one stops the search.  *out* gets limit and nodes visited.
    *tail[d]* sums up the slots from d on: by resource least rc/w, all w, least b/w, largest w; then the least b.
    """
    best = limit
    zero = base - base
    nodes = 0
    wide = 4 * size + 1
    d = 0
    for r in range(size):
        sums[r] = sur[r]
        picks[r] = zero
    cost[0] = base
    cost[1] = zero
    xs[0] = -1
    while d >= 0:
        if xs[d] == -1:
            nodes += 1
            if nodes > nodes_max:
                out[0] = best
                out[1] = nodes
                return 0
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
                    while k * tail[d * wide + 4 * r + 3] < v and k < 64:
                        k += 1
                    c = k * tail[d * wide + 4 * size]
                    if c > plain:
                        plain = c
            if dead or cost[2 * d] + low >= best or cost[2 * d + 1] + plain >= best:
                d -= 1
                continue
            if ok and cost[2 * d] + lin < best:
                if find == 0:
                    out[0] = best
                    out[1] = nodes
                    return 0
                best = cost[2 * d] + lin
                for j in range(n):
                    best_x[j] = x0[j] ^ (1 if j < d and xs[j] == 1 else 0)
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
    out[0] = best
    out[1] = nodes
    return 1
