"""Rebalancing plans: how far above the proven bound, how long, and what others make of the same clusters."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.fake_cluster import simulate_rebalance
from benchmarks.measure import RunError
from benchmarks.options import Options
from benchmarks.rebalance_cases import RANK_CORRELATION, SLOTS, hot_tag_loads, ordinary_loads, zipf_loads
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.rebalance.check import check_plan
from cluster_core.rebalance.goal.problem import Master, Problem
from cluster_core.rebalance.plan import Plan
from cluster_core.rebalance.planner import make_plan

NAME = "rebalance"
SEEDS = (1, 2, 3)
SECONDS = ((6, 7.5), (100, 12.0), (SLOTS, 30.0))
"""Time that a plan may take up to so many masters, with its search for few ranges."""


@dataclass(frozen=True, slots=True)
class Case:
    """One load model and its promises: at most *gap* per cent above the bound, in *seconds*."""

    title: str
    masters: int
    zipf: float
    new: float
    tolerance: float
    gap: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RangeCase:
    """Loads and owners, and how many slot ranges there may be for *budget* more bytes than proven."""

    title: str
    loads: str
    """``ordinary`` or the Zipf exponent of `zipf_problem`."""
    before: tuple[float, ...]
    """What each master held before, as parts of all slots; 0 for one that is new."""
    budget: float
    ranges: int
    weights: tuple[int, ...] = ()
    drained: int = 0
    tolerance: float = 0.02


RANGE_CASES = (
    RangeCase("ordinary loads, 3 masters become 6", "ordinary", (1,) * 3 + (0,) * 3, 0.05, 12),
    RangeCase(
        "ordinary loads, 6 masters of 2.2 to 0.5 times the mean",
        "ordinary",
        (2.2, 1.86, 1.52, 1.18, 0.84, 0.5),
        0.05,
        45,
    ),
    RangeCase("ordinary loads, 80 masters become 100", "ordinary", (1,) * 80 + (0,) * 20, 0.05, 420),
    RangeCase("6 masters, scale-out", "1.0", (1,) * 3 + (0,) * 3, 0.006, 120),
    RangeCase("6 masters, scale-out", "1.0", (1,) * 3 + (0,) * 3, 0.02, 60),
    RangeCase("6 masters, skew", "1.0", (1,) * 6, 0.01, 400),
    RangeCase("6 masters, skew", "1.0", (1,) * 6, 0.05, 320),
    RangeCase("100 masters, scale-out", "0.5", (1,) * 80 + (0,) * 20, 0.05, 700, tolerance=0.05),
    RangeCase("100 masters, skew", "0.5", (1,) * 100, 0.05, 754, tolerance=0.05),
    RangeCase("1000 masters, scale-out", "0.3", (1,) * 800 + (0,) * 200, 0.05, 4500, tolerance=0.05),
    RangeCase("7 masters of weights 1, 2, 4", "1.0", (1,) * 7, 0.05, 300, weights=(1, 2, 4, 1, 2, 4, 1)),
    RangeCase("3 new masters beside 9", "0.5", (1,) * 9 + (0,) * 3, 0.05, 60),
    RangeCase("2 of 12 masters drained, skew", "1.0", (1,) * 12, 0.05, 200, drained=2),
)
"""With few masters, limits of two or three resources and loads of all sizes: what an operator's cluster looks like."""

CASES = (
    Case("6 masters, scale-out", 6, 1.0, 0.5, 0.02, 0.1, 5),
    Case("6 masters, skew", 6, 1.0, 0.0, 0.02, 1, 5),
    Case("100 masters, scale-out", 100, 0.5, 0.2, 0.05, 0.5, 8),
    Case("100 masters, skew", 100, 0.5, 0.0, 0.05, 1, 8),
    Case("1000 masters, scale-out", 1000, 0.3, 0.2, 0.05, 1, 20),
    Case("1000 masters, skew", 1000, 0.3, 0.0, 0.05, 12, 20),
)


