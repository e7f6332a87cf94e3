"""A whole placement from the linear program: decide heavy slots first, then ever lighter ones, until none is divided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.rebalance.bound.program import Layout, Program, gather
from cluster_core.rebalance.search.arrays import Ground
from cluster_core.rebalance.search.starts import cut_runs


def complete(layout: Layout, decided: Mapping[int, int], base: Sequence[int], extra: float, *, runs: bool) -> list[int]:
    """Return masters of all slots of *layout*: the *decided* ones as they are, the others as cheap as they fit around.

    *extra* (mean slots) is paid for a slot that is not on its *base*.  With *runs*, light slots stay with their neighbours.
    Limits may be missed by about the lightest slots.
    """
    columns, held = gather(layout, base, runs=runs)
    for k, s in enumerate(layout.singles):
        held[k] = decided.get(s, -1)
    program = Program(layout, columns, base, extra)
    at = [held[k] if held[k] >= 0 else max(base[column[0]], 0) for k, column in enumerate(columns)]
    basis = program.start(at, held)
    program.solve(basis, warm=False)
    program.settle(basis, len(layout.singles))
    placed = [0] * len(layout.slots)
    for k, column in enumerate(columns):
        for s in column:
            placed[s] = int(basis.at[k])
    loose = [s for k in program.divided(basis) for s in columns[k]]
    return _untie(layout, placed, loose, base, extra)


def _untie(layout: Layout, placed: list[int], loose: Sequence[int], base: Sequence[int], extra: float) -> list[int]:
    """Place the *loose* slots, those of divided bundles, one by one; all others stay."""
    tied, alone = [[] for _ in layout.takers], set(loose)  # type: tuple[list[list[int]], set[int]]
    for s, n in enumerate(placed):
        if s not in alone:
            tied[n].append(s)
    held = [n for n, slots in enumerate(tied) if slots]
    columns = [*([s] for s in loose), *(tied[n] for n in held)]
    program = Program(layout, columns, base, extra)
    basis = program.start([placed[column[0]] for column in columns], [*[-1] * len(loose), *held])
    program.solve(basis, warm=False)
    program.settle(basis, len(loose))
    for k, s in enumerate(loose):
        placed[s] = int(basis.at[k])
    return placed


def sketch(ground: Ground, owner: Sequence[int]) -> list[int]:
    """Return a placement that the program of all slots comes closest to, in long runs where masters are empty or drained.

    Slots that it divides go where their largest part is, so that limits are missed by as much.
    """
    layout = Layout(ground)
    base = layout.inside(cut_runs(ground, owner)) if ground.growing else layout.home
    program = Program(layout, [[s] for s in range(len(layout.slots))], base, ground.slot_cost)
    held = [-1 if free else n for n, free in zip(layout.home, layout.free, strict=True)]
    basis = program.start([max(n, 0) for n in base], held)
    program.solve(basis, warm=False)
    divided = program.divided(basis)
    return layout.outside([divided.get(s, int(n)) for s, n in enumerate(basis.at)])
