"""What a master must give away at least: a covering problem, and how a lower bound of it is proven.

A master that is over its limits must choose slots with ``sum(load[r]) >= need[r]`` in every resource r, at the least cost.  *Any* prices
p >= 0 prove that a choice costs at least ``sum(p need) - sum(max(0, p load - cost))``.  Whole slots cost more than that shows; then it is
proven case by case: slot s is chosen, or it is left out, each case with prices of its own (`least`).  Whole numbers only, no solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cluster_core.kernels.whole_costs import WholeColumns, add_up

PRICE_BITS = 60
"""Prices are whole multiples of 2**-60."""
CASES_MAX = 4000
"""Entries of the tree of one proof."""


class Cover(NamedTuple):
    """Choose among *slots* at *costs* (whole units) so that *loads* [r][j] of the chosen add up to *need* [r]; *paid* is to be paid anyway."""

    slots: Sequence[int]
    costs: Sequence[int]
    loads: Sequence[Sequence[int]]
    need: Sequence[int]
    paid: int = 0


def least(cover: Cover, lists: Sequence[Sequence[int]], tree: Sequence[int]) -> int | None:
    """Return what every choice costs at least by *lists* of prices (2**-60 units), in those units; None where *tree* is none.

    *tree* in preorder: a slot >= 0 is followed by the case that it is chosen and the case that it is not; -1 - k closes a case by list k.
    """
    if any(len(prices) != len(cover.need) or min(prices, default=0) < 0 for prices in lists):
        return None
    place = {s: j for j, s in enumerate(cover.slots)}
    columns = WholeColumns(cover.costs, cover.loads)
    rows = [columns.reduced(prices, PRICE_BITS) for prices in lists]
    sums = [
        sum(p * v for p, v in zip(prices, cover.need, strict=True)) - (add_up(-row[row < 0]) << (PRICE_BITS - bits))
        for prices, (row, bits) in zip(lists, rows, strict=True)
    ]
    cases: list[list[tuple[int, bool]]] = [[]]
    found: list[int] = []
    for entry in tree:
        if not cases or len(tree) > CASES_MAX:
            return None
        case = cases.pop()
        if entry >= 0:
            j = place.get(entry, -1)
            if j < 0 or any(k == j for k, _ in case):
                return None
            cases += [[*case, (j, False)], [*case, (j, True)]]
        elif -1 - entry >= len(lists):
            return None
        else:
            row, bits = rows[-1 - entry]
            more = sum(max(0, int(row[j]) if chosen else -int(row[j])) for j, chosen in case)
            found.append(sums[-1 - entry] + (more << (PRICE_BITS - bits)))
    return None if cases or not found else min(found) + (cover.paid << PRICE_BITS)
