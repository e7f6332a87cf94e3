"""Find placements with few slot ranges, or few moves, by walks over windows of slots.

Slots without load join their neighbours (`Walks.with_weightless`). A search is a few walks: hot ones from the start, then cooler
ones from the best placement.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cluster_core.rebalance.bounds import count_ranges
from cluster_core.rebalance.search.arrays import Arrays, Floats, Integers
from cluster_core.rebalance.search.windows import AT, CHUNK, DRAWS, LEAST, NONE_FOUND, Goal, new_row, walk

STEPS_A_SLOT = 1_000
"""Maximum steps of a walk per slot with load."""
FORGET = 0.25
"""Fall of a limit's price relative to its rise."""
LENGTH_MIN = 4
FEW_MASTERS = 8
"""Maximum masters for walks that begin hot with cheap limits; with more they end far from meeting limits."""
NEARLY = 1 - 1e-9
"""Share of a budget to use in floats, against rounding."""
WHOLE_DIGITS = 6
"""Decimal places kept when a product of whole limits is rounded."""
RANGE_COST = 0.002
"""Cost in ranges of a mean slot in searches for few ranges, as a tie-break."""


class Walk(NamedTuple):
    """Parameters of a walk.

    *steps*; heat *warm* at the start and *cold* at the end; *price* of a mean slot above a limit and its total rise; *learn*:
    rise for a limit broken throughout; *anew*: begin at the start, not at the best; *loose*: weight of limits at the start.
    *is_scaled*: heat is for six masters and falls with the root of their number, and the price is per master.
    """

    steps: int
    warm: float
    cold: float
    price: float
    rise: float
    learn: float
    anew: bool = False
    is_scaled: bool = True
    loose: float = 1.0


FIRM = Walk(3_000_000, 4.0, 0.1, 1.0, 1.0, 1e5, anew=True)
LOOSE = FIRM._replace(steps=5_000_000, price=0.2, learn=1e8, loose=0.05)
LOOSER = LOOSE._replace(warm=8.0, price=0.1, loose=0.01)
WARM = Walk(2_000_000, 2.0, 0.1, 3.0, 10.0, 1e3)
SETTLE = Walk(1_000_000, 0.1, 0.05, 100.0, 1.0, 1.0)
FEW_RANGES = (FIRM, LOOSE, WARM, SETTLE)
AGAIN = (LOOSER, LOOSER, FIRM, WARM._replace(steps=6_000_000), SETTLE)
FIRM_OF_MANY = FIRM._replace(steps=8_000_000, price=0.2)
LOOSE_OF_MANY = FIRM._replace(steps=12_000_000, price=0.1, loose=0.3)
FEW_RANGES_OF_MANY = (FIRM_OF_MANY, WARM._replace(steps=4_000_000), SETTLE)
AGAIN_OF_MANY = (LOOSE_OF_MANY, WARM._replace(steps=6_000_000), SETTLE)
"""Walks for more than `FEW_MASTERS`; each search has a second one if many ranges remain."""
COOL = Walk(2_000_000, 0.05, 0.004, 20.0, 1.0, 1.0, is_scaled=False)
FROM_OWNERS = (Walk(12_000_000, 3.0, 0.02, 1.5, 20.0, 1e2, anew=True, is_scaled=False), COOL)
FROM_OWNERS_OF_MANY = (FROM_OWNERS[0]._replace(steps=24_000_000), COOL)
FROM_OWNERS_MASTERS_MAX = 9
"""Maximum masters for `FROM_OWNERS`."""
FROM_ROUNDED = (Walk(6_000_000, 0.3, 0.01, 5.0, 20.0, 1e2, anew=True, is_scaled=False), COOL)
FROM_PLACED = (FROM_ROUNDED[0]._replace(warm=0.05, price=20.0, learn=1e4), *FROM_ROUNDED)
"""Walks to few bytes: from the owners, from the rounded relaxation, and from placed heavy slots."""

MEND = Walk(6_000_000, 0.3, 0.01, 20.0, 20.0, 1e4, is_scaled=False)
"""A walk from a placement that nearly meets the limits, with high prices."""


class Weights(NamedTuple):
    """Weights of a range, a moved slot and a mean slot's cost."""

    ranges: float
    slot: float
    cost: float


