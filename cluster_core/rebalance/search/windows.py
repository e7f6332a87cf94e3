"""Minimise slot ranges within limits and a budget: simulated annealing over windows of neighbouring slots.

A border lies between two slots of different masters. A step moves a window of one master's slots to the neighbour beyond
the border, its first owner, or any taker. Windows start at a border or anywhere, with log-uniform lengths. Most steps
exchange the window for one of equal load at another border, as full masters allow nothing else. Load above a limit and
cost above the budget have prices that rise, faster for a limit that stays broken. Running sums make the cost of a step
independent of the window's length.

Only + - * /, float64 comparisons and a 32-bit shift register: a seed gives the same walk on every machine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.search.arrays import Arrays, Floats, Integers

CHUNK = 1024
"""Steps between two updates of temperature and prices."""
DRAWS = 1024
DICE = np.array([round(-math.log((i + 0.5) / DRAWS), 6) for i in range(DRAWS)])
"""-log of evenly spaced chances."""
MAY_END_EMPTY, KEEPS_ONE, TAKES_NOTHING = range(3)
"""Restrictions of a master: none, keep one slot, take nothing."""

BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS
"""Slots per count of borders, to find the next border fast."""
WEIGHT_MIN = 0.1
NONE_FOUND = 1e300

SHIFT_RIGHT = 48
SHIFT_LEFT = SHIFT_RIGHT + 48
RUN_LEFT = SHIFT_LEFT + 10
RUN_RIGHT = RUN_LEFT + 6
RUN_HOME = RUN_RIGHT + 6
RUN_ANYWHERE = RUN_HOME + 10
ONE_SLOT = RUN_ANYWHERE + 32
"""Cumulative frequency of the kinds of step, in 256ths: a border moves right or left; a run joins the one before or
behind, goes to an owner of its slots, or anywhere; one slot moves; the rest are windows."""
BALANCED = 192
"""Steps of 256 that exchange two windows."""
SIDES = 8
"""Remembered borders per master."""
HOME, BESIDE = 3, 4
"""Of eight windows anywhere: below the first go home, below the second to the neighbour, the others to any master."""

OWNER, AT, OWNER_END, FIXED, PLACE, BORDERS = range(6)
"""Rows of ``Row.slots`` [slot]: owner, current master, end of the owner's run, fixed slots before, index of the border
before this slot or -1; the last row lists the borders."""
CAP, LOAD, SCALE, WEIGHT = range(4)
"""Columns of ``Row.limits`` [master * R + resource]: limit, load, scale to mean slots, price of breaking it."""
KEEPS, COUNT, TAKERS = range(3)
"""Columns of ``Row.masters``: restriction, number of slots; the last lists takers."""
BORDER_COUNT, BROKEN, MOVED, TAKER_COUNT, DIE = range(5)
"""Entries of ``Row.tally``: borders, broken limits, moved slots, takers, next random number."""
HEAT, PRICE, COST, LEAST, COST_PRICE = range(5)
"""Entries of ``Row.course``: temperature and price of a mean slot above a limit, in ranges; moved cost; best value;
weight of the budget."""


Move = tuple[int, int, int, int]
"""A window: first slot, slot behind it, its master, the receiving master."""


class Row(NamedTuple):
    """State of a walk, changed in place.

    *sums* [resource, slot] are running sums, with cost last; *sides* [master, `SIDES`] are recent borders of each master.
    """

    slots: Integers
    sums: Floats
    limits: Floats
    masters: Integers
    blocks: Integers
    tally: Integers
    course: Floats
    lengths: Integers
    sides: Integers


class Goal(NamedTuple):
    """Weights to minimise: *ranges* per range, *slot* per moved slot, *cost* per mean slot's cost, which is at most *budget*.

    Factors per chunk: of heat, of price, and of a limit's weight while broken and while kept.
    """

    budget: float
    ranges: float
    slot: float
    cost: float
    cool: float
    rise: float
    learn: float
    forget: float
    loose: float


@njit()
def step(x: int) -> int:
    """Return the number after *x* of a 32-bit xorshift sequence (Marsaglia 2003)."""
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    return x


@njit()
def mark(slots: Integers, blocks: Integers, tally: Integers, sides: Integers, s: int) -> None:
    """Record whether there is a border before slot *s* > 0."""
    k = slots[PLACE, s]
    if slots[AT, s] != slots[AT, s - 1]:
        sides[slots[AT, s - 1], s % SIDES] = s
        sides[slots[AT, s], s % SIDES] = s
        if k < 0:
            slots[PLACE, s] = tally[BORDER_COUNT]
            slots[BORDERS, tally[BORDER_COUNT]] = s
            tally[BORDER_COUNT] += 1
            blocks[s >> BLOCK_BITS] += 1
    elif k >= 0:
        tally[BORDER_COUNT] -= 1
        last = slots[BORDERS, tally[BORDER_COUNT]]
        slots[BORDERS, k] = last
        slots[PLACE, last] = k
        slots[PLACE, s] = -1
        blocks[s >> BLOCK_BITS] -= 1


@njit()
def run_end(slots: Integers, blocks: Integers, s: int, stop: int) -> int:
    """Return the slot behind the run of slot *s*, at most *stop*."""
    p = s + 1
    while p < stop:
        if p & (BLOCK - 1) == 0 and blocks[p >> BLOCK_BITS] == 0:
            p += BLOCK
        elif slots[PLACE, p] >= 0:
            return p
        else:
            p += 1
    return stop


@njit()
def run_start(slots: Integers, blocks: Integers, s: int, stop: int) -> int:
    """Return the first slot of the run of slot *s*, at least *stop*."""
    p = s
    while p > stop:
        if p & (BLOCK - 1) == BLOCK - 1 and blocks[p >> BLOCK_BITS] == 0:
            p -= BLOCK
        elif slots[PLACE, p] >= 0:
            return p
        else:
            p -= 1
    return stop


@njit()
def begin(row: Row) -> None:
    """Sum up the placement in `AT`."""
    slots, sums, limits, masters, blocks, tally, course, _, sides = row
    size, count = len(sums) - 1, slots.shape[1] - 1
    end = count
    for s in range(count - 1, -1, -1):
        slots[OWNER_END, s] = end
        if s > 0 and slots[OWNER, s] != slots[OWNER, s - 1]:
            end = s
    for s in range(count):
        n = slots[AT, s]
        masters[n, COUNT] += 1
        for r in range(size):
            limits[n * size + r, LOAD] += sums[r, s + 1] - sums[r, s]
        if n != slots[OWNER, s]:
            course[COST] += sums[size, s + 1] - sums[size, s]
            tally[MOVED] += 1
        if s > 0:
            mark(slots, blocks, tally, sides, s)
    for i in range(len(limits)):
        if limits[i, LOAD] > limits[i, CAP]:
            tally[BROKEN] += 1


def new_row(
    arrays: Arrays, among: Integers, at: Integers, most: Floats, lengths: Integers, heat: float, price: float, loose: float,
    seed: int,
) -> Row:  # fmt: skip
    """Return the state of a walk over the slots *among*, on the masters *at*, with limits *most* [master, resource]."""
    count, masters, size = len(at), len(arrays.takes), most.shape[1]
    slots = np.zeros((BORDERS + 1, count + 1), np.int64)
    slots[OWNER, :count], slots[AT, :count] = arrays.owner[among], at
    slots[OWNER_END], slots[PLACE] = count, -1
    slots[FIXED, 1:] = np.cumsum(arrays.fixed[among])
    sums = np.zeros((size + 1, count + 1))
    sums[:-1, 1:] = np.cumsum(arrays.raw[among].T, axis=1)
    sums[-1, 1:] = np.cumsum(arrays.cost[among])
    limits = np.zeros((masters * size, WEIGHT + 1))
    limits[:, CAP], limits[:, WEIGHT] = most.ravel(), loose
    limits[:, SCALE] = np.tile(1 / arrays.mean, masters)
    table = np.zeros((masters, 3), np.int64)
    table[:, KEEPS] = np.where(arrays.takes, np.where(arrays.keeps_one, KEEPS_ONE, MAY_END_EMPTY), TAKES_NOTHING)
    table[: len(arrays.takers), TAKERS] = arrays.takers
    tally = np.zeros(DIE + 1, np.int64)
    tally[[TAKER_COUNT, DIE]] = len(arrays.takers), seed & 0xFFFFFFFF or 1
    course = np.zeros(COST_PRICE + 1)
    course[[HEAT, PRICE, LEAST, COST_PRICE]] = heat, price, NONE_FOUND, 1.0
    blocks, sides = np.zeros(count // BLOCK + 2, np.int64), np.zeros((masters, SIDES), np.int64)
    row = Row(slots, sums, limits, table, blocks, tally, course, lengths, sides)
    begin(row)
    return row


@njit()
def propose(
    slots: Integers, blocks: Integers, masters: Integers, tally: Integers, kind: int, length: int
) -> tuple[int, int, int]:
    """Return a window [first, end) of one master's slots and a receiving master."""
    count = slots.shape[1] - 1
    x = step(tally[DIE])
    if kind < RUN_ANYWHERE and tally[BORDER_COUNT] > 0:
        p = slots[BORDERS, (x * tally[BORDER_COUNT]) >> 32]
        tally[DIE] = x
        if kind < SHIFT_RIGHT:
            return p, run_end(slots, blocks, p, min(p + length, count)), slots[AT, p - 1]
        if kind < SHIFT_LEFT:
            return run_start(slots, blocks, p - 1, max(p - length, 0)), p, slots[AT, p]
        end = run_end(slots, blocks, p, count)
        if kind < RUN_LEFT:
            return p, end, slots[AT, p - 1]
        if kind < RUN_RIGHT:
            return p, end, slots[AT, end] if end < count else slots[AT, p - 1]
        x = step(x)
        tally[DIE] = x
        if kind < RUN_HOME:
            return p, end, slots[OWNER, p + ((x * (end - p)) >> 32)]
        return p, end, masters[(x * tally[TAKER_COUNT]) >> 32, TAKERS]
    s = (x * count) >> 32
    end = run_end(slots, blocks, s, min(s + (1 if kind < ONE_SLOT else length), count))
    x = step(x)
    tally[DIE] = x
    if kind & 7 < HOME:
        return s, end, slots[OWNER, s]
    if kind & 7 < BESIDE and (end < count or s > 0):
        return s, end, slots[AT, end] if end < count else slots[AT, s - 1]
    return s, end, masters[(x * tally[TAKER_COUNT]) >> 32, TAKERS]


