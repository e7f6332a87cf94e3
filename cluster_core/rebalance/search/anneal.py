"""The local search for a plan: a seeded walk over placements at rising prices (simulated annealing).

How this works.  A placement costs what it moves (plus a little for every moved slot); load above a
limit costs a price per unit, one price a master and resource.  Prices start at those of the bound, grow while a limit is broken and fall
while it is kept, so that the walk learns which resource of which master is scarce; in the last part they only grow.
A step (`propose_leaving`, `propose_return`) is taken when it costs less than a threshold drawn at the falling temperature.  `repair.mend`
then repairs what is left, the cheapest way first.

Everything is compiled arithmetic, only + - * / and comparisons of float64 and a 32-bit shift register, so that the same seed gives the same
walk on every machine.  The inner functions take arrays rather than records: taking an array out of a record costs as much as a step.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.search.dice import CHUNK, DICE, DRAWS, Floats, Integers, step

NONE_FOUND = 1e300
CLOSING = 0.85
"""From this part of a walk on prices only grow, ..."""
CLOSING_RISE = 1e6
"""... by this factor in all."""

LEAVE = 60
HOME = LEAVE + 20
ELSEWHERE = HOME + 25
STAND_IN = ELSEWHERE + 50
SWAP = STAND_IN + 35
MAKE_ROOM = SWAP + 25
GROW = MAKE_ROOM + 20
"""How often each kind of step is tried, in 256ths, each from where the one before ends: a slot leaves its owner, comes home, goes elsewhere,
another slot of its owner goes in its stead, two that moved change places, a slot at home makes room, a run grows at its end; and in what is
left a slot joins the run beside it."""
LEAVE_BROKEN, LEAVE_SOURCE = 30, 50
"""Of `LEAVE`: from a master over its limits now, from one that was at the start; the rest from any."""
ROOM_AT_SOURCE, ROOM_AT_HOME = SWAP + 10, SWAP + 18
"""Of `MAKE_ROOM`: whoever makes room goes where the other comes from, or to the other's owner; the rest to any."""

KEEPS_ONE, MAY_END_EMPTY, TAKES_NOTHING = 2, 1, 0
"""What `KEEPS` says of a master: it takes slots and stays an owner, it takes slots, it takes none."""

OWNER, AT, MOVABLE, PLACE, BY_OWNER = range(5)
"""Rows of ``Board.slots``, by slot: master at the start and now, whether it may move, its place in ``moved`` or -1; the last one lists all
slots by owner, heavy ones first."""
CAP, LOAD, PRICE, SCALE = range(4)
"""Columns of ``Board.limits`` [master * R + resource]; the scale makes overload of different resources comparable."""
KEEPS, COUNT, FIRST, OWNED, TAKERS, SOURCES, HOT = range(7)
"""Columns of ``Board.masters`` [master]: see `KEEPS_ONE`; slots now; where its slots at the start begin in `BY_OWNER`, and how many they are.
The others are lists: masters that may receive, those that were over a limit at the start, those that are now."""
MOVED, BROKEN = range(2)
"""Entries of ``Board.tally``: how many slots have moved, how many limits are broken; from `TAKERS` on, how long the lists are."""


class Board(NamedTuple):
    """Where a walk stands; it changes these arrays.  *loads* [slot] has the cost behind the resources; *moved* lists the moved slots."""

    slots: Integers
    loads: Floats
    limits: Floats
    masters: Integers
    moved: Integers
    tally: Integers


class Schedule(NamedTuple):
    """How a walk goes: temperatures in units of the cost, and how fast prices rise and fall."""

    chunks: int
    seed: int
    warm: float
    cold: float
    rise: float
    fall: float


@njit()
def pick(x: int, turn: int) -> int:
    """Return *x* below 2**32, three of four turns drawn towards 0 where the heavy slots of a master are."""
    k = turn & 3
    if k == 0:
        return x
    y = (x >> 1) * (x >> 1) >> 30  # squares of 32 bits do not fit 63
    if k == 1:
        return y
    y = (y >> 1) * (y >> 1) >> 30
    if k == 2:
        return y
    return (y >> 1) * (x >> 1) >> 30


