"""Fewest slot ranges within a budget of cost: walks over windows of slots that have load; slots without load join their neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cluster_core.rebalance.plan import count_ranges
from cluster_core.rebalance.search import anneal
from cluster_core.rebalance.search.anneal import KEEPS_ONE, TAKES_NOTHING
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.dice import CHUNK, DRAWS
from cluster_core.rebalance.search.local_search import GRAIN
from cluster_core.rebalance.search.repair import REPAIRS_MAX, mend, repair_work
from cluster_core.rebalance.search.windows import (
    AT,
    BLOCK,
    BORDER_COUNT,
    BORDERS,
    BROKEN,
    CAP,
    COST,
    COST_PRICE,
    DIE,
    FIXED,
    HEAT,
    KEEPS,
    LEAST,
    NONE_FOUND,
    OWNER_END,
    PLACE,
    PRICE,
    SCALE,
    SIDES,
    TAKER_COUNT,
    TAKERS,
    WEIGHT,
    Goal,
    Row,
    begin,
    walk,
)

STEPS_A_SLOT = 1_000
"""Steps of a walk for every slot with load, at most."""
CHUNK_WORK = 145 * CHUNK
"""Work of a chunk."""
SLICE = 256
"""Chunks between two looks at whether time is up."""
COLD = 0.1
"""Ranges that a step costs at the end of a walk, about."""
LENGTH_MIN = 4


class Walk(NamedTuple):
    """How a walk goes: steps; ranges that a step may cost at first, for six masters (fewer for more); price of a mean slot above a limit, in ranges
    a master; by how much the price rises in all; by how much a limit's own rises that is broken all the while; the part of the price that
    limits (not the budget) begin with; whether it begins with the first placement rather than the best so far."""

    steps: int
    warm: float
    price: float
    rise: float
    learn: float
    loose: float = 1.0
    anew: bool = False


FORGET = 0.25
"""How much slower the price of a limit falls than it rises."""
HOT = Walk(3_000_000, 4.0, 0.2, 1.0, 1e8, anew=True)
LOOSE = HOT._replace(steps=5_000_000, loose=0.05)
"""Limits cheap at first, so that heavy slots change masters while it is hot."""
FIRM = HOT._replace(price=1.0, learn=1e5)
"""Limits dear from the start: fewer ranges go, and limits and a small budget are kept in the end."""
WARM = Walk(2_000_000, 2.0, 3.0, 10.0, 1e3)
SETTLE = Walk(1_000_000, 0.1, 100.0, 1.0, 1.0)
FEW_MASTERS = 32
HOT_MASTERS = 8
"""With more masters than this, walks with cheap limits end far from keeping them."""


def thorough(masters: int) -> tuple[Walk, ...]:
    """Return the walks of a search for so many masters that take slots."""
    if masters <= HOT_MASTERS:
        return HOT, LOOSE, FIRM, WARM, SETTLE
    return FIRM._replace(steps=8_000_000), WARM._replace(steps=4_000_000), SETTLE


REPAIR_PART = 0.05
"""Part of a budget above the start that walks leave for repairs."""
REPAIRS_FEW, REPAIRS_MANY = (50_000, REPAIRS_MAX // 2), (100_000, REPAIRS_MAX)
"""Pairs of slots that one repair looks at, and repairs of one placement, with few masters and with many; ..."""
BORDERS_A_REPAIR = 2
"""... fewer where so many more borders for each would be too many."""


class RangeSearch:
    """Placements of few ranges, from one that keeps the limits of *arrays* as far as any is known to.

    Masters in *closed* keep what they have in *start* and get nothing.  Limits that *start* breaks are broken no further.
    """

    def __init__(self, arrays: ProblemArrays, start: Sequence[int], *, closed: Sequence[int] = ()) -> None:
        self.arrays = arrays
        scaled = arrays.scaled
        self._shut = set(closed)
        self.slots = self._loaded(start)
        loads = np.array([*arrays.shares, arrays.shares[scaled.cost]])
        self._owner = np.array(scaled.owner)
        self._glue = np.setdiff1d(np.arange(len(self._owner)), self.slots)
        self.rows, mean = loads[:, self.slots], loads.sum(1) / max(len(scaled.owner), 1)
        self.mean_cost = float(mean[-1]) or 1.0
        self.scale = np.divide(1.0, mean[:-1], out=np.zeros(len(mean) - 1), where=mean[:-1] > 0)
        self.caps = np.maximum(np.array(arrays.caps), np.array(arrays.loads_of(start)))
        longest = max(LENGTH_MIN, len(self.slots) / len(arrays.takers))
        self.lengths = np.array([max(1, int(longest ** ((k + 0.5) / DRAWS))) for k in range(DRAWS)])
        self.slot_cost = float(scaled.problem.slot_cost)
        self.turns = 0

    def _loaded(self, start: Sequence[int]) -> list[int]:
        """Return the slots that a range may begin at: those with load, that must not move, or that are all a master has."""
        scaled = self.arrays.scaled
        weighs = [any(load) for load in zip(*scaled.loads, strict=True)]
        slots = [s for s in range(len(weighs)) if weighs[s] or s in scaled.fixed or start[s] in self._shut]
        held = {start[s] for s in slots}
        for s, n in enumerate(start):
            if n not in held and self.arrays.keeps[n] == KEEPS_ONE:
                held.add(n)
                slots.append(s)
        return sorted(slots)

    def find(
        self, at: Sequence[int], budget: float, walks: Sequence[Walk], effort: float = 1.0, fewest: int = 0,
        start: Sequence[int] | None = None,
    ) -> list[int]:  # fmt: skip
        """Return the placement of fewest ranges found, or *at*, that costs at most *budget*; with *fewest* there is none better.

        Walks begin at *start* (None: at *at*), which may break limits and the budget.  One that does not begin anew goes on from the best
        so far, or where none is better than *at* from where the last one ended.
        """
        best = self._with_glue([at[s] for s in self.slots], at)
        first = best if start is None else self._with_glue([start[s] for s in self.slots], start)
        if len(self.arrays.takers) < 2 or not self.slots:
            return best
        rank = self._value(best) if self.cost_of(best) <= budget else math.inf
        spare = REPAIR_PART * max(0.0, budget - self.cost_of(best)) if budget < math.inf else 0.0
        begun = last = [first[s] for s in self.slots]
        better = False
        for course in walks:
            begin_at = begun if course.anew else [best[s] for s in self.slots] if better else last
            most = count_ranges(best) if rank < math.inf else len(at)
            found, last = self._go(begin_at, budget - spare, course, effort, most)
            for end in found:
                whole = self._with_glue(end, at)
                value = self._value(whole)
                if value < rank and self.cost_of(whole) <= budget:
                    best, rank, better = whole, value, True
            if self.arrays.account.is_over() or (rank < fewest + 1 and not self.slot_cost):
                break
        return best if rank < math.inf else list(at)

    def cost_of(self, at: Sequence[int]) -> int:
        """Return what moves."""
        scaled = self.arrays.scaled
        load = scaled.loads[scaled.cost]
        return sum(load[s] for s, n in enumerate(at) if n != scaled.owner[s])

    def _value(self, at: Sequence[int]) -> float:
        moved = sum(1 for s, n in enumerate(at) if n != self.arrays.scaled.owner[s])
        return count_ranges(at) + self.slot_cost * moved + 1e-9 * self.cost_of(at) / self.mean_cost / len(at)

    def _go(
        self, at: Sequence[int], budget: float, course: Walk, effort: float, most: int
    ) -> tuple[list[list[int]], list[int]]:
        """Walk once over the slots with load; return what was found (the best within limits and budget, and the end of the walk, repaired, where
        that has fewer ranges, and than *most*) and the end as it is."""
        wanted = self.arrays.scaled.problem.iterations or course.steps
        steps = min(wanted, course.steps, STEPS_A_SLOT * len(at)) * effort
        chunks = max(1, self.arrays.account.affords(int(steps) // CHUNK, CHUNK_WORK))
        masters = len(self.arrays.takers)
        warm = max(course.warm * math.sqrt(6 / masters), COLD)
        self.turns += 1
        row = self._row(at, warm, course)
        cool, rise, learn = (factor ** (1 / chunks) for factor in (COLD / warm, course.rise, course.learn))
        goal = Goal(budget, self.slot_cost, self.mean_cost, cool, rise, learn, learn**-FORGET, course.loose)
        best = np.array(at)
        begin(row)
        for done in range(0, chunks, SLICE):
            walk(row, goal, min(SLICE, chunks - done), best)
            self.arrays.account.spend(min(SLICE, chunks - done) * CHUNK_WORK)
            if self.arrays.account.is_over():
                break
        found = [best.tolist()] if row.course[LEAST] < NONE_FOUND else []
        if row.tally[BROKEN] and (row.tally[BORDER_COUNT] < np.count_nonzero(np.diff(best)) or not found):
            spare = int(most - row.tally[BORDER_COUNT]) // BORDERS_A_REPAIR
            mended = self._mended(row.slots[AT, :-1].tolist(), spare) if spare > 0 else []
            if mended:
                return [*found, *mended], mended[0]
        return found, row.slots[AT, :-1].tolist()

    def _mended(self, at: Sequence[int], repairs_max: int) -> list[list[int]]:
        """Return the placement *at* with its limits kept again, if so many moves and exchanges of single slots do that."""
        looks, repairs = REPAIRS_FEW if len(self.arrays.takers) <= FEW_MASTERS else REPAIRS_MANY
        whole = list(self.arrays.scaled.owner)
        for s, n in zip(self.slots, at, strict=True):
            whole[s] = n
        board = self.arrays.board(whole, [], self.caps)
        board.slots[anneal.MOVABLE, self._glue] = 0
        # slots that go with their neighbours are no master's last one
        board.masters[:, anneal.COUNT] = np.bincount(at, minlength=len(board.masters))
        done = mend(board, GRAIN * self.arrays.mean_cost, looks, min(repairs, repairs_max))
        self.arrays.account.spend(done * repair_work(looks))
        return [] if board.tally[anneal.BROKEN] else [board.slots[anneal.AT, self.slots].tolist()]

    def _row(self, at: Sequence[int], warm: float, course: Walk) -> Row:
        arrays = self.arrays
        count, masters = len(at), len(arrays.held)
        slots = np.zeros((BORDERS + 1, count + 1), np.int64)
        slots[0, :count] = self._owner[self.slots]
        slots[1, :count] = at
        slots[OWNER_END], slots[PLACE] = count, -1
        fixed = [s in arrays.scaled.fixed or n in self._shut for s, n in zip(self.slots, at, strict=True)]
        slots[FIXED, 1:] = np.cumsum(fixed)
        sums = np.zeros((len(self.rows), count + 1))
        sums[:, 1:] = np.cumsum(self.rows, axis=1)
        limits = np.zeros((masters * arrays.size, WEIGHT + 1))
        limits[:, CAP], limits[:, SCALE], limits[:, WEIGHT] = self.caps, np.tile(self.scale, masters), course.loose
        table = np.zeros((masters, 3), np.int64)
        table[:, KEEPS] = [TAKES_NOTHING if n in self._shut else keeps for n, keeps in enumerate(arrays.keeps)]
        takers = [n for n in arrays.takers if n not in self._shut] or arrays.takers
        table[: len(takers), TAKERS] = takers
        tally = np.zeros(DIE + 1, np.int64)
        tally[[BORDER_COUNT, BROKEN, TAKER_COUNT]] = 0, 0, len(takers)
        tally[DIE] = (arrays.scaled.problem.seed + 7919 * self.turns) & 0xFFFFFFFF or 1
        state = np.zeros(COST_PRICE + 1)
        price = course.price * len(arrays.takers)
        state[[HEAT, PRICE, COST, LEAST, COST_PRICE]] = warm, price, 0.0, NONE_FOUND, 1.0
        blocks, sides = np.zeros(count // BLOCK + 2, np.int64), np.zeros((masters, SIDES), np.int64)
        return Row(slots, sums, limits, table, blocks, tally, state, self.lengths, sides)

    def _with_glue(self, found: Sequence[int], start: Sequence[int]) -> list[int]:
        """Return a placement of all slots: those without load belong to the master of the slot before or behind, as fewest move."""
        at = np.array(start)
        at[self.slots] = found
        takes = np.zeros(len(self.arrays.held) + 1, bool)
        takes[sorted(set(self.arrays.takers) - self._shut)] = True
        sides = np.array([-1, *found, -1])
        sides[~takes[sides]] = -1
        place = np.searchsorted(self.slots, self._glue)
        before, behind = sides[place], sides[place + 1]
        joined = np.where(before < 0, behind, before)
        at[self._glue[joined >= 0]] = joined[joined >= 0]
        for gap in np.unique(place[(before >= 0) & (behind >= 0) & (before != behind)]).tolist():
            first, last = np.searchsorted(place, [gap, gap + 1]).tolist()
            own = self._owner[self._glue[first:last]]
            stay = np.cumsum((own == sides[gap]).astype(int) - (own == sides[gap + 1]))
            most = int(stay.argmax())
            cut = first + most + 1 if stay[most] > 0 else first
            at[self._glue[cut:last]] = sides[gap + 1]
        whole: list[int] = at.tolist()
        return whole