def run(options: Options | None = None) -> Result:
    """Plan for every case, and check every plan in exact arithmetic."""
    quick = options is not None and options.quick
    result = Result(
        NAME,
        "Rebalancing plans",
        f"{SLOTS:,} slots, bytes, keys and operations Zipf-distributed with ranks that correlate ({RANK_CORRELATION}), equal "
        "contiguous ranges before; scale-out: half or a fifth of the masters are empty. `core s` is processor time, which other work on the machine does not stretch. The gap is that of the moved bytes "
        "to the proven bound; every plan was checked in exact arithmetic. redis-cli is the real program in front of a cluster that only "
        "answers what it asks (`benchmarks/fake_cluster.py`); it sees slot counts, and takes the lowest slots of each source.",
        tables=[],
    )
    make_plan(replace(zipf_problem(CASES[0], 1)))  # compiles
    rows: list[dict[str, Cell]] = []
    for case in CASES[:2] if quick else CASES:
        gaps, times = [], []
        for seed in SEEDS[:1] if quick else SEEDS:
            problem = replace(zipf_problem(case, seed), bytes_budget=0)
            row, seconds, gap = _row(case.title, seed, problem)
            rows += [row, _greedy_row(case.title, seed, problem), *_redis_cli_rows(case.title, seed, problem, result)]
            gaps.append(gap)
            times.append(seconds)
        at = f"{case.title}, tolerance {case.tolerance:.0%}"
        result.bars.append(Bar(f"{at}: moved bytes above the bound (worst of {len(gaps)})", case.gap, max(gaps), "%"))
        result.bars.append(Bar(f"{at}: time on one core (worst of {len(times)})", case.seconds, max(times), "s"))
    result.tables.append(Table("Skew and scale-out", rows))
    _ranges(result, quick)
    _special(result, quick)
    _mixed(result, quick)
    version = "" if sys.version_info >= (3, 12) else f", this is {sys.version_info.major}.{sys.version_info.minor}"
    result.skipped.append(f"PyPI rebalancer: needs Python 3.12{version}")
    return result