@njit()
def measure(slots: Integers, loads: Floats, limits: Floats, s: int, b: int) -> float:
    """Return what it costs to put slot *s* on master *b*."""
    size = loads.shape[1] - 1
    a = slots[AT, s]
    d = 0.0
    if a == slots[OWNER, s]:
        d += loads[s, size]
    elif b == slots[OWNER, s]:
        d -= loads[s, size]
    for r in range(size):
        x = loads[s, r]
        i = a * size + r
        o = limits[i, LOAD] - limits[i, CAP]
        if o > 0:
            d -= limits[i, PRICE] * min(o, x)
        i = b * size + r
        o = limits[i, LOAD] - limits[i, CAP] + x
        if o > 0:
            d += limits[i, PRICE] * min(o, x)
    return d


@njit()
def shift(
    slots: Integers, loads: Floats, limits: Floats, masters: Integers, moved: Integers, tally: Integers, s: int, b: int
) -> None:
    """Put slot *s* on master *b*."""
    size = loads.shape[1] - 1
    a = slots[AT, s]
    over = 0
    for r in range(size):
        x = loads[s, r]
        i = a * size + r
        if limits[i, LOAD] > limits[i, CAP]:
            over -= 1
        limits[i, LOAD] -= x
        if limits[i, LOAD] > limits[i, CAP]:
            over += 1
        i = b * size + r
        if limits[i, LOAD] > limits[i, CAP]:
            over -= 1
        limits[i, LOAD] += x
        if limits[i, LOAD] > limits[i, CAP]:
            over += 1
    tally[BROKEN] += over
    masters[a, COUNT] -= 1
    masters[b, COUNT] += 1
    slots[AT, s] = b
    if a == slots[OWNER, s]:
        slots[PLACE, s] = tally[MOVED]
        moved[tally[MOVED]] = s
        tally[MOVED] += 1
    elif b == slots[OWNER, s]:
        k = slots[PLACE, s]
        last = moved[tally[MOVED] - 1]
        moved[k] = last
        slots[PLACE, last] = k
        slots[PLACE, s] = -1
        tally[MOVED] -= 1


