"""How many slot ranges there are at least, whatever moves: masters that hold slots, and slots that must not move between others'."""

from __future__ import annotations

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, fillers
from cluster_core.rebalance.plan import count_ranges


def least_ranges(scaled: Scaled, targets: Targets) -> int:
    """Return a lower bound on the slot ranges of every placement within *targets*; sums and counts, nothing to trust.

    Between two neighbouring slots that must not move and are of different masters there is a border.  A master without such slots that
    stays an owner has a range of its own, and so has every empty one without which the others have not the room for all load.
    """
    fixed = sorted(scaled.fixed)
    pinned = count_ranges([scaled.owner[s] for s in fixed])
    among = {scaled.owner[s] for s in fixed}
    stay = {n for n in set(scaled.owner) if not scaled.masters[n].drained}
    return max(1, pinned + len(stay - among) + _needed(scaled, targets, stay))


def _needed(scaled: Scaled, targets: Targets, stay: set[int]) -> int:
    """Return how many masters that hold nothing must take something."""
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
