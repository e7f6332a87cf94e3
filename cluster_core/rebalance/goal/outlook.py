"""When growth between two measurements brings a master to a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.problem import Number, Problem, validate
from cluster_core.rebalance.goal.targets import fair_parts


@dataclass(frozen=True, slots=True)
class Growth:
    """Loads by resource, one number a slot, *earlier* and *seconds* later; *since* names the earlier measurement."""

    seconds: float
    earlier: Mapping[str, Sequence[Number]]
    later: Mapping[str, Sequence[Number]]
    since: str = ""

    def __post_init__(self) -> None:
        """Raise PlanError for measurements of one time, or in the wrong order."""
        if not 0 < self.seconds < float("inf"):
            raise PlanError(f"growth needs two measurements, the later one after the earlier: {self.seconds} s")


class Due(NamedTuple):
    """Master *node* reaches its limit *seconds* after the later measurement; 0 if it has."""

    seconds: float
    node: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """The first master to reach its capacity, and the first to be out of balance, by resource; without those that none reaches."""

    capacity: Mapping[str, Due] = field(default_factory=dict)
    balance: Mapping[str, Due] = field(default_factory=dict)


def look_ahead(problem: Problem, owners: Sequence[str], growth: Growth, limits: Mapping[str, Number]) -> Outlook:
    """Return when *owners* (master id per slot) exceed a limit if each master's load keeps growing like its slots.

    A master is out of balance above *limits* (by resource) times its fair share; a master without growth never is.
    """
    scaled = validate(problem)
    capacity: dict[str, Due] = {}
    balance: dict[str, Due] = {}
    for name in problem.loads:
        if name not in growth.earlier or name not in growth.later:
            continue
        earlier, later = _by_master(growth.earlier[name], owners), _by_master(growth.later[name], owners)
        staying = [m.id for m in problem.masters if not m.drained and not m.excluded]
        load = {n: later.get(n, 0.0) for n in staying}
        rate = {n: (load[n] - earlier.get(n, 0.0)) / growth.seconds for n in staying}
        hard = {m.id: float(m.capacity[name]) for m in problem.masters if name in m.capacity and m.id in load}
        full = [Due(_seconds(most - load[n], rate[n]), n) for n, most in hard.items()]
        most = {n: float(limits.get(name, 0)) * part for n, part in fair_parts(scaled, name).items()}
        whole, more = sum(load.values()), sum(rate.values())
        uneven = [
            Due(_seconds(part * whole - load[n], rate[n] - part * more if rate[n] > 0 else 0.0), n)
            for n, part in most.items()
            if part
        ]
        for found, due in ((capacity, full), (balance, uneven)):
            first = min(due, default=Due(float("inf"), ""))
            if first.seconds < float("inf"):
                found[name] = first
    return Outlook(capacity, balance)


def _by_master(loads: Sequence[Number], owners: Sequence[str]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for load, owner in zip(loads, owners, strict=True):
        sums[owner] = sums.get(owner, 0.0) + float(load)
    return sums


def _seconds(room: float, rate: float) -> float:
    """Return when *room* is used up at *rate* a second; infinite if never."""
    if room <= 0:
        return 0.0
    return room / rate if rate > 0 else float("inf")
