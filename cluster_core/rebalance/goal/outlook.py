"""How long a placement holds: when loads that go on growing as they did between two measurements bring a master to a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster_core.errors import PlanError
from cluster_core.rebalance.goal.problem import Number, Problem


@dataclass(frozen=True, slots=True)
class Growth:
    """Loads by resource, one number a slot, *earlier* and *seconds* later; *since* is what the earlier measurement is called."""

    seconds: float
    earlier: Mapping[str, Sequence[Number]]
    later: Mapping[str, Sequence[Number]]
    since: str = ""

    def __post_init__(self) -> None:
        """Raise PlanError for measurements of one time, or in the wrong order."""
        if not 0 < self.seconds < float("inf"):
            raise PlanError(f"growth needs two measurements, the later one after the earlier: {self.seconds} s")


class Due(NamedTuple):
    """In *seconds* from the later measurement on master *node* reaches its limit; 0 where it is there."""

    seconds: float
    node: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """The first master to reach its capacity, and the first to be out of balance again, by resource; none where none does at this growth."""

    capacity: Mapping[str, Due] = field(default_factory=dict)
    balance: Mapping[str, Due] = field(default_factory=dict)


def look_ahead(problem: Problem, owners: Sequence[str], growth: Growth, limits: Mapping[str, Number]) -> Outlook:
    """Return how long *owners* (a master id a slot) hold, if every master's load goes on growing as its slots did.

    A master is out of balance when it holds more than *limits* (by resource, times its share by weight of all load of masters that stay);
    who does not grow does not get there.
    """
    staying = [m for m in problem.masters if not m.drained and not m.excluded]
    weights = {m.id: float(m.weight) for m in staying}
    capacity: dict[str, Due] = {}
    balance: dict[str, Due] = {}
    for name in problem.loads:
        if name not in growth.earlier or name not in growth.later:
            continue
        earlier, later = _by_master(growth.earlier[name], owners), _by_master(growth.later[name], owners)
        load = {n: later.get(n, 0.0) for n in weights}
        rate = {n: (load[n] - earlier.get(n, 0.0)) / growth.seconds for n in weights}
        hard = [
            Due(_seconds(float(m.capacity[name]) - load[m.id], rate[m.id]), m.id) for m in staying if name in m.capacity
        ]
        part = {n: float(limits.get(name, 0)) * weight / sum(weights.values()) for n, weight in weights.items()}
        whole, more = sum(load.values()), sum(rate.values())
        soft = [
            Due(_seconds(part[n] * whole - load[n], rate[n] - part[n] * more if rate[n] > 0 else 0.0), n)
            for n in weights
            if part[n]
        ]
        for found, due in ((capacity, hard), (balance, soft)):
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
    """Return when *room* is used up at *rate* a second; infinite where it never is."""
    if room <= 0:
        return 0.0
    return room / rate if rate > 0 else float("inf")
