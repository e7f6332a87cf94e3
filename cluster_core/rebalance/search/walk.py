"""Walks over placements: what `search.anneal` and `search.mend` make of a start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from cluster_core.rebalance.bound.certificates import PRICE_BITS, Certificate
from cluster_core.rebalance.search.anneal import CHUNK
from cluster_core.rebalance.search.arrays import Ground

DICE = [round(-math.log((i + 0.5) / 1024), 6) for i in range(1024)]
LOOKS_MAX = 200_000


class Course(NamedTuple):
    """How one walk goes: temperatures in mean slots, how fast prices move, and the least price, in mean prices."""

    warm: float
    cold: float
    rise: float
    fall: float
    least: float
    start: float
    border: float = 1.0
    """How many times the usual a border between two owners weighs."""


MEND = Course(0.001, 0.0001, 1.0, 0.0, 1.0, 1.0)
POLISH = Course(0.001, 0.0001, 1.0, 0.0, 100.0, 1.0)
"""Limits stay kept: they are far too dear to break."""


def walk(
    ground: Ground, start: Sequence[int], course: Course, certificates: Sequence[Certificate], steps: int, seed: int
) -> list[list[int]]:
    """Return the placements that one walk from *start* came to: the best within all limits, and the repaired last one."""
    chunks = steps // CHUNK
    if len(ground.takers) < 2:
        return []
    engine, size, owner = ground.engine, ground.size, ground.scaled.owner
    floats, whole = engine.floats, engine.whole
    at, load = whole(start), floats(ground.loads_of(start))
    count = [0] * len(ground.held)
    for n in start:
        count[n] += 1
    moved = [s for s, n in enumerate(start) if n != owner[s]]
    where = [-1] * len(owner)
    for k, s in enumerate(moved):
        where[s] = k
    over = sum(1 for i, v in enumerate(load) if v > ground.caps[i])
    meta = whole([len(moved), over])
    prices, sources = _prices(ground, course, certificates)
    home, home_start = _homes(ground)
    rise = course.rise ** (5.0 / max(chunks, 1))
    closing = 0.85
    arrays: dict[str, Any] = {"counts": whole(count), "moved": whole(moved + [0] * (len(owner) - len(moved)))}
    held, owners, wheres = arrays["counts"], whole(owner), whole(where)
    keeps, targets, caps, best = whole(ground.keeps), whole(ground.takers), floats(ground.caps), whole(start)
    least = floats([p * course.least for p in ground.scale])
    cost = engine.anneal(
        size, ground.w, caps, load, floats(prices), least, ground.cost, owners, at, held, keeps, ground.movable, targets,
        whole(sources), home_start, home, arrays["moved"], wheres, meta, whole([0] * len(count)), floats(DICE), best,
        ground.border * course.border, course.warm * ground.mean_cost, course.cold * ground.mean_cost, rise, rise**-course.fall,
        1e6 ** (1.0 / (chunks * (1 - closing) + 1)), closing, chunks, seed & 0xFFFFFFFF or 1,
    )  # fmt: skip
    found = [[int(n) for n in best]] if cost < 1e300 else []
    if int(meta[1]):
        engine.mend(
            size, ground.w, caps, floats(ground.scale), load, ground.cost, owners, at, held, keeps, ground.movable, targets,
            0.05 * ground.mean_cost, LOOKS_MAX if len(owner) <= 400 * len(ground.takers) else LOOKS_MAX // 4, arrays["moved"], wheres, meta,
        )  # fmt: skip
        found.append([int(n) for n in at])
    return found


def _prices(ground: Ground, course: Course, certificates: Sequence[Certificate]) -> tuple[list[float], list[int]]:
    """Return the prices to start with and the masters that must give something away."""
    index = {master.id: n for n, master in enumerate(ground.scaled.masters)}
    prices = [p * course.least for _ in ground.held for p in ground.scale]
    sources = []
    for certificate in certificates:
        n = index[certificate.node]
        if certificate.kind == "drained":
            continue
        sources.append(n)
        for r, p in enumerate(certificate.prices):
            prices[n * ground.size + r] = max(prices[n * ground.size + r], p / (1 << PRICE_BITS) * course.start)
    return prices, sources


def _homes(ground: Ground) -> tuple[Any, Any]:
    """Return every owner's slots, heavy ones first, and where each owner's begin."""
    owner, size = ground.scaled.owner, ground.size
    weight = [max(ground.shares[r][s] * ground.scale[r] for r in range(size)) for s in range(len(owner))]
    home = sorted(range(len(owner)), key=lambda s: (owner[s], -weight[s], s))
    start = [0] * (len(ground.held) + 1)
    for n in owner:
        start[n + 1] += 1
    for n in range(len(ground.held)):
        start[n + 1] += start[n]
    return ground.engine.whole(home), ground.engine.whole(start)
