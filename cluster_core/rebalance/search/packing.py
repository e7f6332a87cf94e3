"""Where the heaviest slots go together, roughly: a seeded walk over their placements, the light slots being sand of one mixture.

How this works.  A master has room for as much sand as its scarcest resource allows beside the heavy slots that it holds.  All sand must find
room; sand that has none at home moves, as do heavy slots that are not at home.  A step gives a heavy slot to another master, or two of
them change places; it is taken when it costs less than a threshold drawn at the falling temperature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.search.dice import CHUNK, DICE, DRAWS, Floats, Integers, step

CHUNKS = 2_000
WARM, COLD = 1.0, 0.01
"""Costs of a step that are taken at the start and at the end, in what the mean heavy slot costs."""
PRICE, RISE = 1.0, 1000.0
"""What sand that finds no room costs at first, in what it costs to move, and how often that at the end."""
NOTHING = 1e-12


class Sand(NamedTuple):
    """The light slots: their *loads* by resource, the part of them that is at *home* by master, and what it *costs* to move them all."""

    loads: Floats
    home: Floats
    cost: float


@njit()
def sand_room(held: Floats, room: Floats, sand: Floats, n: int) -> float:
    """Return how much sand, as a part of all, master *n* has room for; below 0 where its heavy slots alone are too much."""
    least = 1e300
    for r in range(len(sand)):
        least = min(least, (room[n, r] - held[n, r]) / max(sand[r], NOTHING))
    return least


@njit()
def pack_heavy(at: Integers, fees: Floats, loads: Floats, room: Floats, sand: Sand, die: int) -> None:
    """Improve the masters *at* of heavy slots, in place: *fees* and *loads* are [slot, master] and [slot, resource], *room* [master, resource]."""
    count, masters = fees.shape
    held = np.zeros(room.shape)
    for h in range(count):
        for r in range(loads.shape[1]):
            held[at[h], r] += loads[h, r]
    total = 0.0
    for n in range(masters):
        total += max(0.0, sand_room(held, room, sand.loads, n))
    heat, price = WARM * fees.sum() / (count * masters), PRICE * sand.cost
    cool, rise = (COLD / WARM) ** (1.0 / CHUNKS), RISE ** (1.0 / CHUNKS)
    for turn in range(CHUNKS * CHUNK):
        if turn % CHUNK == 0:
            heat *= cool
            price *= rise
        die = step(die)
        h = (die * count) >> 32
        die = step(die)
        a = at[h]
        g = -1
        if die & 1:
            g = ((die >> 1) * count) >> 31
            b = at[g]
        else:
            b = ((die >> 1) * masters) >> 31
        if a == b:
            continue
        die = step(die)
        before_a, before_b = sand_room(held, room, sand.loads, a), sand_room(held, room, sand.loads, b)
        change = fees[h, b] - fees[h, a]
        if g >= 0:
            change += fees[g, a] - fees[g, b]
        for r in range(loads.shape[1]):
            w = loads[h, r] - (loads[g, r] if g >= 0 else 0.0)
            held[a, r] -= w
            held[b, r] += w
        after_a, after_b = sand_room(held, room, sand.loads, a), sand_room(held, room, sand.loads, b)
        more = max(0.0, after_a) + max(0.0, after_b) - max(0.0, before_a) - max(0.0, before_b)
        leaving = max(0.0, sand.home[a] - after_a) + max(0.0, sand.home[b] - after_b)
        leaving -= max(0.0, sand.home[a] - before_a) + max(0.0, sand.home[b] - before_b)
        short = max(0.0, 1.0 - total - more) - max(0.0, 1.0 - total)
        short -= min(0.0, after_a) + min(0.0, after_b) - min(0.0, before_a) - min(0.0, before_b)
        change += sand.cost * leaving + price * short
        if change <= heat * DICE[die & (DRAWS - 1)]:
            at[h] = b
            if g >= 0:
                at[g] = a
            total += more
        else:
            for r in range(loads.shape[1]):
                w = loads[h, r] - (loads[g, r] if g >= 0 else 0.0)
                held[a, r] += w
                held[b, r] -= w
