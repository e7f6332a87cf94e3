"""Limits that no placement can keep together, and how anyone can check that.

What is pinned, slots above every capacity and zones are sums.  For the rest (a capacity against tolerances, loads around a heavy slot): let
load on a master cost p[r] >= 0 a unit of resource r.  Wherever a slot goes, it costs at least what it costs where it is cheapest; if
that adds up to more than all room at these prices, the room does not suffice (Farkas).  Masters with the same room are one *bin*: its
room is their sum.  A heavy slot fills its host in its resource, and is put on one master of each kind in turn (`host_cases`).
Prices are a witness (`search.conflicts` finds them); `prove` repeats the argument in whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, find_targets, fits, pinned_loads

CASES_MAX = 64
"""Most ways to put heavy slots on kinds of masters that are looked at."""
NEAR_ENOUGH = Fraction(1, 2000)
"""The least tolerance is looked for until it is known as well as this."""
TOLERANCE_MAX = 16384
"""At this tolerance one master may hold everything."""
DIGITS = 10_000
"""Tolerances are tried in steps of one part of this."""


class ConflictKind(StrEnum):
    """Which limits contradict each other."""

    PINNED = "pinned slots"
    SLOT = "slots above every capacity"
    ZONES = "zones"
    TOGETHER = "limits together"


class Proof(NamedTuple):
    """Prices that prove it with every tolerance at least *tolerance*: a list a case, in it a price a bin (zones, *by_zone*) and resource."""

    tolerance: Fraction
    by_zone: bool
    prices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Limits that cannot be kept together: of *resources*, on *nodes*, for *slots*.

    No tolerance below *least* helps, None: none at all; *share* is the least zone share.  Limits together have *proofs*, one for what is
    asked, one for the least tolerance.
    """

    kind: ConflictKind
    resources: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    least: Fraction | None = None
    share: Fraction | None = None
    proofs: tuple[Proof, ...] = ()


class Bin(NamedTuple):
    """Masters whose room counts as one."""

    masters: tuple[int, ...]
    room: tuple[int, ...]


def at_tolerance(scaled: Scaled, tolerance: Fraction) -> Scaled:
    """Return the problem with every tolerance at least *tolerance*."""
    return replace(scaled, tolerance=tuple(max(own, tolerance) for own in scaled.tolerance))


def plain_conflicts(scaled: Scaled, targets: Targets) -> tuple[Conflict, ...]:
    """Return the conflicts that are mere sums."""
    found = [*_pinned(scaled, targets), *_too_large(scaled, targets)]
    if targets.zone_relaxed:
        zones = {m.zone for m in scaled.masters if not m.drained and not m.excluded}
        least = (
            None
            if len(zones) < 2
            else least_tolerance(lambda t: find_targets(at_tolerance(scaled, t)).zone_relaxed, scaled)
        )
        found.append(Conflict(ConflictKind.ZONES, (), tuple(sorted(zones)), (), least, targets.zone_share))
    return tuple(found)


def _pinned(scaled: Scaled, targets: Targets) -> list[Conflict]:
    found = []
    rows = pinned_loads(scaled)
    heavy = {(scaled.owner[h.slot], h.resource): h.slot for h in targets.heavy if h.slot in scaled.fixed}
    for n, master in enumerate(scaled.masters):
        if master.drained or master.excluded:
            continue
        over, least = [], Fraction(0)
        for r, name in enumerate(scaled.resources):
            most, fair = targets.capacity[n][r], targets.fair[n][r]
            limit = int(targets.relaxed[r] * fair)
            limit = limit if most is None else min(limit, most)
            if (n, name) in heavy and (most is None or scaled.loads[r][heavy[n, name]] <= most):
                limit = max(limit, scaled.loads[r][heavy[n, name]])
            if rows[n][r] <= limit:
                continue
            over.append(name)
            hopeless = not fair or (most is not None and rows[n][r] > most)
            least = Fraction(-1) if hopeless or least < 0 else max(least, rows[n][r] / fair - 1)
        if over:
            slots = tuple(sorted(s for s in scaled.fixed if scaled.owner[s] == n))
            found.append(Conflict(ConflictKind.PINNED, tuple(over), (master.id,), slots, None if least < 0 else least))
    return found


