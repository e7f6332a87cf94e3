"""Loads that are known and were not balanced: where a plan leaves their heaviest masters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cluster_core.rebalance.goal.problem import Number, Problem, Scaled, validate
from cluster_core.rebalance.goal.targets import Targets, find_targets
from cluster_core.rebalance.outcome import reach_of
from cluster_core.rebalance.plan import WorstLoad


@dataclass(frozen=True, slots=True)
class Watched:
    """The loads in whole units, what every master might hold of them, and the heaviest master before and after."""

    scaled: Scaled
    targets: Targets
    reach: tuple[WorstLoad, ...]


def watch(
    problem: Problem,
    loads: Mapping[str, Sequence[Number]],
    tolerance: Mapping[str, Number],
    owners_after: Sequence[str],
) -> Watched | None:
    """Return what moving from the owners of *problem* to *owners_after* does to *loads*, one number a slot; None for no loads.

    Shares, floors and limits are those that they would have if they were balanced.
    """
    if not loads:
        return None
    masters = [replace(master, capacity={}) for master in problem.masters]
    like: dict[str, Any] = {"loads": loads, "masters": masters, "cost": next(iter(loads)), "tolerance": tolerance}
    scaled = validate(replace(problem, **like, zone_share_max=None, gain_min=0, soft=()))
    targets = find_targets(scaled)
    return Watched(scaled, targets, reach_of(scaled, targets, scaled.places(owners_after)))
