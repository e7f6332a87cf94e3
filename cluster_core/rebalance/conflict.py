"""Find and prove limits that no placement can meet together.

Pinned loads, small masters, large slots and zones are checked by sums; prices prove all other conflicts
(`bounds.contradicts`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from cluster_core.rebalance.bounds import Prices, contradicts, is_valid
from cluster_core.rebalance.goal.problem import Scaled, exact
from cluster_core.rebalance.goal.targets import Targets, find_targets, fits, pinned_loads

NEAR_ENOUGH = Fraction(1, 2000)
"""Precision of the least tolerance."""
TOLERANCE_MAX = 16384
"""With this tolerance one master may hold all data."""
DIGITS = 10_000
"""Tolerances are multiples of one part of this."""


class ConflictKind(StrEnum):
    """Limits that contradict each other."""

    PINNED = "pinned slots"
    SLOT = "slots above every capacity"
    SMALL = "limits below the lightest slot"
    ZONES = "zones"
    CAPACITY = "capacities with pinned slots, drains and zones"
    TOGETHER = "limits together"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Contradicting limits of *resources*, on *nodes*, for *slots*, proven by *prices* if limits of several kinds are involved.

    They contradict up to the tolerance *least* (None: at any); *share* is the least zone share.
    """

    kind: ConflictKind
    resources: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    least: Fraction | None = None
    share: Fraction | None = None
    prices: Prices | None = None


def at_tolerance(scaled: Scaled, tolerance: Fraction) -> Scaled:
    """Return the problem with every tolerance at least *tolerance*."""
    return replace(scaled, tolerance=tuple(max(own, tolerance) for own in scaled.tolerance))


def limits_at(scaled: Scaled, tolerance: Fraction | None) -> Targets:
    """Return the limits with every tolerance at least *tolerance*; None: only limits that do not depend on tolerance."""
    if tolerance is not None:
        return find_targets(at_tolerance(scaled, tolerance))
    targets = find_targets(scaled)
    totals = [sum(load) for load in scaled.loads]
    common = tuple(
        tuple(max(held, int(min(total, most))) for most, held, total in zip(*rows, totals, strict=True))
        for rows in zip(scaled.capacity, pinned_loads(scaled), strict=True)
    )
    asked = scaled.problem.zone_share_max
    share = None if asked is None else exact(asked, "zone_share_max")
    return replace(targets, common=common, caps=common, heavy=(), hosts=(), zone_share=share)


def plain_conflicts(scaled: Scaled, targets: Targets) -> tuple[Conflict, ...]:
    """Return the conflicts that sums prove."""
    conflicts = [*_pinned(scaled, targets), *_small(scaled, targets), *_too_large(scaled)]
    if targets.zone_relaxed:
        zones = {scaled.masters[n].zone for n in scaled.takers()}
        least = least_tolerance(lambda t: find_targets(at_tolerance(scaled, t)).zone_relaxed, scaled)
        conflicts.append(Conflict(ConflictKind.ZONES, (), tuple(sorted(zones)), (), least, targets.zone_share))
    return tuple(conflicts)


def _pinned(scaled: Scaled, targets: Targets) -> list[Conflict]:
    conflicts, rows = [], pinned_loads(scaled)
    heavy = {(scaled.owner[h.slot], h.resource): h.slot for h in targets.heavy if h.slot in scaled.fixed}
    for n in scaled.takers():
        over, least = [], Fraction(0)
        for r, name in enumerate(scaled.resources):
            most, fair = scaled.capacity[n][r], targets.fair[n][r]
            limit = min(int(targets.relaxed[r] * fair), most)
            if (n, name) in heavy and scaled.loads[r][heavy[n, name]] <= most:
                limit = max(limit, scaled.loads[r][heavy[n, name]])
            if rows[n][r] <= limit:
                continue
            over.append(name)
            hopeless = not fair or rows[n][r] > most
            least = Fraction(-1) if hopeless or least < 0 else max(least, rows[n][r] / fair - 1)
        if over:
            slots = tuple(sorted(s for s in scaled.fixed if scaled.owner[s] == n))
            conflicts.append(
                Conflict(ConflictKind.PINNED, tuple(over), (scaled.masters[n].id,), slots, None if least < 0 else least)
            )
    return conflicts


def _small(scaled: Scaled, targets: Targets) -> list[Conflict]:
    """Find masters that must keep a slot although none is within their limits."""
    conflicts = []
    for n in targets.small:
        fair, most, lightest = targets.fair[n], scaled.capacity[n], [min(load) for load in scaled.loads]
        over = [r for r, load in enumerate(lightest) if min(int(targets.relaxed[r] * fair[r]), most[r]) < load]
        hopeless = any(not fair[r] or most[r] < lightest[r] for r in over)
        least = None if hopeless else max(lightest[r] / fair[r] - 1 for r in over)
        names = tuple(scaled.resources[r] for r in over)
        conflicts.append(Conflict(ConflictKind.SMALL, names, (scaled.masters[n].id,), least=least))
    return conflicts


def _too_large(scaled: Scaled) -> list[Conflict]:
    takers = scaled.takers()
    least = [min(column) for column in zip(*(scaled.capacity[n] for n in takers), strict=True)]
    slots, resources = [], set()
    for s, owner in enumerate(scaled.owner):
        over = {r for r, most in enumerate(least) if scaled.loads[r][s] > most}
        if over and not (scaled.masters[owner].excluded or any(fits(scaled, s, n) for n in takers)):
            slots.append(s)
            resources |= over
    names = tuple(scaled.resources[r] for r in sorted(resources))
    return [Conflict(ConflictKind.SLOT, names, (), tuple(slots))] if slots else []


def least_tolerance(impossible: Callable[[Fraction], bool], scaled: Scaled) -> Fraction | None:
    """Return the largest *impossible* tolerance found by bisection; None if every tolerance is impossible."""
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


def prove(scaled: Scaled, conflict: Conflict) -> bool:
    """Return whether *conflict* is proven, in whole numbers."""
    if conflict.kind not in (ConflictKind.TOGETHER, ConflictKind.CAPACITY):
        return conflict in plain_conflicts(scaled, find_targets(scaled))
    if conflict.prices is None or not is_valid(scaled, conflict.prices):
        return False
    if (conflict.least is None) != (conflict.kind is ConflictKind.CAPACITY):
        return False
    return contradicts(scaled, limits_at(scaled, conflict.least), conflict.prices)
