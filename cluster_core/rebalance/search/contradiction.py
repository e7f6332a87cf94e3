"""Find limits that contradict each other, with prices that prove it, by cutting planes.

Masters with equal limits, pinned loads and zone form one bin. Prices prove a contradiction if all slots in their
cheapest bins cost more than all limits. A linear program finds the prices with the largest excess over all placements
so far; these give the next placement.
"""

from __future__ import annotations

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.rebalance.bounds import Prices, contradicts, whole_prices
from cluster_core.rebalance.conflict import (
    Conflict,
    ConflictKind,
    at_tolerance,
    least_tolerance,
    limits_at,
    plain_conflicts,
)  # fmt: skip
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, find_targets, pinned_loads
from cluster_core.rebalance.search.arrays import Arrays, Floats

CUTS_MAX = 80
STEPS_MAX = 20_000
NEAR = 1e-9
BINS_MAX = 200


def find_conflicts(scaled: Scaled) -> tuple[Conflict, ...]:
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
    least = least_tolerance(
        lambda t: find_contradiction(scaled, find_targets(at_tolerance(scaled, t))) is not None, scaled
    )
    if least is None:
        return ()
    prices = find_contradiction(scaled, find_targets(at_tolerance(scaled, least)))
    if prices is None:
        return ()
    capped = tuple(m.id for m in scaled.masters if m.capacity and m.id in prices.masters)
    slots = tuple(dict.fromkeys(h.slot for h in targets.heavy))
    names = tuple(name for r, name in enumerate(scaled.resources) if any(row[r] for row in prices.masters.values()))
    return (Conflict(ConflictKind.TOGETHER, names, capped, slots, least, prices=prices),)


def find_contradiction(scaled: Scaled, targets: Targets) -> Prices | None:
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
