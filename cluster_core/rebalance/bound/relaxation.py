"""The whole placement with fractions allowed: a linear program, and its simplex method.

How this works.  Every slot is spread over the masters that may take it, in parts that add up to one; every master keeps its limits.
Moving costs, load above a limit costs far more.  An optimum divides no more slots than there are limits, so that it says for nearly
every slot where it belongs.  One part of each slot, the key, follows from the others (Dantzig and Van Slyke 1967: generalized upper
bounds): the basis has one row a limit, not one a slot, and a slot that moves as a whole is a mere flip of its key.

Arrays are flat: ``w[s * R + r]``, ``cap[n * R + r]``; masters here are those that may take slots, numbered from 0.
"""

from __future__ import annotations

from typing import Any

Numbers = Any
EPSILON = 1e-9
BLOCK = 128
"""Slots that are priced before the best of them enters."""
SLACK = -1
OVER = -2
"""What stands in a basis row instead of a slot: room below a limit, load above it."""


def fee(
    s: int, n: int, cost: Numbers, owner: Numbers, base: Numbers, extra: Numbers, held: Numbers, bulk: Numbers,
    over_cost: float,
) -> float:  # fmt: skip
    """Return what it costs to have slot *s* on master *n*: far too much where it is held by another."""
    c = 0.0
    if held[s] >= 0 and held[s] != n:
        c += over_cost * bulk[s]
    if n != owner[s]:
        c += cost[s]
    if n != base[s]:
        c += extra[s]
    return c


def candidate(
    first: int, size: int, masters: int, w: Numbers, cost: Numbers, owner: Numbers, base: Numbers, extra: Numbers,
    at: Numbers, held: Numbers, bulk: Numbers, over_cost: float, y: Numbers, out: Numbers,
) -> bool:  # fmt: skip
    """Price a block of slots from *first* on; the column that gains most for its bulk lands in *out* (slot, master)."""
    top = -EPSILON
    found = False
    for s in range(first, min(first + BLOCK, len(held))):
        if held[s] == at[s]:
            continue
        a = at[s]
        v = fee(s, a, cost, owner, base, extra, held, bulk, over_cost)
        for r in range(size):
            v -= y[a * size + r] * w[s * size + r]
        for n in range(masters):
            c = 0.0 - v
            for r in range(size):
                c -= y[n * size + r] * w[s * size + r]
            if c >= top * bulk[s]:
                continue
            c += fee(s, n, cost, owner, base, extra, held, bulk, over_cost)
            if c < top * bulk[s] and n != a:
                top = c / bulk[s]
                out[0] = s
                out[1] = n
                found = True
    return found


def begin(
    size: int, w: Numbers, cap: Numbers, at: Numbers, over_cost: float, inverse: Numbers, x: Numbers, slot_of: Numbers,
    node_of: Numbers,
) -> None:  # fmt: skip
    """Make the basis of a placement that divides no slot: the room below every limit, or the load above it."""
    m = len(x)
    for i in range(m):
        x[i] = cap[i]
        for j in range(m):
            inverse[i * m + j] = 0.0
    for s in range(len(at)):
        for r in range(size):
            x[at[s] * size + r] -= w[s * size + r]
    for i in range(m):
        node_of[i] = i
        slot_of[i] = SLACK
        inverse[i * m + i] = 1.0
        if x[i] < 0.0:
            x[i] = -x[i]
            slot_of[i] = OVER
            inverse[i * m + i] = -1.0


def charge(
    m: int, cost: Numbers, owner: Numbers, base: Numbers, extra: Numbers, at: Numbers, held: Numbers, bulk: Numbers,
    over_cost: float, inverse: Numbers, slot_of: Numbers, node_of: Numbers, y: Numbers,
) -> None:  # fmt: skip
    """Work out the negated prices *y* of a basis."""
    for j in range(m):
        y[j] = 0.0
    for k in range(m):
        c = 0.0
        if slot_of[k] == OVER:
            c = over_cost
        elif slot_of[k] >= 0:
            g = slot_of[k]
            c = fee(g, node_of[k], cost, owner, base, extra, held, bulk, over_cost)
            c -= fee(g, at[g], cost, owner, base, extra, held, bulk, over_cost)
        if c != 0.0:
            for j in range(m):
                y[j] += c * inverse[k * m + j]


