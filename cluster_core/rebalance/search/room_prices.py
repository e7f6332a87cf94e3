"""Prices at which load needs more than all room, from the linear program that spreads slots over masters by their room.

Who owns a slot does not matter here, so masters with the same room are one bin, and the program has few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.placement_program import PlacementProgram
from cluster_core.rebalance.bound.room import Bin, where_fits
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.search.account import Account
from cluster_core.rebalance.search.layout import bundle

BINS_EXACT = 8
"""With more bins than this, or slots that do not fit everywhere, the others are bundled before the linear program is solved."""
BUNDLES = 512
BULKY_MAX = 512
"""So many slots, the largest, may be on no bin of which they fit no master; of the others prices say it."""
NEGLIGIBLE = 1e-7
"""Prices below this part of the highest are none."""
PRICE_ONE = 1 << 40


def find_prices(
    scaled: Scaled, hosts: Mapping[int, int], bins: Sequence[Bin], work_max: int, account: Account
) -> tuple[int, ...] | None:
    """Return the prices of the linear program that spreads slots over *bins* with the least load above their room; None where all has room."""
    size = len(scaled.resources)
    for b, one in enumerate(bins):
        for r, v in enumerate(one.room):
            if v < 0:
                return tuple(int(i == b * size + r) for i in range(len(bins) * size))
    slots = [s for s in range(len(scaled.owner)) if s not in scaled.fixed and s not in hosts]
    fitting = where_fits(scaled, bins, slots)
    if not all(fitting.values()):
        return (0,) * (len(bins) * size)  # a slot without any place needs no prices
    fitting = _largest(scaled, slots, fitting)
    parts, widest = _divide(scaled, slots, fitting, bins)
    if sum(parts) >= 1 or not slots:
        return None
    totals = [sum(load[s] for s in slots) for load in scaled.loads]
    mean = [total / len(slots) or 1.0 for total in totals]
    rows = np.array([[load[s] for load in scaled.loads] for s in range(len(scaled.owner))], float) / mean
    small = [s for k, s in enumerate(slots) if k not in fitting]
    columns = [[s] for s in small]
    if len(bins) > BINS_EXACT or (fitting and len(small) > BUNDLES):
        columns = bundle(small, rows, BUNDLES)
    whole = len(columns)
    columns += [[slots[k]] for k in fitting]
    at = _spread(columns[:whole], parts) + [widest[k] for k in fitting]
    loads = np.array([rows[column].sum(0) for column in columns])
    room = np.array([one.room for one in bins], float) / mean
    fees: NDArray[np.float64] = np.zeros((len(columns), len(bins)))
    for c, places in enumerate(fitting.values(), whole):
        fees[c] = 1.0 + 2.0 * loads[c].sum()  # dearer than any load above a limit
        fees[c, places] = 0.0
    program = PlacementProgram(loads, room, fees, np.array(at), 1.0, account.spend)
    found = program.solve({}, work_max).prices.tolist()
    top = max(found)
    if top <= 0.0:
        return None
    unit = max(mean)
    return tuple(
        int(p / top * unit / mean[i % size] * PRICE_ONE) if p > NEGLIGIBLE * top else 0 for i, p in enumerate(found)
    )


def _divide(
    scaled: Scaled, slots: Sequence[int], fitting: Mapping[int, Sequence[int]], bins: Sequence[Bin]
) -> tuple[list[Fraction], dict[int, int]]:
    """Return what part of the slots that fit everywhere each bin has room for, and where the others went before: the widest place each fits."""
    left = [list(one.room) for one in bins]
    wholes = [sum(load[s] for s in slots) or 1 for load in scaled.loads]
    bulky = {k: [load[slots[k]] for load in scaled.loads] for k in fitting}
    widest: dict[int, int] = {}
    for k in fitting:
        widest[k] = b = max(
            fitting[k],
            key=lambda b: min((v - own) / whole for v, own, whole in zip(left[b], bulky[k], wholes, strict=True)),
        )
        left[b] = [v - own for v, own in zip(left[b], bulky[k], strict=True)]
    totals = [
        sum(load[s] for s in slots) - sum(loads[r] for loads in bulky.values()) for r, load in enumerate(scaled.loads)
    ]
    if any(v < 0 for row in left for v in row):
        return [Fraction(0)] * len(bins), widest
    parts = [min([v / Fraction(t) for v, t in zip(row, totals, strict=True) if t], default=Fraction(1)) for row in left]
    return parts, widest


def _largest(
    scaled: Scaled, slots: Sequence[int], fitting: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return the largest of the slots that do not fit everywhere, first those of fewest places."""
    wholes = [sum(load) or 1 for load in scaled.loads]
    weight = {k: max(load[slots[k]] / whole for load, whole in zip(scaled.loads, wholes, strict=True)) for k in fitting}
    chosen = sorted(fitting, key=lambda k: (-weight[k], k))[:BULKY_MAX]
    return {k: fitting[k] for k in sorted(chosen, key=lambda k: (len(fitting[k]), -weight[k], k))}


def _spread(columns: Sequence[Sequence[int]], parts: Sequence[Fraction]) -> list[int]:
    """Return a bin for every column, so that each gets its part of the slots."""
    whole, slots = sum(parts) or 1, sum(map(len, columns))
    left = [float(part / whole or 1e-9) * slots for part in parts]
    at = []
    for column in columns:
        b = max(range(len(left)), key=left.__getitem__)
        left[b] -= len(column)
        at.append(b)
    return at
