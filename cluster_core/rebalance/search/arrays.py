"""A problem as floats for walks and linear programs; whole numbers check the results."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cluster_core.rebalance.goal.problem import ScaledProblem
from cluster_core.rebalance.goal.targets import Targets, fillers

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FLOAT_BITS = 1000
"""Larger whole numbers are cut to so many bits."""
EXACT = 2.0**53
CLOSE = 1e-12
"""Relative reduction of limits above `EXACT` against rounding."""


class Arrays:
    """Loads [slot, resource], cost [slot], and limits [master, resource].

    *raw* and *caps* (with those of hosts) are in units of the problem; *loads*, *cost* and *limits* in mean slots, with slots
    above every limit cut to it.
    """

    def __init__(self, scaled: ScaledProblem, targets: Targets) -> None:
        self.scaled, self.targets = scaled, targets
        self.raw: Floats = np.stack([_floats(load) for load in scaled.loads], axis=1)
        slots, masters = len(scaled.owner), len(scaled.masters)
        mean = self.raw.sum(0) / slots
        self.mean: Floats = np.where(mean > 0, mean, 1.0)
        shifts = [_shift(load) for load in scaled.loads]
        self.caps = _limits(targets.caps, shifts)
        self.loads: Floats = self.raw / self.mean
        self.cost: Floats = self.loads[:, scaled.cost].copy()
        self.limits: Floats = _limits(targets.common, shifts) / self.mean
        self.capacity: Floats = np.array([_shifted(row, shifts) for row in scaled.capacity]) / self.mean
        self.owner: Integers = np.array(scaled.owner, np.int64)
        self.takes = np.array([not m.drained and not m.excluded for m in scaled.masters])
        self.takers: Integers = np.flatnonzero(self.takes)
        self.place: Integers = np.where(self.takes, np.cumsum(self.takes) - 1, -1)
        """Position of each master in *takers*; -1 for none."""
        self.fixed = np.zeros(slots, bool)
        self.fixed[sorted(scaled.fixed)] = True
        self.must = np.array([m.drained for m in scaled.masters])[self.owner]
        self.keeps_one = (np.bincount(self.owner, minlength=masters) > 0) & self.takes
        for s, r in fillers(scaled, targets):
            self.loads[s, r] = min(self.loads[s, r], float(self.limits[self.takers, r].max()))
        self.zone_names = list(dict.fromkeys(m.zone for m in scaled.masters)) if targets.zone_share is not None else []
        places = {name: z for z, name in enumerate(self.zone_names)}
        self.zones: Integers = np.array([places.get(m.zone, 0) for m in scaled.masters], np.int64)
        share = targets.zone_share or 1
        zone_cap = _limits([[int(share * sum(load)) for load in scaled.loads]], shifts)
        self.zone_caps: Floats = np.tile(zone_cap, (len(self.zone_names), 1))
        self.zone_limits: Floats = self.zone_caps / self.mean

    def changed(self, **arrays: Any) -> Arrays:
        """Return the same problem with other *arrays* for programs."""
        other = copy(self)
        vars(other).update(arrays)
        return other

    def pinned(self, slots: Integers, at: Integers) -> Arrays:
        """Return the same problem with *slots* fixed on the masters *at*."""
        owner, fixed, must = self.owner.copy(), self.fixed.copy(), self.must.copy()
        owner[slots], fixed[slots], must[slots] = at, True, False
        return self.changed(owner=owner, fixed=fixed, must=must)

    def parts_of_limits(self) -> Floats:
        """Return each slot's largest share of the largest limit, over all resources."""
        most = self.limits[self.takers].max(0)
        parts: Floats = (self.loads / np.where(most > 0, most, np.inf)).max(1)
        return parts

    def held(self, at: Integers, loads: Floats) -> Floats:
        """Return the sums [master, resource] of *loads* [slot, resource] with slots on the masters *at*."""
        size = len(self.scaled.masters)
        return np.stack([np.bincount(at, loads[:, r], size) for r in range(loads.shape[1])], axis=1)

    def room(self, held: Floats) -> Floats:
        """Return the limits less *held* [master, resource] of takers, then of zones, in one row."""
        zones = [self.zone_limits[z] - held[self.zones == z].sum(0) for z in range(len(self.zone_names))]
        return np.concatenate([(self.limits - held)[self.takers].ravel(), *zones])

    def excess(self, at: Integers) -> float:
        """Return the load above limits with slots on *at*, in mean slots."""
        over = np.maximum(self.held(at, self.raw) - self.caps, 0.0)[self.takes] / self.mean
        return float(over.sum())


def _shift(load: Sequence[int]) -> int:
    return max(0, max(load).bit_length() - FLOAT_BITS)


def _floats(load: Sequence[int]) -> Floats:
    shift = _shift(load)
    return np.array([float(value >> shift) for value in load])


def _shifted(row: Sequence[float], shifts: Sequence[int]) -> list[float]:
    return [float(int(most) >> shift) if most < np.inf else np.inf for most, shift in zip(row, shifts, strict=True)]


def _limits(limits: Sequence[Sequence[int]], shifts: Sequence[int]) -> Floats:
    rows = np.array([_shifted(row, shifts) for row in limits])
    return np.where(rows < EXACT, rows, rows * (1 - CLOSE))
