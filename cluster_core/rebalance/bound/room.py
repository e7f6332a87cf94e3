"""The room that masters have together for slots that are not placed yet, the cases that large slots make, and prices that say it is too little.

Masters with the same room are one *bin*, or all those of a zone: its room is their sum, at most what the zones' share leaves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, fits, pinned_loads

CASES_MAX = 64
"""Most ways to put heavy slots on kinds of masters that are looked at."""


class Bin(NamedTuple):
    """Masters whose room counts as one: *room* together, each what one of *rows* says."""

    masters: tuple[int, ...]
    room: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]


def host_cases(scaled: Scaled, targets: Targets) -> list[dict[int, int]] | None:
    """Return where heavy slots may be: one way for each kind of masters; None where there are too many ways, or none.

    Masters of one kind have the same limits, capacities and pinned loads: which of them is a host makes no difference.  Two slots share a
    host only if they are heavy in different resources.
    """
    resources: dict[int, set[str]] = {}
    for h in targets.heavy:
        resources.setdefault(h.slot, set()).add(h.resource)
    fixed = pinned_loads(scaled)
    kinds: dict[object, list[int]] = {}
    for n, master in enumerate(scaled.masters):
        if not master.drained and not master.excluded:
            kinds.setdefault((targets.common[n], targets.capacity[n], tuple(fixed[n])), []).append(n)
    cases: list[dict[int, int]] = [{}]
    for s in sorted(resources, key=lambda s: (s not in scaled.fixed, s)):
        longer = []
        for hosts in cases:
            used = set(hosts.values())
            choices = [
                *used,
                *(free[0] for members in kinds.values() if (free := [n for n in members if n not in used])),
            ]
            for n in [scaled.owner[s]] if s in scaled.fixed else choices:
                alone = all(m != n or not resources[t] & resources[s] for t, m in hosts.items())
                if alone and fits(scaled, targets.capacity, s, n):
                    longer.append({**hosts, s: n})
        cases = longer
        if not 0 < len(cases) <= CASES_MAX:
            return None
    return cases


def rooms_left(scaled: Scaled, targets: Targets, hosts: Mapping[int, int]) -> dict[int, list[int]]:
    """Return the room that every master has, by resource, for the slots that may move and are not in *hosts*."""
    rows = pinned_loads(scaled)
    room = {
        n: [cap - load for cap, load in zip(targets.common[n], rows[n], strict=True)]
        for n, m in enumerate(scaled.masters)
        if not m.drained and not m.excluded
    }
    heavy = {(h.slot, h.resource) for h in targets.heavy}
    for s, n in hosts.items():
        for r, name in enumerate(scaled.resources):
            pinned = scaled.loads[r][s] if s in scaled.fixed else 0
            fills = (s, name) in heavy
            room[n][r] = (pinned - rows[n][r]) if fills else room[n][r] + pinned - scaled.loads[r][s]
    return room


def zones_left(scaled: Scaled, targets: Targets, hosts: Mapping[int, int]) -> dict[str, list[int]]:
    """Return the room that the zones' share leaves every zone for the slots that may move and are not in *hosts*; nothing where none is asked."""
    if targets.zone_share is None:
        return {}
    totals = [int(targets.zone_share * sum(load)) for load in scaled.loads]
    left = {m.zone: list(totals) for m in scaled.masters}
    held = [(s, scaled.owner[s]) for s in scaled.fixed] + [(s, n) for s, n in hosts.items() if s not in scaled.fixed]
    for s, n in held:
        for r, load in enumerate(scaled.loads):
            left[scaled.masters[n].zone][r] -= load[s]
    return left


def make_bins(scaled: Scaled, targets: Targets, hosts: Mapping[int, int], *, by_zone: bool) -> list[Bin]:
    """Return the room for the slots that may move and are not in *hosts*."""
    room = rooms_left(scaled, targets, hosts)
    zones = zones_left(scaled, targets, hosts) if by_zone else {}
    groups: dict[object, list[int]] = {}
    for n, row in room.items():
        groups.setdefault(scaled.masters[n].zone if by_zone else tuple(row), []).append(n)
    bins = []
    for masters in groups.values():
        sums = [sum(room[n][r] for n in masters) for r in range(len(scaled.resources))]
        if zones:
            sums = list(map(min, sums, zones[scaled.masters[masters[0]].zone]))
        bins.append(Bin(tuple(masters), tuple(sums), tuple(dict.fromkeys(tuple(room[n]) for n in masters))))
    return bins


