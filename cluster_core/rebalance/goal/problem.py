"""A rebalancing request: slots with loads, masters and limits, validated once.

Loads are whole numbers or floats, one per slot. Each resource is scaled to whole units, so sums, shares and limits are
exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

from cluster_core.errors import PlanError

Number = int | float | Fraction

MASTERS_MAX = 16384
RESOURCES_MAX = 16
BYTES_BUDGET = 0.05
"""Bytes that a plan may move above the bound for fewer slot ranges, as a share of the bound."""
DATA_BUDGET = 0.01
"""The same as a share of all data, if the share of the bound leaves more than `RANGES_A_MASTER`."""
RANGES_A_MASTER = 2
BYTES = "serialized_bytes"
"""Resource of loads given as one array."""


@dataclass(frozen=True, slots=True)
class Master:
    """One master: *weight* sets its share, *capacity* has hard limits by resource, *drained* empties it.

    An *excluded* master keeps its slots and gets none; fair shares ignore its load and weight.
    """

    id: str
    weight: Number = 1
    zone: str = ""
    capacity: Mapping[str, Number] = field(default_factory=dict)
    drained: bool = False
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A request: *loads* by resource, one number per slot; *owners*, one master id per slot.

    *cost* is the resource to move little of. *tolerance* is one number or one per resource, *headroom* the part of it left
    free. *soft* names resources that may miss their limits, the most important first. *bytes_budget*: share of the bound
    that may move above it for fewer slot ranges; *data_budget*: the same of all data, if many ranges would remain (None:
    `DATA_BUDGET` unless *bytes_budget* is given). A moved slot weighs *slot_cost* ranges. *gain_min*: minimum gain of the
    worst load in fair shares. *zone_share_max*: maximum share of a resource per zone. *seed* selects the search's course.
    """

    loads: Mapping[str, Sequence[Number]]
    owners: Sequence[str]
    masters: Sequence[Master]
    cost: str = "serialized_bytes"
    tolerance: Number | Mapping[str, Number] = 0.02
    pinned: Sequence[int] = ()
    headroom: Number = 0
    bytes_budget: Number | None = None
    slot_cost: Number = 0
    gain_min: Number = 0
    zone_share_max: Number | None = None
    seed: int = 20240601
    soft: Sequence[str] = ()
    data_budget: Number | None = None

    def __post_init__(self) -> None:
        """Convert arrays to lists of Python numbers, and one sequence of loads to those of `BYTES`."""
        loads = self.loads if isinstance(self.loads, Mapping) else {BYTES: self.loads}
        object.__setattr__(self, "loads", {name: _plain(load) for name, load in loads.items()})


def _plain(load: Any) -> Sequence[Number]:
    return cast("Sequence[Number]", load.tolist() if hasattr(load, "tolist") else load)


@dataclass(frozen=True, slots=True, eq=False)
class ScaledProblem:
    """A valid problem in whole units: *loads[r][s]*; one unit of resource r is 1/*units[r]* of the input's; equal to itself only.

    *capacity* [n][r] is hard, infinite for none.
    """

    problem: Problem
    resources: tuple[str, ...]
    cost: int
    units: tuple[int, ...]
    loads: tuple[tuple[int, ...], ...]
    owner: tuple[int, ...]
    weights: tuple[Fraction, ...]
    capacity: tuple[tuple[float, ...], ...]
    tolerance: tuple[Fraction, ...]
    fixed: frozenset[int]

    @property
    def masters(self) -> Sequence[Master]:
        """Return the masters by index."""
        return self.problem.masters

    @property
    def budgets(self) -> tuple[Fraction, Fraction]:
        """Return the budgets above the bound: as share of it, and as share of all data if many ranges would remain."""
        of_bound, of_data = self.problem.bytes_budget, self.problem.data_budget
        if of_data is None:
            of_data = DATA_BUDGET if of_bound is None else 0
        return exact(BYTES_BUDGET if of_bound is None else of_bound, "bytes_budget"), exact(of_data, "data_budget")

    def places(self, ids: Sequence[str]) -> tuple[int, ...]:
        """Return the indices of the masters *ids*; KeyError for an unknown one."""
        index = {master.id: n for n, master in enumerate(self.masters)}
        return tuple(index[id_] for id_ in ids)

    def takers(self) -> list[int]:
        """Return the masters that may take slots: neither drained nor excluded."""
        return [n for n, m in enumerate(self.masters) if not m.drained and not m.excluded]

    def shared(self) -> list[int]:
        """Return the slots that count for fair shares: those of masters that are not excluded."""
        excluded = {n for n, master in enumerate(self.masters) if master.excluded}
        return [s for s, n in enumerate(self.owner) if n not in excluded]

    def totals(self, owner: Sequence[int]) -> list[list[int]]:
        """Return the load of every master and resource, ``[n][r]``, for *owner*."""
        columns = []
        for load in self.loads:
            held = [0] * len(self.masters)
            for n, weight in zip(owner, load, strict=True):
                held[n] += weight
            columns.append(held)
        return [list(row) for row in zip(*columns, strict=True)]