def _too_large(scaled: Scaled, targets: Targets) -> list[Conflict]:
    takers = [n for n, m in enumerate(scaled.masters) if not m.drained and not m.excluded]
    least = [min((c for n in takers if (c := targets.capacity[n][r]) is not None), default=None)
             for r in range(len(scaled.resources))]  # fmt: skip
    slots, names = [], set()
    for s, owner in enumerate(scaled.owner):
        over = [r for r, most in enumerate(least) if most is not None and scaled.loads[r][s] > most]
        if (
            over
            and not scaled.masters[owner].excluded
            and not any(fits(scaled, targets.capacity, s, n) for n in takers)
        ):
            slots.append(s)
            names |= {scaled.resources[r] for r in over}
    if not slots:
        return []
    return [Conflict(ConflictKind.SLOT, tuple(name for name in scaled.resources if name in names), (), tuple(slots))]


def least_tolerance(impossible: Callable[[Fraction], bool], scaled: Scaled) -> Fraction | None:
    """Return the largest tolerance that was found to be *impossible*, smaller ones being so; None where every tolerance is."""
    if impossible(Fraction(TOLERANCE_MAX)):
        return None
    low, high = min(scaled.tolerance), 2 * max(*scaled.tolerance, Fraction(1, 100))
    while impossible(high):
        low, high = high, high * 4
    while high - low > NEAR_ENOUGH:
        middle = Fraction(int((low + high) / 2 * DIGITS), DIGITS)
        if impossible(middle):
            low = middle
        else:
            high = middle
    return low


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


def make_bins(scaled: Scaled, targets: Targets, hosts: Mapping[int, int], *, by_zone: bool) -> list[Bin]:
    """Return the room for the slots that may move and are not in *hosts*."""
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
    groups: dict[object, list[int]] = {}
    for n, row in room.items():
        groups.setdefault(scaled.masters[n].zone if by_zone else tuple(row), []).append(n)
    bins = []
    for masters in groups.values():
        sums = [sum(room[n][r] for n in masters) for r in range(len(scaled.resources))]
        if by_zone and targets.zone_share is not None:
            zone = scaled.masters[masters[0]].zone
            for r, load in enumerate(scaled.loads):
                held = sum(rows[n][r] for n, m in enumerate(scaled.masters) if m.zone == zone)
                sums[r] = min(sums[r], int(targets.zone_share * sum(load)) - held)
        bins.append(Bin(tuple(masters), tuple(sums)))
    return bins


def prove(scaled: Scaled, conflict: Conflict) -> bool:
    """Return whether *conflict* is one, in whole numbers."""
    if conflict.kind is not ConflictKind.TOGETHER:
        return conflict in plain_conflicts(scaled, find_targets(scaled))
    least = Fraction(TOLERANCE_MAX) if conflict.least is None else conflict.least
    told = [proof.tolerance for proof in conflict.proofs]
    return told == [0, least] and all(_holds(scaled, proof) for proof in conflict.proofs)


def _holds(scaled: Scaled, proof: Proof) -> bool:
    scaled = at_tolerance(scaled, proof.tolerance)
    targets = find_targets(scaled)
    cases = host_cases(scaled, targets)
    zoned = targets.zone_share is not None and not targets.heavy
    if cases is None or len(cases) != len(proof.prices) or (proof.by_zone and not zoned):
        return False
    return all(
        suffices(scaled, hosts, make_bins(scaled, targets, hosts, by_zone=proof.by_zone), row)
        for hosts, row in zip(cases, proof.prices, strict=True)
    )


def suffices(scaled: Scaled, hosts: Mapping[int, int], bins: Sequence[Bin], prices: Sequence[int]) -> bool:
    """Return whether *prices* show that the slots that may move need more than the room of *bins*."""
    size = len(scaled.resources)
    if len(prices) != size * len(bins) or min(prices, default=0) < 0:
        return False
    rows = [prices[b * size : (b + 1) * size] for b in range(len(bins))]
    room = sum(p * v for one, row in zip(bins, rows, strict=True) for p, v in zip(row, one.room, strict=True))
    free = [s for s in range(len(scaled.owner)) if s not in scaled.fixed and s not in hosts]
    costs = []
    for row in dict.fromkeys(tuple(row) for row in rows):
        paid = [0] * len(free)
        for p, load in zip(row, scaled.loads, strict=True):
            if p:
                paid = [v + p * load[s] for v, s in zip(paid, free, strict=True)]
        costs.append(paid)
    least = sum(map(min, *costs)) if len(costs) > 1 else sum(costs[0])
    return least > room