def cases_of(scaled: Scaled, targets: Targets, hosts: Mapping[int, int], s: int) -> list[dict[int, int]]:
    """Return where slot *s* may be beside those in *hosts*: on one master of each kind, those of the same room in the same zone."""
    loads = [load[s] for load in scaled.loads]
    zones = zones_left(scaled, targets, hosts)
    kinds: dict[object, int] = {}
    for n, row in rooms_left(scaled, targets, hosts).items():
        zone = scaled.masters[n].zone
        if all(map(_at_most, loads, row)) and (not zones or all(map(_at_most, loads, zones[zone]))):
            kinds.setdefault((tuple(row), zone if zones else ""), n)
    return [{**hosts, s: n} for n in kinds.values()]


def _at_most(load: int, room: int) -> bool:
    return load <= room


def suffices(scaled: Scaled, hosts: Mapping[int, int], bins: Sequence[Bin], prices: Sequence[int]) -> bool:
    """Return whether *prices* show that the slots that may move need more than the room of *bins*, each where it fits."""
    size = len(scaled.resources)
    if len(prices) != size * len(bins) or min(prices, default=0) < 0:
        return False
    rows = [tuple(prices[b * size : (b + 1) * size]) for b in range(len(bins))]
    room = sum(p * v for one, row in zip(bins, rows, strict=True) for p, v in zip(row, one.room, strict=True))
    free = [s for s in range(len(scaled.owner)) if s not in scaled.fixed and s not in hosts]
    costs: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        if row not in costs:
            paid = [0] * len(free)
            for p, load in zip(row, scaled.loads, strict=True):
                if p:
                    paid = [v + p * load[s] for v, s in zip(paid, free, strict=True)]
            costs[row] = paid
    least = list(map(min, *costs.values())) if len(costs) > 1 else [*costs[rows[0]]]
    kinds: dict[int, list[list[int]]] = {}
    for k, places in where_fits(scaled, bins, free).items():
        if not places:
            return True
        if id(places) not in kinds:
            kinds[id(places)] = [costs[row] for row in {rows[b] for b in places}]
        least[k] = min(cost[k] for cost in kinds[id(places)])
    return sum(least) > room


def where_fits(scaled: Scaled, bins: Sequence[Bin], slots: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return, for those of *slots* (by their place in it) that do not fit every master, the bins in which each fits a master alone."""
    rooms = [row for one in bins for row in (one.room, *one.rows)]
    orders = []
    for r, load in enumerate(scaled.loads):
        least = min((row[r] for row in rooms), default=0)
        orders.append(sorted((load[s], k) for k, s in enumerate(slots) if load[s] > least))
    barred: dict[int, list[int]] = {}
    for b, one in enumerate(bins):
        inside = set.intersection(*(_above(orders, row) for row in one.rows))
        for k in inside | _above(orders, one.room):
            barred.setdefault(k, []).append(b)
    places: dict[tuple[int, ...], tuple[int, ...]] = {}
    every = range(len(bins))
    for gone in {tuple(out) for out in barred.values()}:
        places[gone] = tuple(sorted(set(every).difference(gone)))
    return {k: places[tuple(barred[k])] for k in sorted(barred)}


def _above(orders: Sequence[Sequence[tuple[int, int]]], room: Sequence[int]) -> set[int]:
    """Return the places of the slots above *room*; *orders* are the loads of each resource with their places, in order."""
    above: set[int] = set()
    for order, most in zip(orders, room, strict=True):
        above.update(k for _, k in order[bisect_right(order, most, key=_load) :])
    return above


def _load(entry: tuple[int, int]) -> int:
    return entry[0]