@njit()
def balance(slots: Integers, sums: Floats, blocks: Integers, sides: Integers, window: Move, x: int) -> Move:
    """Return the move of a second window about as heavy as *window*, or an empty move."""
    first, end, a, b = window
    none = (0, 0, b, a)
    n = b if x & 1 else a
    p = sides[n, (x >> 1) % SIDES]
    if p == 0 or slots[PLACE, p] < 0 or first <= p <= end:
        return none
    before, behind = slots[AT, p - 1], slots[AT, p]
    if before != n and behind != n:
        return none
    r = ((x >> 8) & 255) * (len(sums) - 1) >> 8
    load = sums[r, end] - sums[r, first]
    if (behind == n) == (n == b):
        load += sums[r, p]
        low, high = p + 1, slots.shape[1] - 1
        while low < high:
            middle = (low + high) >> 1
            if sums[r, middle] < load:
                low = middle + 1
            else:
                high = middle
        low -= x >> 31 and low > p + 1
        low = run_end(slots, blocks, p, low)
        low -= low == first
        return (p, low, behind, before) if low > p else none
    load = sums[r, p] - load
    low, high = 0, p - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if sums[r, middle] > load:
            high = middle - 1
        else:
            low = middle
    low += x >> 31 and low < p - 1
    low = run_start(slots, blocks, p - 1, low)
    low += low == end
    return (low, p, before, behind) if low < p else none


