"""Windows of light slots, and as few slots picked on their own as limits allow: the beginning of a search for few ranges where limits are tight.

How this works.  A window of many light slots has the mixture of resources that its owner's slots have together.  Heavy slots leave room of
another mixture, so others must be picked one by one as well, and each of these is a range of its own.  The linear program of the whole
placement says which: runs of light slots cost a range where they leave the window that they are in, heavier slots two, what moves has a
*price* besides, and the heaviest are where they move least.  Hardly more columns are divided than there are limits.  Which windows there
are is not known at first, so the program is solved again and again, each time with the windows that it left before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cluster_core.rebalance.search.completion import place_loose
from cluster_core.rebalance.search.layout import Layout, gather, settle

RUN_RANGES, PICK_RANGES = 1.0, 2.0
"""Ranges that a run of light slots costs outside its window, and a slot on its own."""
MARGIN = 1.0
"""Mean slots that are left below every limit, since slots are whole."""
LOOSE_COST = 0.5
"""Mean slots that it costs to place a slot of a divided run outside its window."""
DECIDED, PICKED = 1 / 20, 1 / 512
"""Parts of a limit: slots above the first stay where they are known to move least, slots above the second are placed on their own."""
ROUGH = 4
"""Solutions before the first that is made whole."""
DEARER, CHEAPER, WELL_SPENT = 2.0, 1.4, 0.75
"""By how much the price rises where more moves than may, and falls where less of what may than this part is spent."""
AIM = 0.8
"""Part of what may move beyond the least that placements aim at: mending limits takes the rest."""
PRICE_MAX = 6.0
"""With a higher price than this, finer parts of a limit are taken instead."""


class Picking:
    """Placements of *layout* that move at most about *budget* (mean slots), from *least*, which moves least; `base` are the windows."""

    def __init__(self, layout: Layout, least: Sequence[int], base: Sequence[int], budget: float) -> None:
        self._layout, self._least, self.base = layout, least, base
        self._floor = self._moved(least)
        self._budget = self._floor + AIM * (budget - self._floor)
        self._price, self._detail = 1.0, 1.0
        self._turns = 0

    def _moved(self, placed: Sequence[int]) -> float:
        away = np.array(placed) != np.array(self._layout.home)
        return float(self._layout.costs[away].sum())

    def place(self) -> list[int]:
        """Return the next placement; it misses limits by about the lightest slots."""
        while self._turns < ROUGH:
            self.go_on(self._solve(whole=False))
            self._turns += 1
        return self._solve(whole=True)

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

    def _solve(self, *, whole: bool) -> list[int]:
        layout, base = self._layout, self.base
        singles = [s for s in layout.singles if layout.part[s] > PICKED * self._detail]
        columns, held = gather(layout, base, runs=True, alone=singles)
        held |= {k: self._least[s] for k, s in enumerate(singles) if layout.part[s] > DECIDED}
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
        self._adjust(self._moved(placed))
        return placed

    def _adjust(self, moved: float) -> None:
        if moved > self._budget:
            self._price *= DEARER
            if self._price > PRICE_MAX:
                self._price, self._detail = self._price / DEARER, self._detail / 2
        elif moved < self._floor + WELL_SPENT * (self._budget - self._floor):
            self._price /= CHEAPER