@njit()
def adjust_prices(
    limits: Floats, masters: Integers, tally: Integers, least: Floats, rise: float, fall: float, rise_at_end: float
) -> None:
    """Raise the prices of broken limits and, unless *rise_at_end* is above 1, lower the others; list the masters of `HOT`."""
    size = len(least)
    count = 0
    for n in range(len(limits) // size):
        over = False
        for r in range(size):
            i = n * size + r
            if limits[i, LOAD] > limits[i, CAP]:
                over = True
                limits[i, PRICE] *= rise
                limits[i, PRICE] *= rise_at_end
            elif rise_at_end == 1.0 and limits[i, PRICE] * fall > least[r]:
                limits[i, PRICE] *= fall
        if over:
            masters[count, HOT] = n
            count += 1
    tally[HOT] = count


@njit()
def draw(masters: Integers, tally: Integers, which: int, x: int) -> int:
    """Return a master of the list *which* by the random number *x*."""
    return masters[(x * tally[which]) >> 32, which]  # type: ignore[no-any-return]


@njit()
def slot_at_home(slots: Integers, masters: Integers, n: int, x: int, turn: int) -> int:
    """Return a slot that master *n* owned at the start, -1 when it owned none or this one is elsewhere now."""
    s = slots[BY_OWNER, masters[n, FIRST] + (pick(x, turn) * masters[n, OWNED] >> 32)]
    return s if slots[AT, s] == n else -1


@njit()
def propose_leaving(
    slots: Integers, masters: Integers, tally: Integers, kind: int, x: int, turn: int
) -> tuple[int, int, int]:
    """Return the random number, a slot at home (-1: none) and a master that may take it."""
    x = step(x)
    if tally[HOT] > 0 and kind < LEAVE_BROKEN:
        a = draw(masters, tally, HOT, x)
    elif tally[SOURCES] > 0 and kind < LEAVE_SOURCE:
        a = draw(masters, tally, SOURCES, x)
    else:
        a = (x * len(masters)) >> 32
    if masters[a, OWNED] == 0:
        return x, -1, -1
    x = step(x)
    s = slot_at_home(slots, masters, a, x, turn)
    if s < 0:
        return x, -1, -1
    x = step(x)
    return x, s, draw(masters, tally, TAKERS, x)


@njit()
def propose_return(
    slots: Integers, masters: Integers, moved: Integers, tally: Integers, kind: int, x: int, turn: int
) -> tuple[int, int, int, int, int]:
    """Return the random number, slot *s* that moved and where it goes, slot *s2* (-1: none) and where that goes; *s* -1 for no step."""
    x = step(x)
    s = moved[(x * tally[MOVED]) >> 32]
    x = step(x)
    at = slots[AT, s]
    s2 = b2 = -1
    if kind < HOME:
        b = slots[OWNER, s]
    elif kind < ELSEWHERE:
        b = draw(masters, tally, TAKERS, x)
    elif kind < STAND_IN:
        b = slots[OWNER, s]
        s2 = slot_at_home(slots, masters, b, x, turn)
        b2 = at
        if s2 < 0:
            s = -1
    elif kind < SWAP:
        s2 = moved[(x * tally[MOVED]) >> 32]
        b = slots[AT, s2]
        b2 = at
    elif kind < MAKE_ROOM:
        b = draw(masters, tally, HOT if tally[HOT] > 0 and kind & 1 == 1 else TAKERS, x)
        if masters[b, OWNED] == 0:
            return x, -1, b, s2, b2
        x = step(x)
        s2 = slot_at_home(slots, masters, b, x, turn)
        if s2 < 0:
            s = -1
        elif kind < ROOM_AT_SOURCE:
            b2 = at
        elif kind < ROOM_AT_HOME:
            b2 = slots[OWNER, s]
        else:
            x = step(x)
            b2 = draw(masters, tally, TAKERS, x)
    else:
        beside = s + 1 if x & 1 == 1 else s - 1
        b = at
        if beside < 0 or beside >= slots.shape[1]:
            s = -1
        elif kind < GROW:
            s = beside
        else:
            b = slots[AT, beside]
    return x, s, b, s2, b2


@njit()
def cost_of(cost: Floats, moved: Integers) -> float:
    """Return what a placement costs that keeps all limits."""
    total = 0.0
    for s in moved:
        total += cost[s]
    return total


@njit()
def anneal(board: Board, schedule: Schedule, least: Floats, best: Integers) -> float:
    """Walk, and return the least cost of a placement within all limits (it is then in *best*), or `NONE_FOUND`.

    Prices do not fall below *least* [r]; *board* is left where the walk ended.
    """
    slots, loads, limits, masters, moved, tally = board
    chunks = schedule.chunks
    x = schedule.seed
    least_cost = NONE_FOUND
    decay = (schedule.cold / schedule.warm) ** (1.0 / max(chunks, 1))
    rise_at_end = CLOSING_RISE ** (1.0 / (chunks * (1 - CLOSING) + 1))
    heat = schedule.warm
    for chunk in range(chunks):
        closing = rise_at_end if chunk >= CLOSING * chunks else 1.0
        adjust_prices(limits, masters, tally, least, schedule.rise, schedule.fall, closing)
        for turn in range(CHUNK):
            x = step(x)
            kind = x & 255
            x = step(x)
            limit = heat * DICE[x & (DRAWS - 1)]
            s2 = b2 = -1
            if kind < LEAVE or tally[MOVED] == 0:
                x, s, b = propose_leaving(slots, masters, tally, kind, x, turn)
            else:
                x, s, b, s2, b2 = propose_return(slots, masters, moved, tally, kind, x, turn)
            if s < 0:
                continue
            a = slots[AT, s]
            if a == b or slots[MOVABLE, s] == 0 or masters[b, KEEPS] == TAKES_NOTHING:
                continue
            if masters[a, COUNT] == 1 and masters[a, KEEPS] == KEEPS_ONE:
                continue
            if s2 < 0:
                if measure(slots, loads, limits, s, b) < limit:
                    shift(slots, loads, limits, masters, moved, tally, s, b)
                continue
            a2 = slots[AT, s2]
            if s2 == s or slots[MOVABLE, s2] == 0 or a2 == b2 or masters[b2, KEEPS] == TAKES_NOTHING:
                continue
            d = measure(slots, loads, limits, s, b)
            shift(slots, loads, limits, masters, moved, tally, s, b)
            d += measure(slots, loads, limits, s2, b2)
            if d < limit and not (masters[a2, COUNT] == 1 and masters[a2, KEEPS] == KEEPS_ONE):
                shift(slots, loads, limits, masters, moved, tally, s2, b2)
            else:
                shift(slots, loads, limits, masters, moved, tally, s, a)
        if tally[BROKEN] == 0:
            cost = cost_of(loads[:, -1], moved[: tally[MOVED]])
            if cost < least_cost:
                least_cost = cost
                best[:] = slots[AT]
        heat *= decay
    return least_cost