@njit()
def is_kept(slots: Integers, masters: Integers, first: int, end: int, b: int) -> bool:
    """Return whether the window [first, end) must not go to master *b*."""
    a = slots[AT, first]
    is_last: bool = masters[a, COUNT] == end - first and masters[a, KEEPS] == KEEPS_ONE
    return is_last or masters[b, KEEPS] == TAKES_NOTHING or slots[FIXED, end] > slots[FIXED, first]


@njit()
def borders_of(slots: Integers, first: int, end: int, b: int) -> int:
    """Return the change of borders if the window [first, end) goes to master *b*."""
    a, d = slots[AT, first], 0
    if first > 0:
        n = slots[AT, first - 1]
        d += (n == a) - (n == b)
    if end < slots.shape[1] - 1:
        n = slots[AT, end]
        d += (n == a) - (n == b)
    return d


@njit()
def change_of(limits: Floats, i: int, load: float) -> float:
    """Return the weighted change of excess, in mean slots, if limit *i* gets *load* more."""
    over = limits[i, LOAD] - limits[i, CAP]
    more: float = (max(over + load, 0.0) - max(over, 0.0)) * limits[i, SCALE] * limits[i, WEIGHT]
    return more


@njit()
def excess_of(sums: Floats, limits: Floats, move: Move, other: Move) -> float:
    """Return the weighted change of load above limits, in mean slots, by both moves."""
    size = len(sums) - 1
    first, end, a, b = move
    first2, end2, a2, b2 = other
    d = 0.0
    for r in range(size):
        load, load2 = sums[r, end] - sums[r, first], sums[r, end2] - sums[r, first2]
        at_a, at_b = -load, load
        if a2 == b:
            at_b -= load2
        else:
            d += change_of(limits, a2 * size + r, -load2)
        if b2 == a:
            at_a += load2
        else:
            d += change_of(limits, b2 * size + r, load2)
        d += change_of(limits, a * size + r, at_a) + change_of(limits, b * size + r, at_b)
    return d


