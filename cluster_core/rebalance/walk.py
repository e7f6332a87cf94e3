"""Starts for the search and the walks from them: the part of the planner between whole numbers and the engine's arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from cluster_core.rebalance.bound import PRICE_BITS, Certificate
from cluster_core.rebalance.engine import Engine
from cluster_core.rebalance.problem import Number, Scaled, exact
from cluster_core.rebalance.search import CHUNK
from cluster_core.rebalance.targets import Targets

SLOT_COST = Fraction(1, 20)
"""Mean slots that one more moved slot weighs when a cluster of few masters grows or shrinks."""
DICE = [round(-math.log((i + 0.5) / 1024), 6) for i in range(1024)]
LOOKS_MAX = 200_000
LOOKS_AT_MASTERS = 24
"""How many of the emptiest masters are tried for a slot."""


class Course(NamedTuple):
    """How one walk goes: temperatures in mean slots, how fast prices move, and the least price, in mean prices."""

    warm: float
    cold: float
    rise: float
    fall: float
    least: float
    start: float


MANY = (
    Course(0.03, 0.001, 1e4, 0.5, 0.001, 1.0),
    Course(0.3, 0.0003, 1e3, 0.5, 0.001, 1.0),
    Course(0.003, 0.0003, 1e2, 0.25, 0.001, 1.0),
)
"""Courses where masters have hundreds of slots and more."""
SOME = (Course(0.1, 0.005, 1e4, 0.25, 0.2, 1.3), Course(0.1, 0.005, 1e4, 0.05, 0.02, 1.3))
FEW = (Course(0.1, 0.005, 1e4, 0.25, 0.5, 1.3), Course(0.1, 0.005, 1e2, 0.05, 1.0, 1.3))
"""Courses where masters have few slots, so that prices say little."""

RUNS = (Course(0.003, 0.0003, 1e4, 0.25, 0.2, 1.3),)
"""Courses from long runs, which heat would shred."""
COLD = (Course(0.01, 0.0005, 1e3, 0.5, 0.001, 1.0), Course(0.03, 0.0005, 1e4, 0.5, 0.0003, 1.0))
"""Courses from the best placement so far."""
AGAIN = 6
AGAIN_MANY = 24
"""Walks from the best placement so far; more, and shorter, where masters have many slots."""


class Ground:
    """A problem as arrays of an engine; limits in zones that have one are cut down evenly."""

    def __init__(self, scaled: Scaled, targets: Targets, engine: Engine) -> None:
        self.scaled, self.targets, self.engine = scaled, targets, engine
        self.size = len(scaled.resources)
        slots = len(scaled.owner)
        self.shares = [[float(load) for load in row] for row in scaled.loads]
        totals = [sum(row) for row in self.shares]
        self.mean_cost = totals[scaled.cost] / slots or 1.0
        self.scale = [self.mean_cost * slots / total if total else 0.0 for total in totals]
        self.w = engine.floats([self.shares[r][s] for s in range(slots) for r in range(self.size)])
        self.caps = _caps(scaled, targets)
        extra = float(self._slot_cost()) * self.mean_cost
        self.cost = engine.floats([load + extra for load in self.shares[scaled.cost]])
        self.border = float(exact(scaled.problem.range_cost, "range_cost")) * self.mean_cost
        self.movable = engine.whole([int(s not in scaled.fixed) for s in range(slots)])
        held = [0] * len(scaled.masters)
        for n in scaled.owner:
            held[n] += 1
        takes = [not m.drained and not m.excluded for m in scaled.masters]
        self.takers = [n for n, take in enumerate(takes) if take]
        self.keeps = [(2 if held[n] else 1) if take else 0 for n, take in enumerate(takes)]
        self.held = held

    def _slot_cost(self) -> Number:
        """Return what was asked for, or what made plans of few slots at no cost in bytes where it was measured."""
        scaled = self.scaled
        if scaled.problem.slot_cost is not None:
            return exact(scaled.problem.slot_cost, "slot_cost")
        taken = dict.fromkeys(scaled.owner)
        growing = any(n not in taken or m.drained for n, m in enumerate(scaled.masters))
        return SLOT_COST if growing and len(scaled.owner) > 400 * len(scaled.masters) else 0

    def loads_of(self, at: Sequence[int]) -> list[float]:
        """Return the loads ``[n * size + r]`` of a placement."""
        load = [0.0] * (len(self.held) * self.size)
        for r, row in enumerate(self.shares):
            for s, n in enumerate(at):
                load[n * self.size + r] += row[s]
        return load

    def judge(self, at: Sequence[int]) -> tuple[float, float]:
        """Return by how much a placement is over its limits (in mean slots), and what it costs."""
        over = 0.0
        for i, load in enumerate(self.loads_of(at)):
            if load > self.caps[i] and self.keeps[i // self.size]:
                over += (load - self.caps[i]) * self.scale[i % self.size] / self.mean_cost
        owner = self.scaled.owner
        cost = sum(float(self.cost[s]) for s, n in enumerate(at) if n != owner[s])
        return over, cost + self.border * sum(1 for s in range(1, len(at)) if at[s] != at[s - 1])


def _caps(scaled: Scaled, targets: Targets) -> list[float]:
    caps = [[float(c) for c in row] for row in targets.caps]
    if targets.zone_share is not None:
        for r in range(len(scaled.resources)):
            zones: dict[str, float] = {}
            for n, master in enumerate(scaled.masters):
                zones[master.zone] = zones.get(master.zone, 0.0) + caps[n][r]
            room = float(targets.zone_share * sum(scaled.loads[r]))
            for n, master in enumerate(scaled.masters):
                if zones[master.zone] > room:
                    caps[n][r] = math.floor(caps[n][r] * room / zones[master.zone])
    return [cap if cap < 2.0**53 else cap * (1 - 1e-12) for row in caps for cap in row]


def improve(
    ground: Ground,
    owner: Sequence[int],
    certificates: Sequence[Certificate],
    evicted: Sequence[int],
    *,
    always: bool = False,
) -> Sequence[int]:
    """Return the best placement found from *owner*; *always* walks also when the first start is within all limits."""
    slots, masters = len(owner), len(ground.takers)
    per_master = slots / masters
    courses: tuple[Course, ...] = MANY if per_master > 400 else SOME if per_master > 40 else FEW
    steps = ground.scaled.problem.iterations or (
        16_000_000 if per_master > 400 else 20_000_000 if per_master > 40 else 28_000_000
    )
    starts: list[tuple[list[int], tuple[Course, ...]]] = [
        (pack(ground, owner, _with_hosts(ground, owner, evicted)), courses)
    ]
    if any(not ground.held[n] for n in ground.takers) or any(m.drained for m in ground.scaled.masters):
        starts.append((pack_runs(ground, owner), RUNS))
    if all(len(set(ground.shares[r])) <= 1 for r in range(ground.size)):
        steps = min(steps, 200 * CHUNK)
    best = min((start for start, _ in starts), key=ground.judge)
    rank = ground.judge(best)
    walks = [(start, course) for start, chosen in starts for course in chosen]
    again = (
        0
        if courses is FEW or (courses is SOME and len(starts) > 1)
        else AGAIN_MANY
        if per_master > 400 and steps > 1000 * CHUNK
        else AGAIN
    )
    share = steps // (len(walks) + again)
    seed = ground.scaled.problem.seed
    for number in range(len(walks) + again):
        start, course = walks[number] if number < len(walks) else (best, COLD[number % len(COLD)])
        for at in walk(ground, start, course, certificates, share, seed + number):
            judged = ground.judge(at)
            if judged < rank:
                best, rank = at, judged
    return best


def _with_hosts(ground: Ground, owner: Sequence[int], evicted: Sequence[int]) -> dict[int, int]:
    """Return the slots that leave, and for a heavy slot its host; a host sends away whatever weighs in that resource."""
    leaving = dict.fromkeys(evicted, -1)
    hosts = dict(ground.targets.hosts)
    for s, n in hosts.items():
        for h in ground.targets.heavy:
            if h.slot == s:
                row = ground.shares[ground.scaled.resources.index(h.resource)]
                leaving |= {t: -1 for t, m in enumerate(owner) if m == n and t != s and row[t] > 0}
    for s, n in hosts.items():
        leaving.pop(s, None)
        if owner[s] != n:
            leaving[s] = n
    return {s: n for s, n in leaving.items() if s not in ground.scaled.fixed}


def pack(ground: Ground, owner: Sequence[int], leaving: dict[int, int]) -> list[int]:
    """Put the slots that leave, the heaviest first, where most room is."""
    at, size = list(owner), ground.size
    load = ground.loads_of(at)
    for s in leaving:
        for r in range(size):
            load[at[s] * size + r] -= ground.shares[r][s]
    weight = {s: max(ground.shares[r][s] * ground.scale[r] for r in range(size)) for s in leaving}
    empty = [(max(_full(load[n * size + r], ground.caps[n * size + r]) for r in range(size)), n) for n in ground.takers]
    heapify(empty)
    for s in sorted(leaving, key=lambda s: (leaving[s] < 0, -weight[s], s)):
        best = leaving[s]
        near = [] if best >= 0 else [heappop(empty) for _ in range(min(LOOKS_AT_MASTERS, len(empty)))]
        least = math.inf
        for _, n in near:
            if n == owner[s] and len(ground.takers) > 1:
                continue
            full = max(_full(load[n * size + r] + ground.shares[r][s], ground.caps[n * size + r]) for r in range(size))
            if best < 0 or full < least:
                best, least = n, full
        at[s] = best
        for r in range(size):
            load[best * size + r] += ground.shares[r][s]
        for full, n in near:
            if n == best:
                full = max(_full(load[n * size + r], ground.caps[n * size + r]) for r in range(size))
            heappush(empty, (full, n))
    return at


def pack_runs(ground: Ground, owner: Sequence[int]) -> list[int]:
    """Cut what is too much off the end of every master's slots, and fill the emptiest masters run by run."""
    at, size = list(owner), ground.size
    load = ground.loads_of(at)
    caps, cut = ground.caps, []
    held: list[list[int]] = [[] for _ in ground.held]
    for s, n in enumerate(owner):
        held[n].append(s)
    for n, slots in enumerate(held):
        while slots and (not ground.keeps[n] or any(load[n * size + r] > caps[n * size + r] for r in range(size))):
            if len(slots) == 1 and ground.keeps[n]:
                break
            s = slots.pop()
            if s in ground.scaled.fixed:
                continue
            cut.append(s)
            for r in range(size):
                load[n * size + r] -= ground.shares[r][s]
    target = -1
    for s in sorted(cut):
        fits = target >= 0 and target != owner[s] and all(
            load[target * size + r] + ground.shares[r][s] <= caps[target * size + r] for r in range(size)
        )  # fmt: skip
        if not fits:
            free = [n for n in ground.takers if n != owner[s]] or ground.takers
            target = min(
                free, key=lambda n: (max(_full(load[n * size + r], caps[n * size + r]) for r in range(size)), n)
            )
        at[s] = target
        for r in range(size):
            load[target * size + r] += ground.shares[r][s]
    return at