def zipf_problem(case: Case, seed: int) -> Problem:
    """Three resources with weights rank**-zipf in correlated random order; the last masters are empty."""
    chance = np.random.default_rng(seed)
    loads = zipf_loads(case.zipf, chance)
    old = round(case.masters * (1 - case.new))
    return _problem(loads, [slot * old // SLOTS for slot in range(SLOTS)], case.masters, tolerance=case.tolerance)


def hot_tags(masters: int, tags: int, seed: int) -> Problem:
    """Three resources of even loads, and *tags* slots that weigh a tenth to six tenths of a master's share more, in each resource on its own."""
    loads = hot_tag_loads(masters, tags, np.random.default_rng(seed))
    return _problem(loads, [slot * masters // SLOTS for slot in range(SLOTS)], masters, tolerance=0.02)


def range_problem(case: RangeCase, seed: int) -> Problem:
    """The problem of a case of `RANGE_CASES`."""
    chance = np.random.default_rng(seed)
    loads = ordinary_loads(chance) if case.loads == "ordinary" else zipf_loads(float(case.loads), chance)
    ends = np.cumsum(case.before) / sum(case.before)
    owner = np.searchsorted(ends, (np.arange(SLOTS) + 0.5) / SLOTS).tolist()
    problem = _problem(loads, owner, len(case.before), drained=case.drained, tolerance=case.tolerance)
    weights = case.weights or (1,) * len(case.before)
    masters = [replace(master, weight=weight) for master, weight in zip(problem.masters, weights, strict=True)]
    return replace(problem, masters=masters, bytes_budget=case.budget)


def _ranges(result: Result, quick: bool) -> None:
    """Fewest slot ranges within a budget of bytes."""
    rows: list[dict[str, Cell]] = []
    for case in RANGE_CASES[:1] if quick else RANGE_CASES:
        counts = []
        for seed in SEEDS[:1] if quick else SEEDS:
            row, seconds, _ = _row(case.title, seed, range_problem(case, seed))
            rows.append({**row, "budget, %": case.budget * 100})
            counts.append((int(row["ranges"] or 0), seconds))
        at = f"{case.title}, {case.budget:.1%} more bytes"
        result.bars.append(Bar(f"{at}: slot ranges (worst of {len(counts)})", case.ranges, max(counts)[0], ""))
        result.bars.append(
            Bar(
                f"{at}: time on one core",
                next(s for n, s in SECONDS if len(case.before) <= n),
                max(s for _, s in counts),
                "s",
            )
        )
    result.tables.append(Table("Slot ranges", rows))


def _problem(
    loads: dict[str, list[int]], owner: list[int], masters: int, *, drained: int = 0, tolerance: float
) -> Problem:
    names = [f"{number:040x}" for number in range(masters)]
    nodes = [Master(name, drained=number < drained) for number, name in enumerate(names)]
    return Problem(loads, [names[number] for number in owner], nodes, tolerance=tolerance, bytes_budget=0)


def _row(title: str, seed: int, problem: Problem) -> tuple[dict[str, Cell], float, float]:
    start, used = time.perf_counter(), time.process_time()
    plan = make_plan(problem)
    wall, seconds = time.perf_counter() - start, time.process_time() - used
    wrong = check_plan(problem, plan)
    if wrong:
        raise RuntimeError(f"{title}: {wrong[0]}")
    gap = float(plan.gap or 0) * 100
    return _cells(title, seed, "slotscope", problem, plan, gap, seconds, wall), seconds, gap


def _cells(
    title: str, seed: int, way: str, problem: Problem, plan: Plan, gap: float, seconds: float, wall: float
) -> dict[str, Cell]:
    total = sum(int(load) for load in problem.loads["serialized_bytes"])
    return {
        "case": title,
        "seed": seed,
        "way": way,
        "bound, % of bytes": plan.bound / total * 100,
        "moved, % of bytes": plan.moved / total * 100,
        "gap, %": gap,
        "slots": len(plan.moves),
        "ranges": plan.ranges_after,
        "max/mean": max(float(reach.after) for reach in plan.reach),
        "verdict": plan.verdict,
        "core s": seconds,
        "s": wall,
    }


def _greedy_row(title: str, seed: int, problem: Problem) -> dict[str, Cell]:
    """One pass, hottest master to coldest, heaviest slot that fits: what general balancers do."""
    start = time.perf_counter()
    loads = np.array([problem.loads[name] for name in problem.loads], float).T
    index = {master.id: number for number, master in enumerate(problem.masters)}
    owner = np.array([index[name] for name in problem.owners])
    at, mean = owner.copy(), loads.sum(0) / len(index)
    cap = mean * (1 + float(problem.tolerance))  # type: ignore[arg-type]
    held = np.zeros((len(index), loads.shape[1]))
    np.add.at(held, owner, loads)
    for node in np.argsort(-(held / mean).max(1), kind="stable"):
        for slot in sorted(np.flatnonzero(owner == node), key=lambda s: -(loads[s] / mean).max()):
            if (held[node] <= cap).all():
                break
            full = ((held + loads[slot]) / cap).max(1)
            target = int(full.argmin())
            if full[target] <= 1:
                at[slot] = target
                held[node] -= loads[slot]
                held[target] += loads[slot]
    return _peer_cells(title, seed, "one-pass greedy", problem, owner, at, time.perf_counter() - start)


def _redis_cli_rows(title: str, seed: int, problem: Problem, result: Result) -> list[dict[str, Cell]]:
    """What the real redis-cli would make of the cluster; no row, and a word why, where it cannot be asked."""
    path = shutil.which("redis-cli")
    index = {master.id: number for number, master in enumerate(problem.masters)}
    owner = [index[name] for name in problem.owners]
    start = time.perf_counter()
    try:
        if path is None:
            raise RunError("redis-cli --cluster rebalance: not installed")
        drained = [number for number, master in enumerate(problem.masters) if master.drained]
        at = simulate_rebalance(path, owner, len(index), drained)
    except (RunError, OSError) as error:
        if str(error) not in result.skipped:
            result.skipped.append(str(error))
        return []
    seconds = time.perf_counter() - start
    return [_peer_cells(title, seed, "redis-cli", problem, np.array(owner), np.array(at), seconds)]


def _peer_cells(
    title: str, seed: int, way: str, problem: Problem, owner: NDArray[np.int64], at: NDArray[np.int64], seconds: float
) -> dict[str, Cell]:
    loads = np.array([problem.loads[name] for name in problem.loads], float).T
    takers = [not master.drained for master in problem.masters]
    mean = loads.sum(0) / sum(takers)
    held = np.zeros((len(takers), loads.shape[1]))
    np.add.at(held, at, loads)
    within = (held[takers] <= mean * (1 + float(problem.tolerance))).all()  # type: ignore[arg-type]
    return {
        "case": title,
        "seed": seed,
        "way": way,
        "bound, % of bytes": None,
        "moved, % of bytes": loads[at != owner, 0].sum() / loads[:, 0].sum() * 100,
        "gap, %": None,
        "slots": int((at != owner).sum()),
        "ranges": int((np.diff(at) != 0).sum() + 1),
        "max/mean": float((held / mean).max()),
        "verdict": "within limits" if within else "over limits",
        "core s": None,
        "s": seconds,
    }


def _special(result: Result, quick: bool) -> None:
    """All slots on one of 201 masters (redis 4941), balanced clusters, drained masters."""
    rows: list[dict[str, Cell]] = []
    even = {"serialized_bytes": [100] * SLOTS}
    cases = [("redis 4941: all slots on one of 201 masters", [0] * SLOTS, 201, 0)]
    for masters in () if quick else (400, 1000):
        cases.append((f"{masters} balanced masters", [s * masters // SLOTS for s in range(SLOTS)], masters, 0))
    cases.append(("2 of 12 masters drained", [s * 12 // SLOTS for s in range(SLOTS)], 12, 2))
    for title, owner, masters, drained in cases:
        problem = _problem(even, owner, masters, drained=drained, tolerance=0.02)
        row, seconds, gap = _row(title, 0, problem)
        rows += [row, *_redis_cli_rows(title, 0, problem, result)]
        balanced = "balanced" in title
        limit = "slots moved" if balanced else "moved above the bound"
        measured = float(row["slots"] or 0) if balanced else gap
        result.bars.append(Bar(f"{title}: {limit}", 0, measured, "" if balanced else "%"))
        result.bars.append(Bar(f"{title}: time on one core", 5, seconds, "s"))
    result.tables.append(Table("Even slots", rows))


def _mixed(result: Result, quick: bool) -> None:
    """Masters that are drained, zones, and many masters whose heavy slots are hard to fit, or above a limit."""
    rows: list[dict[str, Cell]] = []
    drained = zipf_problem(Case("", 12, 1.0, 0.0, 0.02, 5, 10), 1)
    drained = replace(drained, masters=[replace(m, drained=n < 2) for n, m in enumerate(drained.masters)])
    zoned = zipf_problem(Case("", 9, 1.0, 0.0, 0.02, 5, 10), 1)
    zoned = replace(
        zoned, masters=[replace(m, zone="abc"[n % 3]) for n, m in enumerate(zoned.masters)], zone_share_max=0.34
    )
    heavy = zipf_problem(Case("", 30, 1.0, 0.0, 0.02, 5, 10), 1)
    heavy = replace(heavy, loads={name: heavy.loads[name] for name in ("serialized_bytes", "keys")})
    cases = [("12 masters, 2 drained, skew", 1, drained), ("9 masters in 3 zones of 34 %, skew", 1, zoned)]
    cases += [("30 masters, 60 hot tags", seed, hot_tags(30, 60, seed)) for seed in SEEDS]
    skewed = [zipf_problem(Case("", 20, 0.8, 0.0, 0.02, 5, 10), seed) for seed in SEEDS]
    cases += [("20 masters, skew, three resources", seed, problem) for seed, problem in zip(SEEDS, skewed, strict=True)]
    cases.append(("30 masters, four slots above a limit", 1, heavy))
    gaps: dict[str, list[tuple[float, float]]] = {}
    for title, seed, problem in [] if quick else cases:
        row, seconds, gap = _row(title, seed, problem)
        rows.append(row)
        gaps.setdefault(title, []).append((gap, seconds))
    for title, measured in gaps.items():
        at = title if len(measured) == 1 else f"{title} (worst of {len(measured)})"
        result.bars.append(Bar(f"{at}: moved bytes above the bound", 5, max(gap for gap, _ in measured), "%"))
        result.bars.append(Bar(f"{at}: time on one core", 10, max(seconds for _, seconds in measured), "s"))
    result.tables.append(Table("Drained masters, zones, and heavy slots that are hard to fit", rows))
