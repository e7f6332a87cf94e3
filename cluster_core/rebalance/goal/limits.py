"""Check a placement against its limits: excess, and the limits that a bound can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from cluster_core.rebalance.goal.problem import Scaled
from cluster_core.rebalance.goal.targets import Targets, rehost


def must_drain(scaled: Scaled, owner: Sequence[int]) -> bool:
    """Return whether a drained master holds slots."""
    return any(scaled.masters[n].drained for n in set(owner))


def excess_by_resource(
    scaled: Scaled, targets: Targets, owner: Sequence[int], sums: Sequence[Sequence[int]]
) -> list[Fraction]:  # fmt: skip
    """Return per resource the largest excess over a limit of a master, in fair shares, with its loads *sums* [n][r].

    The owner of a heavy slot is its host.
    """
    worst, caps = [Fraction(0)] * len(scaled.resources), rehost(scaled, targets, owner).caps
    for n, row in enumerate(sums):
        if scaled.masters[n].excluded or scaled.masters[n].drained:
            continue
        for r, load in enumerate(row):
            if load > caps[n][r]:
                worst[r] = max(worst[r], (load - caps[n][r]) / (targets.fair[n][r] or Fraction(1)))
    return worst


def excess(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> Fraction:
    """Return the largest excess over a limit of a master or zone, in fair shares; 0 for none."""
    sums = scaled.totals(owner)
    worst = max(excess_by_resource(scaled, targets, owner, sums))
    if targets.zone_share is not None:
        for r in range(len(scaled.resources)):
            total = sum(scaled.loads[r])
            zones: dict[str, int] = {}
            for n, row in enumerate(sums):
                zones[scaled.masters[n].zone] = zones.get(scaled.masters[n].zone, 0) + row[r]
            if total:
                worst = max(worst, Fraction(max(zones.values()), total) - targets.zone_share)
    return worst


def keeps(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> bool:
    """Return whether a placement is within all limits and empties all drained masters."""
    return not must_drain(scaled, owner) and excess(scaled, targets, owner) == 0


def kept(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> Targets:
    """Return the limits that a placement keeps: *targets* with its hosts or, if missed, the placement's own maxima."""
    if keeps(scaled, targets, owner):
        return rehost(scaled, targets, owner)
    sums = scaled.totals(owner)
    common = tuple(tuple(map(max, row, held)) for row, held in zip(targets.common, sums, strict=True))
    return replace(targets, common=common, caps=common, heavy=(), hosts=(), zone_share=None)


def overload(scaled: Scaled, targets: Targets, owner: Sequence[int]) -> Fraction:
    """Return the share of all load above capacities of masters that may give it away, summed over resources."""
    over = Fraction(0)
    if any(most is not None for row in targets.capacity for most in row):
        for n, row in enumerate(scaled.totals(owner)):
            for r, most in enumerate(targets.capacity[n]):
                if most is not None and row[r] > most and not scaled.masters[n].excluded:
                    over += Fraction(row[r] - most, sum(scaled.loads[r]))
    return over


def above_capacity(targets: Targets, sums: Sequence[Sequence[int]]) -> list[int]:
    """Return the masters above a capacity."""
    return [
        n
        for n, row in enumerate(sums)
        if any(most is not None and load > most for load, most in zip(row, targets.capacity[n], strict=True))
    ]
