"""Clusters to plan for: loads of several shapes, owners, weights, drained masters and zones, each made from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cluster_core.rebalance.goal.problem import Master, Problem

SLOTS = 16384
MEANS = {"serialized_bytes": 1_000_000, "keys": 2_000, "ops": 50_000}
RANK_CORRELATION = 0.8
SKEW = (2.2, 1.86, 1.52, 1.18, 0.84, 0.5)

Loads = dict[str, list[int]]


def ordinary_loads(chance: np.random.Generator) -> Loads:
    """Keys a slot Pareto(1.6) × 5 and at most 400, sizes of keys lognormal(5, 1.1)."""
    keys = np.minimum(400, (chance.pareto(1.6, SLOTS) + 1) * 5).astype(np.int64)
    sizes = chance.lognormal(5, 1.1, int(keys.sum())).astype(np.int64)
    held = np.bincount(np.repeat(np.arange(SLOTS), keys), sizes, SLOTS).astype(np.int64)
    return {"serialized_bytes": held.tolist(), "keys": keys.tolist()}


def zipf_loads(zipf: float, chance: np.random.Generator) -> Loads:
    """Loads of three resources, weights rank**-zipf in correlated random order."""
    latent = chance.normal(size=SLOTS)
    loads = {}
    for name, mean in MEANS.items():
        own = np.sqrt(1 - RANK_CORRELATION**2) * chance.normal(size=SLOTS)
        noise = latent if name == "serialized_bytes" else RANK_CORRELATION * latent + own
        rank = np.empty(SLOTS, np.int64)
        rank[np.argsort(-noise)] = np.arange(SLOTS)
        weight = (rank + 1.0) ** -zipf
        loads[name] = np.maximum(1, np.rint(weight / weight.mean() * mean)).astype(np.int64).tolist()
    return loads


def hot_tag_loads(masters: int, tags: int, chance: np.random.Generator) -> Loads:
    """Even loads of three resources, and *tags* slots that weigh 0.1 to 0.6 of a master's share more, in each resource on its own."""
    hot = chance.choice(SLOTS, tags, replace=False)
    loads = {}
    for name, mean in MEANS.items():
        row = chance.uniform(0.5, 1.5, SLOTS) * mean
        row[hot] += row.sum() / masters * chance.uniform(0.1, 0.6, tags)
        loads[name] = np.maximum(1, np.rint(row)).astype(np.int64).tolist()
    return loads


def hot_operations(chance: np.random.Generator) -> Loads:
    """Ordinary loads with operations of which a few slots have many (lognormal(8, 1.5))."""
    return {**ordinary_loads(chance), "ops": np.maximum(1, chance.lognormal(8, 1.5, SLOTS)).astype(np.int64).tolist()}


def in_runs(parts: Sequence[float]) -> NDArray[np.int64]:
    """Return owners whose runs of slots are *parts* of all; 0 for an empty master."""
    ends = np.cumsum(parts) / sum(parts)
    return np.searchsorted(ends, (np.arange(SLOTS) + 0.5) / SLOTS).astype(np.int64)


