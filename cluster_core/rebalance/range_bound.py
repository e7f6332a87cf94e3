"""Lower bound on slot ranges: masters with slots, and borders between fixed slots."""

from __future__ import annotations

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, fillers
from cluster_core.rebalance.plan import count_ranges


def least_ranges(scaled: Scaled, targets: Targets) -> int:
    """Return a lower bound on the slot ranges of every placement within *targets*.

    Neighbouring fixed slots of different masters have a border. Each remaining owner without fixed slots has a range, as
    has each empty master without which room is short.
    """
    fixed = sorted(scaled.fixed)
    pinned = count_ranges([scaled.owner[s] for s in fixed])
    among = {scaled.owner[s] for s in fixed}
    stay = {n for n in set(scaled.owner) if not scaled.masters[n].drained}
    return max(1, pinned + len(stay - among) + _needed(scaled, targets, stay))


def _needed(scaled: Scaled, targets: Targets, stay: set[int]) -> int:
    """Return the number of empty masters that must take slots."""
    takers = scaled.takers()
    most = 0
    for r, load in enumerate(scaled.loads):
        data = sum(load[s] for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded)
        for s, filled in fillers(scaled, targets):
            if filled == r:
                data -= max(0, load[s] - min(targets.common[n][r] for n in takers))
        left = data - sum(targets.common[n][r] for n, m in enumerate(scaled.masters) if n in stay or m.drained)
        rooms = sorted((targets.common[n][r] for n in takers if n not in stay), reverse=True)
        count = 0
        while left > 0 and count < len(rooms):
            left -= rooms[count]
            count += 1
        most = max(most, count)
    return most
