"""Plans against those of the planner before this one: bytes, slot ranges and bounds, and limits by sums of our own.

The table has by case and seed the bytes that moved, the bound, the slot ranges and the seconds of one core.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.rebalance_cases import EXTREME, ORDINARY, SLOTS, balanced_runs, in_runs, ordinary_loads, problem
from cluster_core.rebalance import Plan, Problem, check_plan, make_plan
from cluster_core.rebalance.plan import PlanVerdict

TABLE = json.loads((Path(__file__).with_name("bars.json")).read_text())
BYTES = {
    "Zipf 1.0, 6 masters": 1.05,
    "Zipf 0.5, 80 masters become 100": 1.03,
    "Zipf 0.5, 100 masters": 1.15,
    "Zipf 0.8, 20 masters": 1.4,
    "Zipf 1.0, 2 of 12 drained": 1.4,
    "Zipf 1.0, 3 zones": 1.4,
    "60 hot tags on 30": 1.7,
}
"""So many times the bytes may move where some dozens of slots are large."""
BOUNDS = {"Zipf 1.0, 6 masters": 0.94}
"""Where a master must give away parts of large slots, prices prove less than the cases of the former planner: they divide slots."""
RANGES = {"Zipf 1.0, 6 masters": 1.45}
"""There the budget of 5 % above a lower bound is fewer bytes, which take more ranges."""


def keeps_limits(asked: Problem, plan: Plan) -> bool:
    """Whether the heaviest master of each resource is within its limit, by sums of our own."""
    index = {master.id: n for n, master in enumerate(asked.masters)}
    at = np.array([index[name] for name in plan.owners_after])
    weights = np.array([0.0 if m.drained else float(m.weight) for m in asked.masters])
    for reach, load in zip(plan.reach, asked.loads.values(), strict=True):
        held = np.bincount(at, load, len(index))
        if (held > float(reach.limit) * sum(load) * weights / weights.sum() + 1).any():
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("case", [*ORDINARY, *EXTREME])
def test_plans_lose_little_against_the_table(case: str, seed: int) -> None:
    """Bytes; for ordinary loads also limits, the bound and ranges. Large slots are dozens that are a good part of a master each."""
    asked = {**ORDINARY, **EXTREME}[case](seed)
    plan = make_plan(asked)
    moved, bound, ranges, _ = TABLE[case][str(seed)]

    assert check_plan(asked, plan) == []
    assert (plan.verdict is PlanVerdict.MOVE) == keeps_limits(asked, plan)
    assert plan.moved <= BYTES.get(case, 1.03) * moved
    if case in ORDINARY:
        assert plan.verdict is PlanVerdict.MOVE
        assert plan.bound >= BOUNDS.get(case, 0.985) * bound
        assert plan.ranges_after <= RANGES.get(case, 1.15) * ranges + 2


@pytest.mark.slow
def test_large_slots_that_barely_fit_are_placed_within_limits() -> None:
    """Walks from slots placed one after another left one master 0.4 % above its limit."""
    asked = EXTREME["Zipf 1.0, 2 of 12 drained"](22)
    plan = make_plan(asked)

    assert plan.verdict is PlanVerdict.MOVE
    assert keeps_limits(asked, plan)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [(0.4, 0.7), (0.8,), (0.4, 0.7, 0.8)])
def test_smaller_capacities_of_some_masters_leave_few_ranges(parts: tuple[float, ...]) -> None:
    """A master that may hold 0.4 of a share of bytes owes no whole share of keys."""
    loads = ordinary_loads(np.random.default_rng(5))
    asked = problem(loads, in_runs((1,) * 6), 6)
    room = [int(sum(loads["serialized_bytes"]) / 6 * part) for part in parts]
    masters = [
        replace(master, capacity={"serialized_bytes": room[n]} if n < len(room) else {})
        for n, master in enumerate(asked.masters)
    ]
    asked = replace(asked, masters=masters, bytes_budget=None)
    plan = make_plan(asked)

    assert plan.verdict is PlanVerdict.MOVE
    assert plan.ranges_after <= 3 * 6
    assert check_plan(asked, plan) == []


@pytest.mark.slow
def test_weeks_of_drift_never_shred_a_cluster() -> None:
    """Every week each slot grows or shrinks by up to 10 %, each master by up to 3 %, and a plan is carried out."""
    chance = np.random.default_rng(4)
    loads = {name: np.array(load, float) for name, load in ordinary_loads(chance).items()}
    owner = balanced_runs(loads["serialized_bytes"].astype(int).tolist(), 6)
    ranges = []
    for _ in range(5):
        factor = chance.uniform(0.9, 1.1, SLOTS) * chance.uniform(0.97, 1.03, 6)[owner]
        loads = {name: load * factor for name, load in loads.items()}
        whole = {name: np.rint(load).astype(int).tolist() for name, load in loads.items()}
        plan = make_plan(replace(problem(whole, owner, 6), headroom=0.25, bytes_budget=None))
        owner = np.array([int(name, 16) for name in plan.owners_after])
        ranges.append(plan.ranges_after)

    assert max(ranges) <= 2 * 6
