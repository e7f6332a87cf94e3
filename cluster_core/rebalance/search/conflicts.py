"""Find and prove limits that no placement can meet together.

Pinned loads, small masters, large slots and zones are checked by sums; prices prove all other conflicts
(`bounds.contradicts`), found by cutting planes. Masters with equal limits, pinned loads and zone form one bin. Prices
prove a contradiction if all slots in their cheapest bins cost more than all limits. A linear program finds the prices
with the largest excess over all placements so far; these give the next placement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.rebalance.bounds import Prices, contradicts, is_valid, whole_prices
from cluster_core.rebalance.goal.problem import ScaledProblem, exact
from cluster_core.rebalance.goal.targets import Targets, find_targets, fits, pinned_loads
from cluster_core.rebalance.plan import Conflict, ConflictKind
from cluster_core.rebalance.search.arrays import Arrays, Floats

NEAR_ENOUGH = Fraction(1, 2000)
"""Precision of the least tolerance."""
TOLERANCE_MAX = 16384
"""With this tolerance one master may hold all data."""
DIGITS = 10_000
"""Tolerances are multiples of one part of this."""
CUTS_MAX = 80
STEPS_MAX = 20_000
NEAR = 1e-9
BINS_MAX = 200


def find_conflicts(scaled: ScaledProblem) -> tuple[Conflict, ...]:
    """Return limits that are proven to contradict each other."""
    targets = find_targets(scaled)
    plain = plain_conflicts(scaled, targets)
    is_odd = scaled.fixed or targets.heavy or any(m.capacity for m in scaled.masters)
    if plain or not (is_odd or targets.zone_share is not None) or find_contradiction(scaled, targets) is None:
        return plain
    hard = find_contradiction(scaled, limits_at(scaled, None))
    if hard is not None:
        capped = tuple(m.id for m in scaled.masters if m.capacity)
        return (Conflict(ConflictKind.CAPACITY, scaled.resources, capped, prices=hard),)
    least = least_tolerance(lambda t: find_contradiction(scaled, limits_at(scaled, t)) is not None, scaled)
    prices = None if least is None else find_contradiction(scaled, limits_at(scaled, least))
    if prices is None:
        return ()
    capped = tuple(m.id for m in scaled.masters if m.capacity and m.id in prices.masters)
    slots = tuple(dict.fromkeys(h.slot for h in targets.heavy))
    names = tuple(name for r, name in enumerate(scaled.resources) if any(row[r] for row in prices.masters.values()))
    return (Conflict(ConflictKind.TOGETHER, names, capped, slots, least, prices=prices),)


def at_tolerance(scaled: ScaledProblem, tolerance: Fraction) -> ScaledProblem:
    """Return the problem with every tolerance at least *tolerance*."""
    return replace(scaled, tolerance=tuple(max(own, tolerance) for own in scaled.tolerance))


def limits_at(scaled: ScaledProblem, tolerance: Fraction | None) -> Targets:
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


def plain_conflicts(scaled: ScaledProblem, targets: Targets) -> tuple[Conflict, ...]:
    """Return the conflicts that sums prove."""
    conflicts = [*_pinned(scaled, targets), *_small(scaled, targets), *_too_large(scaled)]
    if targets.zone_relaxed:
        zones = {scaled.masters[n].zone for n in scaled.takers()}
        least = least_tolerance(lambda t: find_targets(at_tolerance(scaled, t)).zone_relaxed, scaled)
        conflicts.append(Conflict(ConflictKind.ZONES, (), tuple(sorted(zones)), (), least, targets.zone_share))
    return tuple(conflicts)


def _pinned(scaled: ScaledProblem, targets: Targets) -> list[Conflict]:
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


def _small(scaled: ScaledProblem, targets: Targets) -> list[Conflict]:
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


def _too_large(scaled: ScaledProblem) -> list[Conflict]:
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


def least_tolerance(impossible: Callable[[Fraction], bool], scaled: ScaledProblem) -> Fraction | None:
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


def prove(scaled: ScaledProblem, conflict: Conflict) -> bool:
    """Return whether *conflict* is proven, in whole numbers."""
    if conflict.kind not in (ConflictKind.TOGETHER, ConflictKind.CAPACITY):
        return conflict in plain_conflicts(scaled, find_targets(scaled))
    if conflict.prices is None or not is_valid(scaled, conflict.prices):
        return False
    if (conflict.least is None) != (conflict.kind is ConflictKind.CAPACITY):
        return False
    return contradicts(scaled, limits_at(scaled, conflict.least), conflict.prices)


def find_contradiction(scaled: ScaledProblem, targets: Targets) -> Prices | None:
    """Return prices that prove that no placement meets *targets*; None if none were found."""
    arrays = Arrays(scaled, targets)
    pinned = pinned_loads(scaled)
    kinds = [(*targets.common[n], *pinned[n], arrays.zones[n]) for n in arrays.takers]
    distinct = list(dict.fromkeys(kinds))
    if len(distinct) > BINS_MAX:
        return None
    bin_of = np.array([distinct.index(kind) for kind in kinds])
    bins, size, zones = len(distinct), arrays.limits.shape[1], len(arrays.zone_names)
    samples = np.array([arrays.takers[int(np.argmax(bin_of == b))] for b in range(bins)])
    limits = np.concatenate(
        [(arrays.limits[samples] * np.bincount(bin_of, minlength=bins)[:, None]).ravel(), arrays.zone_limits.ravel()]
    )
    program = LinearProgram()
    count = len(limits)
    program.add_rows(np.ones(1), np.ones(1))
    program.add_columns(
        np.concatenate([np.zeros(count), [-1.0]]),
        np.full(count + 1, INFINITE),
        np.arange(count + 1),
        np.zeros(count + 1, int),
        np.concatenate([np.maximum(limits, 1e-12), [0.0]]),
    )
    program.bound([count], np.array([-INFINITE]), np.array([INFINITE]))
    prices = np.maximum(limits, 1e-12) ** -1.0 / count
    for _ in range(CUTS_MAX):
        paid = _cheapest_load(arrays, samples, bin_of, prices, zones)
        if paid @ prices - limits @ prices > NEAR:
            rows = np.zeros_like(arrays.limits)
            rows[arrays.takers] = prices[: bins * size].reshape(bins, size)[bin_of]
            by_zone = dict(zip(arrays.zone_names, prices[bins * size :].reshape(zones, size), strict=True))
            proof = whole_prices(scaled, rows, by_zone)
            if contradicts(scaled, targets, proof):
                return proof
        entries = np.concatenate([paid - limits, [-1.0]])
        program.add_rows(np.zeros(1), np.full(1, INFINITE), np.zeros(1), np.arange(count + 1), entries)
        solution = program.solve(program.steps + STEPS_MAX)
        if not solution.known or -solution.cost < NEAR:
            return None
        prices = solution.values[:count]
    return None


def _cheapest_load(arrays: Arrays, samples: Floats, bin_of: Floats, prices: Floats, zones: int) -> Floats:
    """Return the load of bins and zones with every slot in its cheapest bin."""
    bins, size = len(samples), arrays.limits.shape[1]
    rows, by_zone = prices[: bins * size].reshape(bins, size), prices[bins * size :].reshape(zones, size)
    paid = arrays.loads @ rows.T
    if zones:
        paid += (arrays.raw / arrays.mean) @ by_zone[arrays.zones[samples]].T
    at = paid.argmin(1)
    home = np.full(len(arrays.takes), -1)
    home[arrays.takers] = bin_of
    at[arrays.fixed] = home[arrays.owner[arrays.fixed]]
    inside = at >= 0
    held = [np.bincount(at[inside], arrays.loads[inside, r], bins) for r in range(size)]
    loads = [np.stack(held, axis=1).ravel()]
    if zones:
        zone = np.where(inside, arrays.zones[samples][np.maximum(at, 0)], arrays.zones[arrays.owner])
        loads.append(
            np.stack([np.bincount(zone, arrays.raw[:, r] / arrays.mean[r], zones) for r in range(size)], axis=1).ravel()
        )
    return np.concatenate(loads)
