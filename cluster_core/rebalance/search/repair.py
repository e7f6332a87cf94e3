"""The repair of a placement that is a little over its limits: the worst master first, by the move or exchange that costs least."""

from __future__ import annotations

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.search.anneal import (
    AT,
    CAP,
    COUNT,
    KEEPS,
    KEEPS_ONE,
    LOAD,
    MOVABLE,
    NONE_FOUND,
    OWNER,
    SCALE,
    TAKERS,
    TAKES_NOTHING,
    Board,
    shift,
)
from cluster_core.rebalance.search.dice import Floats

REPAIRS_MAX = 300
LOOK_WORK = 8
"""Work of a look at a pair of slots."""
NEGLIGIBLE = 1e-9
"""A repair of less than this part of the overload is none."""


def repair_work(looks_max: int) -> int:
    """Return the work of a repair that looks at so many pairs."""
    return LOOK_WORK * looks_max


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
def mend(board: Board, grain: float, looks_max: int, repairs_max: int = REPAIRS_MAX) -> int:
    """Repair broken limits, the worst master first, by the relocation or swap that costs least for what it mends.

    *grain* is a small cost that keeps free repairs apart from none.  Looks at about *looks_max* pairs a repair (every k-th, when there are
    more).  Returns how many repairs were made.
    """
    slots, loads, limits, masters, moved, tally = board
    for done in range(repairs_max):
        a, most = worst_master(limits, loads.shape[1] - 1)
        if a < 0:
            return done
        s, b, t = find_repair(board, a, most, grain, looks_max)
        if s < 0:
            return done
        shift(slots, loads, limits, masters, moved, tally, s, b)
        if t >= 0:
            shift(slots, loads, limits, masters, moved, tally, t, a)
    return repairs_max