def balanced_runs(load: Sequence[int], masters: int) -> NDArray[np.int64]:
    """Return owners in as many runs as masters, all of about the same *load*."""
    sums = np.cumsum(load)
    return np.minimum((sums - 1) * masters // sums[-1], masters - 1).astype(np.int64)


def problem(
    loads: Mapping[str, Sequence[float]], owner: Sequence[int] | NDArray[np.int64], masters: int, *,
    tolerance: float = 0.02, drained: int = 0, zones: str = "", weights: Sequence[float] = (),
) -> Problem:  # fmt: skip
    """Return the problem of moving slots of *loads* from masters by index; the first *drained* ones are to end empty."""
    names = [f"{number:040x}" for number in range(masters)]
    nodes = [
        Master(
            name,
            weight=weights[n] if weights else 1,
            drained=n < drained,
            zone=zones[n % len(zones)] if zones else "",
        )
        for n, name in enumerate(names)
    ]
    return Problem(loads, [names[int(n)] for n in owner], nodes, tolerance=tolerance, bytes_budget=0.05)


def drifted(seed: int) -> Problem:
    """Six balanced masters after weeks: every slot by up to 30 %, every master by up to 15 %."""
    chance = np.random.default_rng(seed)
    loads = ordinary_loads(chance)
    owner = balanced_runs(loads["serialized_bytes"], 6)
    by_slot, by_master = chance.uniform(0.7, 1.3, SLOTS), chance.uniform(0.85, 1.15, 6)
    factor = by_slot * by_master[owner]
    grown = {
        name: np.maximum(1, np.rint(np.array(load) * factor)).astype(np.int64).tolist() for name, load in loads.items()
    }
    return problem(grown, owner, 6)


def shredded(seed: int) -> Problem:
    """Six masters that share the slots in runs of 100, of 2.2 to 0.5 times the mean."""
    chance = np.random.default_rng(seed)
    loads = ordinary_loads(chance)
    runs = chance.choice(6, -(-SLOTS // 100), p=np.array(SKEW) / sum(SKEW))
    return problem(loads, np.repeat(runs, 100)[:SLOTS], 6)


def _ordinary(parts: Sequence[float], *, drained: int = 0) -> Callable[[int], Problem]:
    return lambda seed: problem(
        ordinary_loads(np.random.default_rng(seed)), in_runs(parts), len(parts), drained=drained
    )


def _zipf(
    zipf: float, parts: Sequence[float], *, tolerance: float = 0.02, drained: int = 0, weights: Sequence[float] = ()
) -> Callable[[int], Problem]:
    return lambda seed: problem(
        zipf_loads(zipf, np.random.default_rng(seed)), in_runs(parts), len(parts), tolerance=tolerance, drained=drained,
        weights=weights,
    )  # fmt: skip


def _ordinary_zones(seed: int) -> Problem:
    loads = ordinary_loads(np.random.default_rng(seed))
    zoned = problem(loads, in_runs((*SKEW, 1, 1, 1)), 9, zones="abc")
    return replace(zoned, zone_share_max=0.34)


def _zipf_zones(seed: int) -> Problem:
    zoned = problem(zipf_loads(1.0, np.random.default_rng(seed)), in_runs((1,) * 9), 9, zones="abc")
    return replace(zoned, zone_share_max=0.34)


def _hot_operations(seed: int) -> Problem:
    return problem(hot_operations(np.random.default_rng(seed)), in_runs((1,) * 12), 12)


def _hot_tags(seed: int) -> Problem:
    return problem(hot_tag_loads(30, 60, np.random.default_rng(seed)), in_runs((1,) * 30), 30)


ORDINARY: Mapping[str, Callable[[int], Problem]] = {
    "3 masters become 6": _ordinary((1,) * 3 + (0,) * 3),
    "6 skewed": _ordinary(SKEW),
    "80 masters become 100": _ordinary((1,) * 80 + (0,) * 20),
    "drift on 6": drifted,
    "2 of 12 drained": _ordinary((1,) * 12, drained=2),
    "shredded 6": shredded,
    "3 zones": _ordinary_zones,
    "12 masters, hot operations": _hot_operations,
    "Zipf 1.0, 3 masters become 6": _zipf(1.0, (1,) * 3 + (0,) * 3),
    "Zipf 1.0, weights 1, 2, 4": _zipf(1.0, (1,) * 7, weights=(1, 2, 4, 1, 2, 4, 1)),
    "Zipf 0.5, 3 new beside 9": _zipf(0.5, (1,) * 9 + (0,) * 3),
    "Zipf 1.0, 6 masters": _zipf(1.0, (1,) * 6),
}
"""Loads that an operator is likely to have, and mild extremes."""
EXTREME: Mapping[str, Callable[[int], Problem]] = {
    "Zipf 0.5, 80 masters become 100": _zipf(0.5, (1,) * 80 + (0,) * 20, tolerance=0.05),
    "Zipf 0.5, 100 masters": _zipf(0.5, (1,) * 100, tolerance=0.05),
    "Zipf 0.8, 20 masters": _zipf(0.8, (1,) * 20),
    "Zipf 1.0, 2 of 12 drained": _zipf(1.0, (1,) * 12, drained=2),
    "Zipf 1.0, 3 zones": _zipf_zones,
    "60 hot tags on 30": _hot_tags,
}
"""Some dozens of slots that weigh a good part of a master's share each."""
