"""Windows of light slots, and as few slots picked on their own as limits allow: the beginning of a search for few ranges where limits are tight.

How this works.  A window of many light slots has the mixture of resources that its owner's slots have together.  Heavy slots leave room of
another mixture, so others must be picked one by one as well, and each of these is a range of its own.  The linear program of the whole
placement says which: runs of light slots cost a range where they leave the window that they are in, heavier slots two, what moves has a
*price* besides, and the heaviest are where they move least.  Hardly more columns are divided than there are limits.  Which windows there
are is not known at first, so the program is solved again and again, each time with the windows that it left before, and with ever lighter
slots held where most of them was: windows and heavy slots have to suit each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cluster_core.rebalance.search.completion import place_loose
from cluster_core.rebalance.search.layout import Layout, gather, settle

RUN_RANGES, PICK_RANGES = 1.0, 2.0
"""Ranges that a run of light slots costs outside its window, and a slot on its own."""
MARGIN = 2.0
"""Mean slots that are left below every limit, since slots are whole."""
LOOSE_COST = 0.5
"""Mean slots that it costs to place a slot of a divided run outside its window."""
DECIDED, PICKED = (0.45, 0.6, 0.3), 1 / 512
"""Parts of a limit: slots above the first (of each placement in turn) stay where they are known to move least, slots above the second are
placed on their own."""
TIGHTER, TIGHTER_ANEW, FAR = 8, 12, 5.0
"""How much lighter slots stay, too, after a placement that moved more than may: with the windows that it left where it moved more than so
many times what may move besides the least, else from the first windows on."""
ROUGH = 3
"""Solutions before any slot is held besides."""
LIGHTER = 1.5
"""How much lighter the slots are that are held after each further solution."""
DEARER, CHEAPER, WELL_SPENT = 1.5, 1.25, 0.75
"""By how much the price rises where more moves than may, and falls where less of what may than this part is spent."""
AIM = 0.8
"""Part of what may move beyond the least that placements aim at: mending limits takes the rest."""
PRICE_MAX = 6.0
"""No price is higher; a whole placement that would need one is followed by finer parts of a limit."""


class Picking:
    """Placements of *layout* that move at most about *budget* (mean slots), more than *least*, which moves least; `base` are the windows."""

    def __init__(self, layout: Layout, least: Sequence[int], base: Sequence[int], budget: float) -> None:
        self._layout, self._least, self.base = layout, least, base
        self._floor = self._moved(least)
        self._most = budget
        self._budget = self._floor + AIM * (budget - self._floor)
        self._price, self._detail = 1.0, 1.0
        self._turns, self._tight, self._first, self._anew = 0, 1, base, True

    def _moved(self, placed: Sequence[int]) -> float:
        away = np.array(placed) != np.array(self._layout.home)
        return float(self._layout.costs[away].sum())

    def place(self) -> list[int]:
        """Return the next placement, which misses limits by about the lightest slots; `spent` is its part of what may move besides the least."""
        line, part = DECIDED[self._turns % len(DECIDED)] / self._tight, self._layout.part
        held = {s: self._least[s] for s in self._layout.singles if part[s] > line}
        if self._anew:
            self.base = self._first
        for _ in range(ROUGH if self._anew else 1):
            placed = self._solve(held)
            self.go_on(placed)
        self._turns += 1
        while line > PICKED * LIGHTER and not self._layout.arrays.account.is_over():
            line /= LIGHTER
            held |= {s: placed[s] for s in self._layout.singles if part[s] > line and s not in held}
            placed = self._solve(held)
            self.go_on(placed)
        placed = self._solve(held, whole=True)
        self.spent = (self._moved(placed) - self._floor) / (self._most - self._floor)
        self._anew = 1 < self.spent < FAR
        self._tight *= 1 if self.spent <= 1 else TIGHTER_ANEW if self._anew else TIGHTER
        return placed

    def go_on(self, placed: Sequence[int]) -> None:
        """Take the windows of *placed* for the next placement."""
        layout = self._layout
        at, light = np.array(placed), layout.part <= PICKED * self._detail
        self.base = placed
        if light.any():
            behind = np.searchsorted(np.flatnonzero(light), np.arange(len(at)))
            window = at[light]
            before = window[np.maximum(behind - 1, 0)]
            inside = light | (at == before) | (at == window[np.minimum(behind, len(window) - 1)])
            self.base = np.where(inside, at, before).tolist()

    def _solve(self, decided: Mapping[int, int], *, whole: bool = False) -> list[int]:
        layout, base = self._layout, self.base
        singles = [s for s in layout.singles if layout.part[s] > PICKED * self._detail]
        columns, held = gather(layout, base, runs=True, alone=singles)
        held |= {k: decided[s] for k, s in enumerate(singles) if s in decided}
        ranges = np.where(np.arange(len(columns)) < len(singles), PICK_RANGES, RUN_RANGES)
        start = [held.get(k, max(base[column[0]], 0)) for k, column in enumerate(columns)]
        program = layout.program(columns, start, base, ranges / self._price, margin=MARGIN)
        work_max = layout.work_max()
        spread = program.solve(held, work_max)
        if whole:
            spread = settle(program, spread, held, len(singles), work_max)
        placed = layout.placed(columns, spread.at.tolist())
        if whole:
            placed = place_loose(layout, placed, [s for k in spread.divided for s in columns[k]], base, LOOSE_COST)
        self._adjust(self._moved(placed), whole=whole)
        return placed

    def _adjust(self, moved: float, *, whole: bool) -> None:
        if moved > self._budget:
            self._price *= DEARER
            if self._price > PRICE_MAX:
                self._price /= DEARER
                self._detail /= 2 if whole else 1
        elif moved < self._floor + WELL_SPENT * (self._budget - self._floor):
            self._price /= CHEAPER