def relax(
    size: int, masters: int, w: Numbers, cap: Numbers, cost: Numbers, owner: Numbers, base: Numbers, extra: Numbers,
    at: Numbers, held: Numbers, bulk: Numbers, over_cost: float, warm: int, turns_max: int, inverse: Numbers, x: Numbers,
    slot_of: Numbers, node_of: Numbers, y: Numbers, d: Numbers, sums: Numbers, out: Numbers,
) -> int:  # fmt: skip
    """Solve from the placement *at*, in which slots may be moved that are *free*; return the pivots made.

    Afterwards *at* has every slot's key, *slot_of* and *node_of* the other parts (*x* of the slot each), *y* the negated prices.
    """
    m = masters * size
    if warm == 0:
        begin(size, w, cap, at, over_cost, inverse, x, slot_of, node_of)
        for s in range(len(held)):
            sums[s] = 0.0
    charge(m, cost, owner, base, extra, at, held, bulk, over_cost, inverse, slot_of, node_of, y)
    first = 0
    idle = 0
    for turn in range(turns_max):
        # which column enters
        enter = SLACK
        b = -1
        top = -EPSILON
        for i in range(m):
            if -y[i] < top:
                top = -y[i]
                enter = SLACK
                b = i
            if over_cost + y[i] < top:
                top = over_cost + y[i]
                enter = OVER
                b = i
        if b < 0:
            idle = 0
            while idle * BLOCK < len(held) + BLOCK:
                if candidate(first, size, masters, w, cost, owner, base, extra, at, held, bulk, over_cost, y, out):
                    enter = out[0]
                    b = out[1]
                    break
                idle += 1
                first += BLOCK
                if first >= len(held):
                    first = 0
            if b < 0:
                return turn
            first += BLOCK
            if first >= len(held):
                first = 0
        # its direction
        for k in range(m):
            v = 0.0
            if enter == SLACK:
                v = inverse[k * m + b]
            elif enter == OVER:
                v = -inverse[k * m + b]
            else:
                a = at[enter]
                for r in range(size):
                    v += w[enter * size + r] * (inverse[k * m + b * size + r] - inverse[k * m + a * size + r])
            d[k] = v
        # how far it goes
        for k in range(m):
            if slot_of[k] >= 0:
                sums[slot_of[k]] = 0.0
        if enter >= 0:
            sums[enter] = 0.0
        for k in range(m):
            if slot_of[k] >= 0:
                sums[slot_of[k]] += d[k]
        far = 1e300
        leave = -1
        key = -1
        if enter >= 0:
            far = 1.0
            key = enter
            shared = 0.0
            for k in range(m):
                if slot_of[k] == enter:
                    shared += x[k]
            rate = 1.0 - sums[enter]
            far = (1.0 - shared) / rate if rate > EPSILON else 1e300
        for k in range(m):
            if d[k] > EPSILON and x[k] < far * d[k]:
                far = x[k] / d[k]
                leave = k
                key = -1
            g = slot_of[k]
            if g >= 0 and g != enter and sums[g] < -EPSILON:
                rest = 1.0
                for j in range(m):
                    if slot_of[j] == g:
                        rest -= x[j]
                if rest < far * -sums[g]:
                    far = max(0.0, rest) / -sums[g]
                    leave = -1
                    key = g
        if far >= 1e300:
            return -turn - 1
        if far < 0.0:
            far = 0.0
        if key >= 0:
            # the key of a slot leaves: another part of the slot becomes its key first
            most = -1.0
            for k in range(m):
                if slot_of[k] == key and x[k] - far * d[k] > most:
                    most = x[k] - far * d[k]
                    leave = k
            if leave < 0:  # the slot has no other part: it moves as a whole
                for k in range(m):
                    x[k] -= far * d[k]
                at[enter] = b
                continue
            for j in range(m):
                v = 0.0
                for k in range(m):
                    if slot_of[k] == key:
                        v -= inverse[k * m + j]
                inverse[leave * m + j] = v
            v = -sums[key]
            rest = 1.0
            for k in range(m):
                if slot_of[k] == key:
                    rest -= x[k]
            d[leave] = v + 1.0 if key == enter else v
            x[leave] = rest
            a = at[key]
            at[key] = node_of[leave]
            node_of[leave] = a
        # pivot
        p = d[leave]
        for k in range(m):
            if k != leave:
                x[k] -= far * d[k]
                f = d[k] / p
                if f != 0.0:
                    for j in range(m):
                        inverse[k * m + j] -= f * inverse[leave * m + j]
        for j in range(m):
            inverse[leave * m + j] /= p
        x[leave] = far
        slot_of[leave] = enter
        node_of[leave] = b
        charge(m, cost, owner, base, extra, at, held, bulk, over_cost, inverse, slot_of, node_of, y)
    return turns_max


def appraise(
    m: int, cost: Numbers, owner: Numbers, base: Numbers, extra: Numbers, at: Numbers, held: Numbers, bulk: Numbers,
    over_cost: float, x: Numbers, slot_of: Numbers, node_of: Numbers,
) -> float:  # fmt: skip
    """Return what the solution costs that `relax` left."""
    total = 0.0
    for s in range(len(at)):
        total += fee(s, at[s], cost, owner, base, extra, held, bulk, over_cost)
    for k in range(m):
        g = slot_of[k]
        if g == OVER:
            total += over_cost * x[k]
        elif g >= 0:
            c = fee(g, node_of[k], cost, owner, base, extra, held, bulk, over_cost)
            total += x[k] * (c - fee(g, at[g], cost, owner, base, extra, held, bulk, over_cost))
    return total


def weigh(
    size: int, masters: int, w: Numbers, cap: Numbers, cost: Numbers, owner: Numbers, free: Numbers, price: Numbers,
    heavy: Numbers, regret: Numbers,
) -> float:  # fmt: skip
    """Return what any placement costs at least when load costs *price* and room earns it (Lagrange's bound).

    Slots that are not *free* stay with their owner.  *regret* [h * masters + n]: how much more it is when slot *heavy[h]* is on n.
    """
    total = 0.0
    for i in range(masters * size):
        total -= price[i] * cap[i]
    for s in range(len(cost)):
        best = 1e300
        for n in range(masters):
            if free[s] == 0 and n != owner[s]:
                continue
            v = 0.0 if n == owner[s] else cost[s]
            for r in range(size):
                v += price[n * size + r] * w[s * size + r]
            if v < best:
                best = v
        total += best
    for h in range(len(heavy)):
        s = heavy[h]
        best = 1e300
        for n in range(masters):
            v = 0.0 if n == owner[s] else cost[s]
            for r in range(size):
                v += price[n * size + r] * w[s * size + r]
            regret[h * masters + n] = v
            if v < best:
                best = v
        for n in range(masters):
            regret[h * masters + n] -= best
    return total