@njit()
def away_of(slots: Integers, sums: Floats, first: int, end: int, a: int, b: int) -> tuple[float, int]:
    """Return the change of moved cost and moved slots if the window goes from master *a* to *b*."""
    cost, count, s = 0.0, 0, first
    last = len(sums) - 1
    while s < end:
        until = min(slots[OWNER_END, s], end)
        owner = slots[OWNER, s]
        sign = (owner == a) - (owner == b)
        cost += sign * (sums[last, until] - sums[last, s])
        count += sign * (until - s)
        s = until
    return cost, count


@njit()
def shift_window(row: Row, first: int, end: int, b: int) -> None:
    """Give the window [first, end) to master *b*."""
    slots, sums, limits, masters, blocks, tally, _, _, sides = row
    size = len(sums) - 1
    a = slots[AT, first]
    for s in range(first, end):
        slots[AT, s] = b
    if first > 0:
        mark(slots, blocks, tally, sides, first)
    if end < slots.shape[1] - 1:
        mark(slots, blocks, tally, sides, end)
    masters[a, COUNT] -= end - first
    masters[b, COUNT] += end - first
    for r in range(size):
        load = sums[r, end] - sums[r, first]
        for n, change in ((a, -load), (b, load)):
            i = n * size + r
            tally[BROKEN] -= limits[i, LOAD] > limits[i, CAP]
            limits[i, LOAD] += change
            tally[BROKEN] += limits[i, LOAD] > limits[i, CAP]


@njit()
def weigh(row: Row, goal: Goal) -> None:
    """Raise the weights of broken limits, and lower the others."""
    limits, course = row.limits, row.course
    for i in range(len(limits)):
        broken = limits[i, LOAD] > limits[i, CAP]
        limits[i, WEIGHT] = max(limits[i, WEIGHT] * (goal.learn if broken else goal.forget), WEIGHT_MIN * goal.loose)
    course[COST_PRICE] = max(
        course[COST_PRICE] * (goal.learn if course[COST] > goal.budget else goal.forget), WEIGHT_MIN
    )


@njit()
def note(row: Row, goal: Goal, best: Integers) -> None:
    """Keep the placement, which is within limits and budget, if it is the best so far."""
    tally, course = row.tally, row.course
    value = goal.ranges * tally[BORDER_COUNT] + goal.slot * tally[MOVED] + goal.cost * course[COST]
    if value < course[LEAST]:
        course[LEAST] = value
        best[:] = row.slots[AT, : len(best)]


@njit()
def walk(row: Row, goal: Goal, chunks: int, best: Integers) -> None:
    """Walk *chunks* further; *best* receives the best placement within limits and budget."""
    slots, sums, limits, masters, blocks, tally, course, lengths, sides = row
    budget = goal.budget
    if tally[BROKEN] == 0 and course[COST] <= budget:
        note(row, goal, best)
    for _ in range(chunks):
        weigh(row, goal)
        price = course[PRICE]
        cost_price = price * course[COST_PRICE]
        heat = course[HEAT]
        for _ in range(CHUNK):
            x = step(tally[DIE])
            kind = x & 255
            x = step(x)
            tally[DIE] = x
            allowed = heat * DICE[x & (DRAWS - 1)]
            first, end, b = propose(slots, blocks, masters, tally, kind, lengths[(x >> 10) & (DRAWS - 1)])
            a = slots[AT, first]
            if a == b or is_kept(slots, masters, first, end, b):
                continue
            move, other = (first, end, a, b), (0, 0, b, a)
            x = step(tally[DIE])
            tally[DIE] = x
            if (x >> 16) & 255 < BALANCED:
                balancing = balance(slots, sums, blocks, sides, move, x)
                if balancing[1] > 0 and not is_kept(slots, masters, balancing[0], balancing[1], balancing[3]):
                    other = balancing
            first2, end2, a2, b2 = other
            borders = borders_of(slots, first, end, b)
            more, moved = away_of(slots, sums, first, end, a, b)
            if end2 > 0:
                borders += borders_of(slots, first2, end2, b2)
                more2, moved2 = away_of(slots, sums, first2, end2, a2, b2)
                more, moved = more + more2, moved + moved2
            d = goal.ranges * borders + price * excess_of(sums, limits, move, other)
            over = course[COST] - budget
            d += cost_price * (max(over + more, 0.0) - max(over, 0.0))
            d += goal.slot * moved + goal.cost * more
            if d < allowed:
                shift_window(row, first, end, b)
                if end2 > 0:
                    shift_window(row, first2, end2, b2)
                course[COST] += more
                tally[MOVED] += moved
                if tally[BROKEN] == 0 and course[COST] <= budget:
                    note(row, goal, best)
        course[HEAT] *= goal.cool
        course[PRICE] *= goal.rise
