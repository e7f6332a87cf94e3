"""Prices that prove that limits cannot be kept together, from the linear program that spreads slots over masters by their room.

Who owns a slot does not matter here, so masters with the same room are one bin, and the program has few rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from cluster_core.kernels.placement_program import PlacementProgram
from cluster_core.rebalance.bound.conflict import (
    Bin,
    Conflict,
    ConflictKind,
    Proof,
    at_tolerance,
    host_cases,
    least_tolerance,
    make_bins,
    plain_conflicts,
    suffices,
)
from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.search.layout import bundle

BINS_EXACT = 8
"""With more bins than this, slots are bundled before the linear program is solved."""
BUNDLES = 512
WORK_MAX = 4_000_000_000
"""Work of one program, in about nanoseconds."""
NEGLIGIBLE = 1e-7
"""Prices below this part of the highest are none."""
PRICE_ONE = 1 << 40


def find_conflicts(scaled: Scaled, targets: Targets) -> tuple[Conflict, ...]:
    """Return what is proven to contradict itself; where nothing is found, whether the limits can be kept is not known."""
    return (*plain_conflicts(scaled, targets), *_together(scaled, targets))


def _together(scaled: Scaled, targets: Targets) -> list[Conflict]:
    asked = _solve(scaled, Fraction(0))
    if asked is None:
        return []
    last = [asked]

    def impossible(tolerance: Fraction) -> bool:
        found = _solve(scaled, tolerance)
        if found is not None:
            last.append(found)
        return found is not None

    least = least_tolerance(impossible, scaled)
    if least is not None and last[-1].tolerance != least:
        last.append(asked._replace(tolerance=least))  # nothing above what is asked
    names, nodes = _named(scaled, last[-1])
    slots = tuple(sorted({h.slot for h in targets.heavy}))
    return [Conflict(ConflictKind.TOGETHER, names, nodes, slots, least, None, (asked, last[-1]))]


def _solve(scaled: Scaled, tolerance: Fraction) -> Proof | None:
    """Return prices that prove that no placement keeps the limits; None where none are found."""
    scaled = at_tolerance(scaled, tolerance)
    targets = find_targets(scaled)
    cases = host_cases(scaled, targets)
    if cases is None:
        return None
    for by_zone in (False, True) if targets.zone_share is not None and not targets.heavy else (False,):
        found = []
        for hosts in cases:
            bins = make_bins(scaled, targets, hosts, by_zone=by_zone)
            prices = _prices(scaled, hosts, bins)
            if prices is None or not suffices(scaled, hosts, bins, prices):
                break
            found.append(prices)
        else:
            return Proof(tolerance, by_zone, tuple(found))
    return None


def _prices(scaled: Scaled, hosts: Mapping[int, int], bins: Sequence[Bin]) -> tuple[int, ...] | None:
    """Return the prices of the linear program that spreads slots over *bins* with the least load above their room."""
    size = len(scaled.resources)
    for b, one in enumerate(bins):
        for r, v in enumerate(one.room):
            if v < 0:
                return tuple(int(i == b * size + r) for i in range(len(bins) * size))
    slots = [s for s in range(len(scaled.owner)) if s not in scaled.fixed and s not in hosts]
    totals = [sum(load[s] for s in slots) for load in scaled.loads]
    parts = [
        min([v / Fraction(t) for v, t in zip(one.room, totals, strict=True) if t], default=Fraction(1)) for one in bins
    ]
    if sum(parts) >= 1 or not slots:
        return None  # every slot divided alike fits
    mean = [total / len(slots) or 1.0 for total in totals]
    rows = np.array([[load[s] for load in scaled.loads] for s in range(len(scaled.owner))], float) / mean
    columns = [[s] for s in slots]
    if len(bins) > BINS_EXACT:
        columns = bundle(slots, rows, BUNDLES)
    at = _spread(columns, [float(part) for part in parts])
    loads = np.array([rows[column].sum(0) for column in columns])
    room = np.array([one.room for one in bins], float) / mean
    program = PlacementProgram(loads, room, np.zeros((len(columns), len(bins))), np.array(at), 1.0)
    found = program.solve({}, WORK_MAX).prices.tolist()
    top = max(found)
    if top <= 0.0:
        return None
    unit = max(mean)
    return tuple(
        int(p / top * unit / mean[i % size] * PRICE_ONE) if p > NEGLIGIBLE * top else 0 for i, p in enumerate(found)
    )


def _spread(columns: Sequence[Sequence[int]], parts: Sequence[float]) -> list[int]:
    """Return a bin for every column, so that each gets its part of the slots."""
    whole, slots = sum(parts) or 1.0, sum(map(len, columns))
    left = [(part / whole or 1e-9) * slots for part in parts]
    at = []
    for column in columns:
        b = max(range(len(left)), key=left.__getitem__)
        left[b] -= len(column)
        at.append(b)
    return at


def _named(scaled: Scaled, proof: Proof) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the resources, and the masters of capacity, that *proof* says are at odds."""
    scaled = at_tolerance(scaled, proof.tolerance)
    targets, size = find_targets(scaled), len(scaled.resources)
    names: set[str] = set()
    nodes: set[str] = set()
    for hosts, row in zip(host_cases(scaled, targets) or [], proof.prices, strict=True):
        for b, one in enumerate(make_bins(scaled, targets, hosts, by_zone=proof.by_zone)):
            for r, name in enumerate(scaled.resources):
                if not row[b * size + r]:
                    continue
                names.add(name)
                for n in one.masters:
                    most = targets.capacity[n][r]
                    if most is not None and targets.common[n][r] >= most:
                        nodes.add(scaled.masters[n].id)
        for s in hosts:
            names |= {h.resource for h in targets.heavy if h.slot == s}
    return tuple(name for name in scaled.resources if name in names), tuple(sorted(nodes))
