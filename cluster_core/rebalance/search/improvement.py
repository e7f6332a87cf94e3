"""Which placements are tried for a plan, and which of them is the best.

Where masters have many slots, the linear program (`complete`) all but decides; where they have some or few, walks do: from the slots that
have to leave, and from long runs where masters are empty or drained.
"""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.rebalance.bound.branching import Branching
from cluster_core.rebalance.bound.certificates import Certificate
from cluster_core.rebalance.search.anneal import CHUNK
from cluster_core.rebalance.search.arrays import MANY, SOME, Ground
from cluster_core.rebalance.search.completion import complete, sketch
from cluster_core.rebalance.search.starts import cut_runs, pack, pack_runs, with_hosts
from cluster_core.rebalance.search.walk import MEND, POLISH, Course, walk

SOME_SKEWED = (Course(0.03, 0.002, 100.0, 0.25, 0.02, 1.3),)
SOME_GROWING = (Course(0.003, 0.0003, 10.0, 0.25, 0.02, 1.3, 5.0), Course(0.003, 0.0003, 10.0, 0.25, 0.02, 1.3, 10.0))
"""Courses from what the linear program says, where masters have some slots; heat would shred the runs of a cluster that grows."""
PACKED = (Course(0.03, 0.002, 100.0, 0.25, 0.02, 1.3), Course(0.03, 0.002, 10.0, 0.25, 0.02, 1.3))
"""Courses from the slots that have to leave."""
FEW = (Course(0.1, 0.005, 1e4, 0.25, 0.5, 1.3), Course(0.1, 0.005, 1e2, 0.05, 1.0, 1.3))
FEW_RUNS = (Course(0.003, 0.0003, 1e4, 0.25, 0.2, 1.3),)
"""Courses where masters have few slots, so that prices say little."""
COLD = (Course(0.01, 0.0005, 1e3, 0.5, 0.001, 1.0), Course(0.03, 0.0005, 1e4, 0.5, 0.0003, 1.0))
"""Courses from the best placement so far."""
AGAIN = 5
"""Walks from the best placement so far."""
ROWS_MAX = 330
"""Largest linear program, in limits, that is solved for a start."""
STEPS_MANY, STEPS_SOME, STEPS_GROWING, STEPS_FEW = 5_000_000, 20_000_000, 9_000_000, 28_000_000
POLISH_STEPS = 1_000_000


def improve(
    ground: Ground,
    owner: Sequence[int],
    certificates: Sequence[Certificate],
    evicted: Sequence[int],
    branching: Branching | None = None,
) -> Sequence[int]:
    """Return the best placement found from *owner*."""
    if branching is not None:
        return _fill(ground, owner, certificates, branching)
    return _wander(ground, owner, certificates, evicted)


def _fill(
    ground: Ground, owner: Sequence[int], certificates: Sequence[Certificate], branching: Branching
) -> Sequence[int]:
    """Return the best of what the linear program makes of the decided slots, of none, and of long runs; mended and polished."""
    layout = branching.layout
    decided = branching.decided()
    found = [
        complete(layout, part, layout.home, ground.slot_cost, runs=False)
        for part in ([decided, {}] if decided else [{}])
    ]
    if ground.growing:
        runs = layout.inside(cut_runs(ground, owner))
        found.append(complete(layout, {}, runs, ground.slot_cost, runs=True))
    steps = min(ground.scaled.problem.iterations or POLISH_STEPS, POLISH_STEPS)
    seed = ground.scaled.problem.seed
    tried: list[Sequence[int]] = []
    for placed in found:
        at = layout.outside(placed)
        at = next(iter(walk(ground, at, MEND, certificates, 0, seed)), at)
        tried += [at, *walk(ground, at, POLISH, certificates, steps, seed)]
    return min(tried, key=ground.judge)


def _wander(
    ground: Ground, owner: Sequence[int], certificates: Sequence[Certificate], evicted: Sequence[int]
) -> Sequence[int]:
    """Return the best placement that walks come to."""
    some = ground.per_master > SOME
    starts = [
        (pack(ground, owner, with_hosts(ground, owner, evicted)), PACKED[: 1 if ground.growing else 2] if some else FEW)
    ]
    if some and len(ground.takers) * ground.size <= ROWS_MAX:
        starts.append((sketch(ground, owner), SOME_GROWING if ground.growing else SOME_SKEWED))
    elif ground.growing:
        starts.append((pack_runs(ground, owner), SOME_GROWING if some else FEW_RUNS))
    best = min((start for start, _ in starts), key=ground.judge)
    rank = ground.judge(best)
    walks = [(start, course) for start, chosen in starts for course in chosen]
    again = AGAIN if some and not ground.growing else 0
    share = _steps(ground) // (len(walks) + again)
    seed = ground.scaled.problem.seed
    for number in range(len(walks) + again):
        start, course = walks[number] if number < len(walks) else (best, COLD[number % len(COLD)])
        for at in walk(ground, start, course, certificates, share, seed + number):
            judged = ground.judge(at)
            if judged < rank:
                best, rank = at, judged
    return best


def usual_steps(per_master: float, *, growing: bool) -> int:
    """Return how many steps a search has by default."""
    if per_master > MANY:
        return STEPS_MANY
    if per_master > SOME:
        return STEPS_GROWING if growing else STEPS_SOME
    return STEPS_FEW


def _steps(ground: Ground) -> int:
    steps = ground.scaled.problem.iterations or usual_steps(min(ground.per_master, MANY), growing=ground.growing)
    return min(steps, 200 * CHUNK) if all(len(set(row)) <= 1 for row in ground.shares) else steps


def join(
    ground: Ground, owner: Sequence[int], certificates: Sequence[Certificate], evicted: Sequence[int]
) -> Sequence[int]:
    """Return a placement of fewer ranges, which cost what the problem says, within all limits if possible."""
    return _wander(ground, owner, certificates, evicted)