BYTES_FIRST = Weights(0.02, 0.0, 1.0)


class Walks:
    """Walks within the limits of *arrays*; *effort* is the share of the usual steps."""

    def __init__(self, arrays: Arrays, effort: float = 1.0) -> None:
        self.arrays, self._effort = arrays, effort
        scaled = arrays.scaled
        self.ranges_first = Weights(1.0, float(scaled.problem.slot_cost), RANGE_COST)
        self._slots = self._loaded()
        self._glue = np.setdiff1d(np.arange(len(arrays.owner)), self._slots)
        self._limits = _zoned(arrays)
        longest = max(LENGTH_MIN, len(self._slots) / len(arrays.takers))
        self._lengths = np.array([max(1, int(longest ** ((k + 0.5) / DRAWS))) for k in range(DRAWS)])
        self._turns = 0

    def _loaded(self) -> Integers:
        """Return slots that may begin a range: with load, fixed, or the only ones of a master."""
        arrays = self.arrays
        is_in = (arrays.raw > 0).any(1) | arrays.fixed
        for n in np.flatnonzero(arrays.keeps_one):
            own = np.flatnonzero(arrays.owner == n)
            if not is_in[own].any():
                is_in[own[0]] = True
        return np.flatnonzero(is_in)

    @property
    def thorough(self) -> tuple[tuple[Walk, ...], tuple[Walk, ...]]:
        """Return the walks of a search for few ranges, and those of a second search if many remain."""
        few = len(self.arrays.takers) <= FEW_MASTERS
        return (FEW_RANGES, AGAIN) if few else (FEW_RANGES_OF_MANY, AGAIN_OF_MANY)

    @property
    def from_owners(self) -> tuple[Walk, ...]:
        """Return the walks to few bytes from the owners."""
        return FROM_OWNERS if len(self.arrays.takers) <= FROM_OWNERS_MASTERS_MAX else FROM_OWNERS_OF_MANY

    def find(
        self, start: Integers, budget: float, walks: Sequence[Walk], weights: Weights, fewest: int = 0
    ) -> tuple[Integers | None, Integers]:  # fmt: skip
        """Return the best placement within limits and *budget* (mean slots' cost), or None, and the walks' best end.

        Walks begin at *start*, which may break limits, and stop at *fewest* ranges; the end has the least load above limits.
        """
        best: Integers | None = None
        rank, over = math.inf, math.inf
        last = self.with_weightless(start[self._slots], start)
        if len(self.arrays.takers) < 2:
            return None, last
        for course in walks:
            begin_at = start if course.anew else last if best is None else best
            placed, end = self._go(begin_at[self._slots], budget, course, weights)
            whole = self.with_weightless(end, start)
            if self.arrays.excess(whole) < over:
                last, over = whole, self.arrays.excess(whole)
            if placed is not None:
                whole = self.with_weightless(placed, start)
                value = self._value(whole, weights)
                if value < rank:
                    best, rank = whole, value
            is_least = best is not None and weights.ranges >= 1 and not weights.slot and count_ranges(best) <= fewest
            if is_least:
                break
        return best, last

    def _value(self, at: Integers, weights: Weights) -> float:
        moved = at != self.arrays.owner
        return (
            weights.ranges * count_ranges(at)
            + weights.slot * int(moved.sum())
            + weights.cost * float(self.arrays.cost[moved].sum())
        )

    def _go(
        self, at: Integers, budget: float, course: Walk, weights: Weights
    ) -> tuple[Integers | None, Integers]:  # fmt: skip
        """Walk once over slots with load; return the best placement within limits and budget, and the end."""
        chunks = max(1, int(min(course.steps, STEPS_A_SLOT * len(at)) * self._effort) // CHUNK)
        masters = len(self.arrays.takers)
        warm = max(course.warm * math.sqrt(6 / masters), course.cold) if course.is_scaled else course.warm
        self._turns += 1
        price = course.price * (masters if course.is_scaled else 1)
        seed = self.arrays.scaled.problem.seed + 7919 * self._turns
        row = new_row(self.arrays, self._slots, at, self._limits, self._lengths, warm, price, course.loose, seed)
        cool, rise, learn = (factor ** (1 / chunks) for factor in (course.cold / warm, course.rise, course.learn))
        goal = Goal(budget * NEARLY, *weights, cool, rise, learn, learn**-FORGET, course.loose)
        best = at.copy()
        walk(row, goal, chunks, best)
        return (best if row.course[LEAST] < NONE_FOUND else None), row.slots[AT, :-1].copy()

    def with_weightless(self, placed: Integers, start: Integers) -> Integers:
        """Return a placement of all slots: slots without load join a neighbour's master, with the fewest moves."""
        arrays = self.arrays
        at = start.copy()
        at[self._slots] = placed
        takes = np.append(arrays.takes, False)
        sides = np.concatenate([[-1], placed, [-1]])
        sides[~takes[sides]] = -1
        place = np.searchsorted(self._slots, self._glue)
        before, behind = sides[place], sides[place + 1]
        joined = np.where(before < 0, behind, before)
        at[self._glue[joined >= 0]] = joined[joined >= 0]
        for gap in np.unique(place[(before >= 0) & (behind >= 0) & (before != behind)]).tolist():
            first, last = np.searchsorted(place, [gap, gap + 1]).tolist()
            own = arrays.owner[self._glue[first:last]]
            stay = np.cumsum((own == sides[gap]).astype(int) - (own == sides[gap + 1]))
            most = int(stay.argmax())
            cut = first + most + 1 if stay[most] > 0 else first
            at[self._glue[cut:last]] = sides[gap + 1]
        return at


def _zoned(arrays: Arrays) -> Floats:
    """Return masters' limits, reduced evenly in a zone if their sum exceeds the zone's."""
    limits = arrays.caps.copy()
    for z in range(len(arrays.zone_names)):
        inside = np.flatnonzero((arrays.zones == z) & arrays.takes)
        together = limits[inside].sum(0)
        stays = arrays.held(arrays.owner, arrays.raw * arrays.fixed[:, None])[(arrays.zones == z) & ~arrays.takes].sum(
            0
        )
        room = arrays.zone_caps[z] - stays
        part = np.minimum(1.0, np.divide(room, together, out=np.ones(len(room)), where=together > 0))
        limits[inside] = np.floor(np.round(limits[inside] * part, WHOLE_DIGITS))
    return limits


def cut_runs(arrays: Arrays) -> Integers:
    """Return owners after moving excess load in long runs from the ends of masters' slots to the emptiest masters.

    Heavy slots go to their hosts, which give away all other load of that resource.
    """
    at, limits = arrays.owner.copy(), _zoned(arrays)
    hosts = dict(arrays.targets.hosts)
    filled = {h.slot: arrays.scaled.resources.index(h.resource) for h in arrays.targets.heavy}
    leaving = arrays.must & ~arrays.fixed
    for s, n in hosts.items():
        if not arrays.fixed[s]:
            leaving |= (arrays.owner == n) & (arrays.raw[:, filled[s]] > 0) & ~arrays.fixed
    for s, n in hosts.items():
        leaving[s] = False
        at[s] = n if not arrays.fixed[s] else at[s]
    held = arrays.held(at, arrays.raw * ~leaving[:, None])
    for n in arrays.takers:
        own = np.flatnonzero((at == n) & ~leaving & ~arrays.fixed)
        keeps = 1 if not leaving[arrays.owner == n].all() else 0
        if len(own) <= keeps or not (held[n] > limits[n]).any():
            continue
        sums = np.cumsum(arrays.raw[own[::-1]], axis=0)
        enough = (held[n] - sums <= limits[n]).all(1)
        gone = min(int(enough.argmax()) + 1 if enough.any() else len(own), len(own) - keeps)
        leaving[own[::-1][:gone]] = True
        held[n] -= sums[gone - 1]
    for s in hosts:
        leaving[s] = False
    scale = np.maximum(limits[arrays.takers].max(0), 1e-9)
    target = -1
    for s in np.flatnonzero(leaving).tolist():
        load = arrays.raw[s]
        if target < 0 or (held[target] + load > limits[target]).any():
            before = int(at[s - 1]) if s else -1
            if before >= 0 and arrays.takes[before] and (held[before] + load <= limits[before]).all():
                target = before
            else:
                room = ((limits - held) / scale).min(1)
                target = int(arrays.takers[room[arrays.takers].argmax()])
        at[s] = target
        held[target] += load
    return at
