"""The local search for a plan: a seeded walk over placements at rising prices (simulated annealing), then a repair.

How this works.  A placement costs what it moves (plus a little for every moved slot and every border between two owners); load above a
limit costs a price per unit, one price a master and resource.  Prices start at those of the bound, grow while a limit is broken and fall
while it is kept, so that the walk learns which resource of which master is scarce; in the last part they only grow.
A step (`propose_leaving`, `propose_return`) is taken when it costs less than a threshold drawn at the falling temperature.  `mend` then repairs what is left, the
cheapest way first.

Everything is compiled arithmetic, only + - * / and comparisons of float64 and a 32-bit shift register, so that the same seed gives the same
walk on every machine.  The inner functions take arrays rather than records: taking an array out of a record costs as much as a step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cluster_core.kernels.compiled import njit

Floats = Any
Integers = Any
"""Arrays of float64 and int64."""

CHUNK = 1024
"""Steps between two looks at the prices."""
REPAIRS_MAX = 300
NONE_FOUND = 1e300
CLOSING = 0.85
"""From this part of a walk on prices only grow, ..."""
CLOSING_RISE = 1e6
"""... by this factor in all."""
NEGLIGIBLE = 1e-9
"""A repair of less than this part of the overload is none."""

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
    """How a walk goes: temperatures and the weight of a border in units of the cost, and how fast prices rise and fall."""

    chunks: int
    seed: int
    border: float
    warm: float
    cold: float
    rise: float
    fall: float


DICE = np.array([round(-math.log((i + 0.5) / 1024), 6) for i in range(1024)])
"""-log of 1024 evenly spaced chances."""


@njit()
def step(x: int) -> int:
    """Return the number after *x* of a 32-bit xorshift sequence (Marsaglia 2003)."""
    x ^= (x << 13) & 0xFFFFFFFF
    x ^= x >> 17
    x ^= (x << 5) & 0xFFFFFFFF
    return x


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
def measure(slots: Integers, loads: Floats, limits: Floats, border: float, s: int, b: int) -> float:
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
    if border > 0.0:
        if s > 0:
            p = slots[AT, s - 1]
            if p == a:
                d += border
            elif p == b:
                d -= border
        if s < slots.shape[1] - 1:
            p = slots[AT, s + 1]
            if p == a:
                d += border
            elif p == b:
                d -= border
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
def cost_of(slots: Integers, cost: Floats, moved: Integers, border: float) -> float:
    """Return what a placement costs that keeps all limits."""
    total = 0.0
    for s in moved:
        total += cost[s]
    if border > 0.0:
        for s in range(1, slots.shape[1]):
            if slots[AT, s] != slots[AT, s - 1]:
                total += border
    return total


@njit()
def anneal(board: Board, schedule: Schedule, least: Floats, best: Integers) -> float:
    """Walk, and return the least cost of a placement within all limits (it is then in *best*), or `NONE_FOUND`.

    Prices do not fall below *least* [r]; *board* is left where the walk ended.
    """
    slots, loads, limits, masters, moved, tally = board
    border = schedule.border
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
            limit = heat * DICE[x & 1023]
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
                if measure(slots, loads, limits, border, s, b) < limit:
                    shift(slots, loads, limits, masters, moved, tally, s, b)
                continue
            a2 = slots[AT, s2]
            if s2 == s or slots[MOVABLE, s2] == 0 or a2 == b2 or masters[b2, KEEPS] == TAKES_NOTHING:
                continue
            d = measure(slots, loads, limits, border, s, b)
            shift(slots, loads, limits, masters, moved, tally, s, b)
            d += measure(slots, loads, limits, border, s2, b2)
            if d < limit and not (masters[a2, COUNT] == 1 and masters[a2, KEEPS] == KEEPS_ONE):
                shift(slots, loads, limits, masters, moved, tally, s2, b2)
            else:
                shift(slots, loads, limits, masters, moved, tally, s, a)
        if tally[BROKEN] == 0:
            cost = cost_of(slots, loads[:, -1], moved[: tally[MOVED]], border)
            if cost < least_cost:
                least_cost = cost
                best[:] = slots[AT]
        heat *= decay
    return least_cost


@njit()
def worst_master(limits: Floats, size: int) -> tuple[int, float]:
    """Return the master that is most above its limits, and by how much; -1 when none is."""
    worst = -1
    most = 0.0
    for n in range(len(limits) // size):
        v = 0.0
        for r in range(size):
            o = limits[n * size + r, LOAD] - limits[n * size + r, CAP]
            if o > 0:
                v += o * limits[n * size + r, SCALE]
        if v > most:
            most = v
            worst = n
    return worst, most


@njit()
def relief_of_leaving(loads: Floats, limits: Floats, s: int, a: int, b: int) -> float:
    """Return by how much less load is above limits when slot *s* goes from master *a* to *b*."""
    size = loads.shape[1] - 1
    v = 0.0
    for r in range(size):
        x = loads[s, r]
        i = a * size + r
        o = limits[i, LOAD] - limits[i, CAP]
        if o > 0:
            v += min(o, x) * limits[i, SCALE]
        i = b * size + r
        o = limits[i, LOAD] + x - limits[i, CAP]
        if o > 0:
            v -= min(o, x) * limits[i, SCALE]
    return v


@njit()
def relief_of_exchange(loads: Floats, limits: Floats, s: int, a: int, t: int, b: int) -> float:
    """Return by how much less load is above limits when slot *s* of master *a* and slot *t* of *b* change places."""
    size = loads.shape[1] - 1
    v = 0.0
    for r in range(size):
        x = loads[s, r] - loads[t, r]
        i = a * size + r
        o = limits[i, LOAD] - limits[i, CAP]
        v -= (max(o - x, 0.0) - max(o, 0.0)) * limits[i, SCALE]
        i = b * size + r
        o = limits[i, LOAD] - limits[i, CAP]
        v -= (max(o + x, 0.0) - max(o, 0.0)) * limits[i, SCALE]
    return v


@njit()
def find_repair(board: Board, a: int, most: float, grain: float, looks_max: int) -> tuple[int, int, int]:
    """Return the slot of master *a*, where it goes, and the slot that comes for it (-1: none); slot -1 when nothing helps."""
    slots, loads, limits, masters = board.slots, board.loads, board.limits, board.masters
    size = loads.shape[1] - 1
    stride = masters[a, COUNT] * slots.shape[1] // looks_max + 1
    top = NONE_FOUND
    best_s = best_b = best_t = -1
    phase = 0
    for s in range(slots.shape[1]):
        if slots[AT, s] != a or slots[MOVABLE, s] == 0:
            continue
        cost, home = loads[s, size], slots[OWNER, s]
        away = cost if home == a else 0.0
        if masters[a, COUNT] > 1 or masters[a, KEEPS] != KEEPS_ONE:
            for b in masters[: board.tally[TAKERS], TAKERS]:
                if b == a:
                    continue
                v = relief_of_leaving(loads, limits, s, a, b)
                if v > NEGLIGIBLE * most:
                    c = max((away - cost if home == b else away) + grain, 0.0) / min(1.0, v / most)
                    if c < top:
                        top = c
                        best_s, best_b, best_t = s, b, -1
        phase += 1
        for t in range(phase % stride, slots.shape[1], stride):
            b = slots[AT, t]
            if (
                b == a
                or slots[MOVABLE, t] == 0
                or masters[b, KEEPS] == TAKES_NOTHING
                or masters[a, KEEPS] == TAKES_NOTHING
            ):
                continue
            d = away - cost if home == b else away
            if slots[OWNER, t] == b:
                d += loads[t, size]
            elif slots[OWNER, t] == a:
                d -= loads[t, size]
            if d >= top:
                continue
            v = relief_of_exchange(loads, limits, s, a, t, b)
            if v > NEGLIGIBLE * most:
                c = max(d + grain, 0.0) / min(1.0, v / most)
                if c < top:
                    top = c
                    best_s, best_b, best_t = s, b, t
    return best_s, best_b, best_t


@njit()
def mend(board: Board, grain: float, looks_max: int) -> int:
    """Repair broken limits, the worst master first, by the relocation or swap that costs least for what it mends.

    *grain* is a small cost that keeps free repairs apart from none.  Looks at about *looks_max* pairs a repair (every k-th, when there are
    more).  Returns how many repairs were made.
    """
    slots, loads, limits, masters, moved, tally = board
    for done in range(REPAIRS_MAX):
        a, most = worst_master(limits, loads.shape[1] - 1)
        if a < 0:
            return done
        s, b, t = find_repair(board, a, most, grain, looks_max)
        if s < 0:
            return done
        shift(slots, loads, limits, masters, moved, tally, s, b)
        if t >= 0:
            shift(slots, loads, limits, masters, moved, tally, t, a)
    return REPAIRS_MAX
