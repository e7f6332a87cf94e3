"""A whole placement from the linear program: decide heavy slots first, then ever lighter ones, until none is divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cluster_core.kernels.placement_program import Floats
from cluster_core.rebalance.search.arrays import SLOT_COST, ProblemArrays
from cluster_core.rebalance.search.first_placements import cut_runs
from cluster_core.rebalance.search.layout import Layout, gather, settle

MARGIN = 0.25
"""Mean slots that are left below every limit where it is known that there is room, since slots are whole."""


def complete(
    layout: Layout, decided: Mapping[int, int], base: Sequence[int], extra: float, *, runs: bool, parts: Floats | None = None
) -> list[int]:  # fmt: skip
    """Return masters of all slots of *layout*: the *decided* ones as they are, the others as cheap as they fit around.

    *extra* (mean slots) is paid for a slot that is not on its *base*.  With *runs*, light slots stay with their neighbours.
    *parts* [slot, master] of a solution with fractions, where one is known, say where to begin.  Limits may be missed by about the lightest slots.
    """
    columns, held = gather(layout, base, runs=runs)
    held |= {k: decided[s] for k, s in enumerate(layout.singles) if s in decided}
    first = [max(base[column[0]], 0) for column in columns]
    if parts is not None:
        first = [int((parts[column] * layout.rows[column].sum(1)[:, None]).sum(0).argmax()) for column in columns]
    start = [held.get(k, n) for k, n in enumerate(first)]
    each = extra * np.array([len(column) for column in columns])
    program = layout.program(columns, start, base, each, margin=0.0 if parts is None else MARGIN)
    work_max = layout.work_max()
    spread = settle(program, program.solve(held, work_max), held, len(layout.singles), work_max)
    placed = layout.placed(columns, spread.at.tolist())
    return place_loose(layout, placed, [s for k in spread.divided for s in columns[k]], base, extra)


def place_loose(
    layout: Layout, placed: list[int], loose: Sequence[int], base: Sequence[int], extra: float
) -> list[int]:
    """Place the *loose* slots, those of divided columns, one by one, at *extra* (mean slots) away from their *base*; all others stay."""
    tied: dict[int, list[int]] = {}
    alone = set(loose)
    for s, n in enumerate(placed):
        if s not in alone:
            tied.setdefault(n, []).append(s)
    columns = [*([s] for s in loose), *tied.values()]
    held = {len(loose) + k: n for k, n in enumerate(tied)}
    program = layout.program(columns, [placed[column[0]] for column in columns], base, extra)
    work_max = layout.work_max()
    spread = settle(program, program.solve(held, work_max), held, len(loose), work_max)
    for s, n in zip(loose, spread.at.tolist(), strict=False):
        placed[s] = n
    return placed


def sketch(arrays: ProblemArrays, owner: Sequence[int]) -> list[int]:
    """Return a placement that the program of all slots comes closest to, in long runs where masters are empty or drained.

    Slots that it divides go where their largest part is, so that limits are missed by as much.
    """
    layout = Layout(arrays)
    base = layout.inside(cut_runs(arrays, owner)) if arrays.growing else layout.home
    columns = [[s] for s in range(len(layout.slots))]
    program = layout.program(columns, [max(n, 0) for n in base], base, SLOT_COST)
    held = {s: n for s, n in enumerate(layout.home) if n >= 0 and not layout.free[s]}
    return layout.outside(program.solve(held, layout.work_max()).at.tolist())
