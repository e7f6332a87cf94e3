"""One walk of the local search from one placement: what `anneal` and `mend` make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cluster_core.rebalance.bound.certificates import Certificate, ProofKind
from cluster_core.rebalance.bound.cover import PRICE_BITS
from cluster_core.rebalance.search.anneal import AT, BROKEN, NONE_FOUND, PRICE, Schedule, anneal
from cluster_core.rebalance.search.arrays import ProblemArrays
from cluster_core.rebalance.search.dice import CHUNK, Floats
from cluster_core.rebalance.search.repair import REPAIRS_MAX, mend, repair_work

LOOKS_MAX = 200_000
"""Pairs of slots that a repair looks at."""
REPAIRS_LEAST = 60
"""Repairs of a placement whatever work is left."""
CHUNK_WORK = 100 * CHUNK
"""Work of a chunk."""
RISES = 5.0
"""How often `Cooling.rise` is multiplied in over a whole walk."""
GRAIN = 0.05
"""What a repair costs at least, in mean slots."""


class Cooling(NamedTuple):
    """How one walk goes: temperatures in mean slots, how fast prices move, the least price in mean prices, and what the proven prices
    are multiplied with at the start."""

    warm: float
    cold: float
    rise: float
    fall: float
    least: float
    start: float


REPAIR = Cooling(0.001, 0.0001, 1.0, 0.0, 1.0, 1.0)
POLISH = Cooling(0.001, 0.0001, 1.0, 0.0, 100.0, 1.0)
"""Limits stay kept: they are far too dear to break."""


def search_from(
    arrays: ProblemArrays, start: Sequence[int], cooling: Cooling, certificates: Sequence[Certificate], steps: int, seed: int
) -> list[list[int]]:  # fmt: skip
    """Return the placements that one walk from *start* came to: the best within all limits, and the repaired last one."""
    chunks = arrays.account.affords(steps // CHUNK, CHUNK_WORK)
    if len(arrays.takers) < 2:
        return []
    prices, sources = _prices(arrays, cooling, certificates)
    board = arrays.board(start, sources)
    board.limits[:, PRICE] = prices
    rise = cooling.rise ** (RISES / max(chunks, 1))
    schedule = Schedule(
        chunks, seed & 0xFFFFFFFF or 1, cooling.warm * arrays.mean_cost, cooling.cold * arrays.mean_cost, rise, rise**-cooling.fall,
    )  # fmt: skip
    best = np.array(start)
    cost = anneal(board, schedule, np.array(arrays.scale) * cooling.least, best)
    arrays.account.spend(chunks * CHUNK_WORK)
    found = [best.tolist()] if cost < NONE_FOUND else []
    if board.tally[BROKEN]:
        most = max(REPAIRS_LEAST, arrays.account.affords(REPAIRS_MAX, repair_work(LOOKS_MAX)))
        repairs = mend(board, GRAIN * arrays.mean_cost, LOOKS_MAX, most)
        arrays.account.spend(repairs * repair_work(LOOKS_MAX))
        found.append(board.slots[AT].tolist())
    return found


def _prices(arrays: ProblemArrays, cooling: Cooling, certificates: Sequence[Certificate]) -> tuple[Floats, list[int]]:
    """Return the prices to start with and the masters that must give something away."""
    index = {master.id: n for n, master in enumerate(arrays.scaled.masters)}
    prices = np.tile(np.array(arrays.scale) * cooling.least, len(arrays.held))
    sources = []
    for certificate in certificates:
        n = index[certificate.node]
        if certificate.kind == ProofKind.DRAINED:
            continue
        sources.append(n)
        for r, p in enumerate(certificate.prices):
            prices[n * arrays.size + r] = max(prices[n * arrays.size + r], p / (1 << PRICE_BITS) * cooling.start)
    return prices, sources
