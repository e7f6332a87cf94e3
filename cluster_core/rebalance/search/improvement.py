"""Which placements are tried for a plan, and which of them is the best.

Where masters have many slots, the linear program (`complete`) all but decides; where they have some or few, walks do: from the slots that
have to leave, and from long runs where masters are empty or drained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster_core.rebalance.bound.certificates import Certificate
from cluster_core.rebalance.search.arrays import MANY, SLOT_COST, SOME, ProblemArrays
from cluster_core.rebalance.search.branching import Branching
from cluster_core.rebalance.search.completion import complete, sketch
from cluster_core.rebalance.search.dice import CHUNK
from cluster_core.rebalance.search.first_placements import cut_runs, pack, pack_runs, with_hosts
from cluster_core.rebalance.search.holdings import Holdings
from cluster_core.rebalance.search.layout import Layout
from cluster_core.rebalance.search.local_search import POLISH, REPAIR, Cooling, search_from

SOME_SKEWED = (Cooling(0.03, 0.002, 100.0, 0.25, 0.02, 1.3),)
SOME_GROWING = (Cooling(0.003, 0.0003, 10.0, 0.25, 0.02, 1.3), Cooling(0.003, 0.0003, 10.0, 0.25, 0.02, 1.3))
"""Coolings from what the linear program says, where masters have some slots; heat would shred the runs of a cluster that grows."""
PACKED = (Cooling(0.03, 0.002, 100.0, 0.25, 0.02, 1.3), Cooling(0.03, 0.002, 10.0, 0.25, 0.02, 1.3))
"""Coolings from the slots that have to leave."""
FEW = (Cooling(0.1, 0.005, 1e4, 0.25, 0.5, 1.3), Cooling(0.1, 0.005, 1e2, 0.05, 1.0, 1.3))
FEW_RUNS = (Cooling(0.003, 0.0003, 1e4, 0.25, 0.2, 1.3),)
"""Coolings where masters have few slots, so that prices say little."""
COLD = (Cooling(0.01, 0.0005, 1e3, 0.5, 0.001, 1.0), Cooling(0.03, 0.0005, 1e4, 0.5, 0.0003, 1.0))
"""Coolings from the best placement so far."""
AGAIN = 5
"""Walks from the best placement so far."""
ROWS_MAX = 330
"""Largest linear program, in limits, that is solved for a start."""
STEPS_MANY, STEPS_SOME, STEPS_GROWING, STEPS_FEW = 5_000_000, 20_000_000, 9_000_000, 28_000_000
POLISH_STEPS = 1_000_000
NEAR, BUDGET_PART = 1.002, 0.2
"""So many times the bound, or that part of the budget of bytes above it, is near enough where masters have many slots."""


def improve(
    arrays: ProblemArrays,
    owner: Sequence[int],
    certificates: Sequence[Certificate],
    leaving: Mapping[int, int],
    heavy: Branching | Holdings | None = None,
    start: Sequence[int] | None = None,
) -> Sequence[int]:
    """Return the best placement found from *owner*, or quicker from *start*, that of a problem much like it."""
    if heavy is not None:
        return _fill(arrays, owner, certificates, heavy, start)
    return _wander(arrays, owner, certificates, leaving, start)


def _fill(
    arrays: ProblemArrays,
    owner: Sequence[int],
    certificates: Sequence[Certificate],
    heavy: Branching | Holdings,
    start: Sequence[int] | None,
) -> Sequence[int]:
    """Return the best of what the linear program makes of the decided slots and of long runs, mended and polished.

    What it makes of the slots of *start* that are not light is enough where it keeps the limits.
    """
    layout = Layout(arrays)
    decided, parts = heavy.decided(), heavy.parts()
    given = {s: n for s, n in enumerate(layout.inside(start)) if n >= 0} if start else {}
    starts: list[tuple[Mapping[int, int], Sequence[int]]] = [(decided, layout.home)]
    if given:
        starts.append((given, layout.home))
    if arrays.growing:
        starts.append(({}, layout.inside(cut_runs(arrays, owner))))
    steps = min(arrays.scaled.problem.iterations or POLISH_STEPS, POLISH_STEPS)
    seed = arrays.scaled.problem.seed
    content = arrays.enough * max(NEAR, 1 + BUDGET_PART * float(arrays.scaled.problem.bytes_budget))
    best: Sequence[int] = []
    while starts:
        part, base = starts.pop(0)
        known = parts if part is decided else None
        at = layout.outside(complete(layout, part, base, SLOT_COST, runs=base is not layout.home, parts=known))
        at = next(iter(search_from(arrays, at, REPAIR, certificates, 0, seed)), at)
        polished = search_from(arrays, at, POLISH, certificates, steps, seed)
        best = min([*([best] if best else []), at, *polished], key=arrays.judge)
        rank = arrays.judge(best)
        if arrays.account.is_over() or (start and not rank.over):
            break
        if not rank.over and rank.cost <= content:
            break
    return best


def _wander(
    arrays: ProblemArrays,
    owner: Sequence[int],
    certificates: Sequence[Certificate],
    leaving: Mapping[int, int],
    start: Sequence[int] | None,
) -> Sequence[int]:
    """Return the best placement that walks come to; *start*, where it keeps the limits, is only cooled again."""
    some = arrays.per_master > SOME
    seed = arrays.scaled.problem.seed
    packed = start or pack(arrays, owner, with_hosts(arrays, owner, leaving))
    near = [packed, *search_from(arrays, packed, REPAIR, certificates, 0, seed)]
    steps = min(arrays.scaled.problem.iterations or POLISH_STEPS, POLISH_STEPS)
    best = min([*near, *search_from(arrays, near[-1], POLISH, certificates, steps, seed)], key=arrays.judge)
    rank = arrays.judge(best)
    if not (rank.over or arrays.growing) and rank.cost <= arrays.enough:
        return best
    known = bool(start) and not rank.over
    starts = [] if known else [(packed, PACKED[: 1 if arrays.growing else 2] if some else FEW)]
    if some and not known and len(arrays.takers) * arrays.size <= ROWS_MAX:
        starts.append((sketch(arrays, owner), SOME_GROWING if arrays.growing else SOME_SKEWED))
    elif arrays.growing and not known:
        starts.append((pack_runs(arrays, owner), SOME_GROWING if some else FEW_RUNS))
    best = min([best, *(first for first, _ in starts)], key=arrays.judge)
    rank = arrays.judge(best)
    walks = [(first, course) for first, chosen in starts for course in chosen]
    again = len(COLD) if known else AGAIN if some and not arrays.growing else 0
    share = _steps(arrays) // (AGAIN + again if known else len(walks) + again)
    for number in range(len(walks) + again):
        first, course = walks[number] if number < len(walks) else (best, COLD[number % len(COLD)])
        for at in search_from(arrays, first, course, certificates, share, seed + number):
            judged = arrays.judge(at)
            if judged < rank:
                best, rank = at, judged
        if arrays.account.is_over():
            break
    return best


def usual_steps(per_master: float, *, growing: bool) -> int:
    """Return how many steps a search has by default."""
    if per_master > MANY:
        return STEPS_MANY
    if per_master > SOME:
        return STEPS_GROWING if growing else STEPS_SOME
    return STEPS_FEW


def _steps(arrays: ProblemArrays) -> int:
    steps = arrays.scaled.problem.iterations or usual_steps(min(arrays.per_master, MANY), growing=arrays.growing)
    return min(steps, 200 * CHUNK) if all(len(set(row)) <= 1 for row in arrays.shares) else steps