def without_goals(problem: Problem, names: Collection[str]) -> Problem:
    """Return *problem* without limits for the soft goals *names*."""
    own = problem.tolerance
    given = own if isinstance(own, Mapping) else dict.fromkeys(problem.loads, own)
    kept = tuple(name for name in problem.soft if name not in names)
    return replace(problem, soft=kept, tolerance={n: MASTERS_MAX if n in names else t for n, t in given.items()})


def exact(value: Number, name: str) -> Fraction:
    """Return *value* as a fraction, a float as its shortest decimal; PlanError for NaN, infinite or negative ones."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise PlanError(f"{name} must be a number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise PlanError(f"{name} must be finite, not {value}")
        value = Fraction(repr(value))
    if value < 0:
        raise PlanError(f"{name} must not be negative: {value}")
    return Fraction(value)


def validate(problem: Problem) -> ScaledProblem:
    """Return *problem* in whole units; PlanError names a faulty slot, node or resource.

    Faults: missing, negative, NaN or infinite loads, unknown owners, duplicate masters, no taker, too little capacity.
    """
    index = _masters(problem)
    resources = tuple(problem.loads)
    if not resources or len(resources) > RESOURCES_MAX:
        raise PlanError(f"a plan balances 1 to {RESOURCES_MAX} resources, not {len(resources)}")
    if problem.cost not in resources:
        raise PlanError(f"the cost of moves is measured in {problem.cost}, but no loads of it are given")
    if exact(problem.headroom, "headroom") > 1:
        raise PlanError(f"headroom is {problem.headroom}: a part of the tolerance, at most 1")
    for name in ("bytes_budget", "data_budget", "slot_cost", "gain_min"):
        exact(getattr(problem, name) or 0, name)
    foreign = next((name for name in problem.soft if name not in resources), None)
    if foreign is not None:
        raise PlanError(f"{foreign} is a soft goal, but no loads of it are given")
    owner = _owners(problem, index)
    scaled = [_whole(name, problem.loads[name], len(owner)) for name in resources]
    weights = tuple(exact(m.weight, f"weight of {m.id}") for m in problem.masters)
    for master, weight in zip(problem.masters, weights, strict=True):
        if weight == 0 and not (master.drained or master.excluded):
            raise PlanError(f"weight of {master.id} is 0: mark it as drained to empty it")
    units = tuple(unit for unit, _ in scaled)
    scaled_problem = ScaledProblem(
        problem,
        resources,
        resources.index(problem.cost),
        units,
        tuple(load for _, load in scaled),
        owner,
        weights,
        tuple(_capacity(master, dict(zip(resources, units, strict=True))) for master in problem.masters),
        asked_tolerance(problem, resources),
        _fixed(problem, owner),
    )
    _check_capacity(scaled_problem)
    return scaled_problem


def _masters(problem: Problem) -> dict[str, int]:
    index: dict[str, int] = {}
    for number, master in enumerate(problem.masters):
        if master.id in index:
            raise PlanError(f"master {master.id} is named twice")
        if master.drained and master.excluded:
            raise PlanError(f"master {master.id} is both drained and excluded")
        index[master.id] = number
    if len(index) > MASTERS_MAX:
        raise PlanError(f"{len(index)} masters: there are only {MASTERS_MAX} slots")
    if all(master.drained or master.excluded for master in problem.masters):
        raise PlanError("no master is left that could hold slots")
    return index


def _owners(problem: Problem, index: Mapping[str, int]) -> tuple[int, ...]:
    for slot, name in enumerate(problem.owners):
        if name not in index:
            raise PlanError(
                f"slot {slot} has no owner" if not name else f"slot {slot} belongs to {name}: no such master"
            )
    if not problem.owners:
        raise PlanError("there are no slots")
    return tuple(index[name] for name in problem.owners)


def _whole(name: str, loads: Sequence[Number], slots: int) -> tuple[int, tuple[int, ...]]:
    if len(loads) != slots:
        raise PlanError(f"{name}: {len(loads)} loads for {slots} slots")
    if set(map(type, loads)) == {int} and min(loads) >= 0:
        return 1, tuple(cast("Sequence[int]", loads))
    unit = 1
    ratios = []
    for slot, value in enumerate(loads):
        if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
            raise PlanError(
                f"{name} of slot {slot} is missing" if value is None else f"{name} of slot {slot}: no number"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise PlanError(f"{name} of slot {slot} is {value}")
        if value < 0:
            raise PlanError(f"{name} of slot {slot} is negative: {value}")
        ratios.append(value.as_integer_ratio())
        unit = math.lcm(unit, ratios[-1][1])
        if unit.bit_length() > 2200:
            raise PlanError(f"{name}: the loads have no common unit (slot {slot})")
    return unit, tuple(count * (unit // part) for count, part in ratios)


def asked_tolerance(problem: Problem, resources: Iterable[str]) -> tuple[Fraction, ...]:
    """Return the tolerance of each of *resources*; PlanError for a missing one."""
    given = problem.tolerance
    if isinstance(given, Mapping):
        missing = [name for name in resources if name not in given]
        if missing:
            raise PlanError(f"tolerance of {missing[0]} is missing")
        return tuple(exact(given[name], f"tolerance of {name}") for name in resources)
    return tuple(exact(given, "tolerance") for _ in resources)


def _fixed(problem: Problem, owner: Sequence[int]) -> frozenset[int]:
    fixed = {slot for slot, n in enumerate(owner) if problem.masters[n].excluded}
    for slot in problem.pinned:
        if not 0 <= slot < len(owner):
            raise PlanError(f"pinned slot {slot} is not in 0 to {len(owner) - 1}")
        if problem.masters[owner[slot]].drained:
            raise PlanError(f"slot {slot} is pinned to {problem.masters[owner[slot]].id}, which is drained")
        fixed.add(slot)
    return frozenset(fixed)


def _capacity(master: Master, units: Mapping[str, int]) -> tuple[float, ...]:
    for name in master.capacity:
        if name not in units:
            raise PlanError(f"capacity of {master.id} is given in {name}, but no loads of it are given")
    most = {name: exact(value, f"capacity of {master.id} in {name}") for name, value in master.capacity.items()}
    return tuple(int(most[name] * unit) if name in most else math.inf for name, unit in units.items())


def _check_capacity(scaled: ScaledProblem) -> None:
    for r, (name, unit) in enumerate(zip(scaled.resources, scaled.units, strict=True)):
        most = [scaled.capacity[n][r] for n in scaled.takers()]
        data = sum(scaled.loads[r][s] for s in scaled.shared())
        if math.inf not in most and (room := sum(map(int, most))) < data:
            raise PlanError(
                f"impossible: the data is {data // unit:,} {name}, all capacity is {room // unit:,}; raise capacities or add masters"
            )