def _full(load: float, cap: float) -> float:
    return load / cap if cap else (math.inf if load else 0.0)


def walk(
    ground: Ground, start: Sequence[int], course: Course, certificates: Sequence[Certificate], steps: int, seed: int
) -> list[list[int]]:
    """Return the placements that one walk from *start* came to: the best within all limits, and the repaired last one."""
    chunks = steps // CHUNK
    if chunks < 1 or len(ground.takers) < 2:
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
    rise = course.rise ** (5.0 / chunks)
    closing = 0.85
    arrays: dict[str, Any] = {"counts": whole(count), "moved": whole(moved + [0] * (len(owner) - len(moved)))}
    held, owners, wheres = arrays["counts"], whole(owner), whole(where)
    keeps, targets, caps, best = whole(ground.keeps), whole(ground.takers), floats(ground.caps), whole(start)
    least = floats([p * course.least for p in ground.scale])
    cost = engine.anneal(
        size, ground.w, caps, load, floats(prices), least, ground.cost, owners, at, held, keeps, ground.movable, targets,
        whole(sources), home_start, home, arrays["moved"], wheres, meta, whole([0] * len(count)), floats(DICE), best,
        ground.border, course.warm * ground.mean_cost, course.cold * ground.mean_cost, rise, rise**-course.fall,
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
