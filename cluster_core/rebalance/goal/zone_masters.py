"""How many masters a zone has, which moves of slots do not change, and fail-overs that do."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence

from cluster_core.rebalance.goal.problem import Scaled, exact


def may_hold(scaled: Scaled) -> list[int]:
    """Return the masters that may hold slots afterwards: those that take slots, and excluded ones that have some."""
    holders = set(scaled.owner)
    return [n for n, m in enumerate(scaled.masters) if not m.drained and (not m.excluded or n in holders)]


def masters_max(scaled: Scaled) -> int | None:
    """Return how many masters one zone may have; None where no share is asked for."""
    share = scaled.problem.zone_masters_max
    return None if share is None else int(exact(share, "zone_masters_max") * len(may_hold(scaled)))


def crowded_zones(scaled: Scaled) -> dict[str, list[int]]:
    """Return the zones with more masters than one may have, with those masters."""
    most = masters_max(scaled)
    zones: dict[str, list[int]] = {}
    for n in may_hold(scaled):
        zones.setdefault(scaled.masters[n].zone, []).append(n)
    return {} if most is None else {zone: inside for zone, inside in zones.items() if len(inside) > most}


def spread_masters(zones: Sequence[str], others: Sequence[Collection[str]], most: int) -> list[str] | None:
    """Return a zone for each master so that none has above *most*: its own of *zones*, or one of *others*; None where there is no such way.

    Masters change zones along shortest paths that end where there is room (a flow: where none is left, there is no way at all).
    """
    placed = list(zones)
    held = Counter(placed)
    while crowd := next((zone for zone in held if held[zone] > most), None):
        came: dict[str, int] = {}
        queue, end = deque([crowd]), None
        while queue and end is None:
            zone = queue.popleft()
            for n, here in enumerate(placed):
                for there in (zones[n], *others[n]) if here == zone else ():
                    if there != crowd and there not in came:
                        came[there] = n
                        queue.append(there)
                        end = end or (there if held[there] < most else None)
        if end is None:
            return None
        while end != crowd:
            n = came[end]
            before = placed[n]
            placed[n] = end
            held[end] += 1
            held[before] -= 1
            end = before
    return placed
