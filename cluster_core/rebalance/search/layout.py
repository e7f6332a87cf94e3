"""The whole placement as a linear program of columns: slots that are placed on their own, and bundles of light ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.placement_program import PlacementProgram, Spread
from cluster_core.rebalance.goal.targets import fillers
from cluster_core.rebalance.search.arrays import ProblemArrays

MIDDLING = 1024
"""Slots above this part of a limit in any resource are placed on their own; others are light."""
BUNDLES = 128
"""Bundles of light slots an owner."""
RUN = 64
"""Light slots of a bundle where runs are wanted."""
OVER_COST = 1000.0
"""What a unit above a limit costs, in units of the cost; both in mean slots."""
FINER = 10.0
"""How much lighter slots are in the next turn of `settle`."""
WORK_MAX = 1_400_000_000
"""Work that one program may take, to its first solution and to `settle` it, in about nanoseconds."""
WORK_LEAST = WORK_MAX // 16
"""Work that any program may take."""
WORK_OF_STEP = 400
"""Work of a program that one step of a problem's search allows; a quarter of `WORK_MAX` is allowed to any."""


class Layout:
    """The slots that may be placed and the masters that may take them, numbered from 0; loads and limits in mean slots.

    A slot that is too heavy for a limit weighs as much as the largest limit, wherever it is, so that it fills its host.
    """

    def __init__(self, arrays: ProblemArrays) -> None:
        scaled, takers = arrays.scaled, arrays.takers
        place = {n: k for k, n in enumerate(takers)}
        self.arrays, self.takers, self.size = arrays, takers, arrays.size
        self.slots = [s for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded]
        self.mean = np.array([sum(row) / len(row) or 1.0 for row in arrays.shares])
        self.rows = np.array(arrays.shares).T[self.slots] / self.mean
        self.costs = self.rows[:, scaled.cost].copy()
        self.home = [place.get(scaled.owner[s], -1) for s in self.slots]
        self.free = [s not in scaled.fixed for s in self.slots]
        self._place = place
        self.caps = np.array(arrays.caps).reshape(-1, self.size)[takers] / self.mean
        self.limits = np.array([arrays.targets.common[n] for n in takers], float) / self.mean
        most = self.limits.max(0)
        number = {s: k for k, s in enumerate(self.slots)}
        self._fillers = [(number[s], r) for s, r in fillers(scaled, arrays.targets)]
        self._full = {k: self.rows[k].copy() for k, _ in self._fillers}
        for k, r in self._fillers:
            self.rows[k, r] = min(self.rows[k, r], most[r])
            self.caps[:, r] = np.minimum(self.caps[:, r], most[r])
        most = np.minimum(most, self.caps.max(0))
        self.part = np.divide(self.rows, most, out=np.zeros_like(self.rows), where=most > 0).max(1)
        self.singles = [s for s in np.flatnonzero(self.part > 1 / MIDDLING).tolist() if self.free[s]]
        self.singles.sort(key=lambda s: (-self.part[s], s))

    def inside(self, at: Sequence[int]) -> list[int]:
        """Return a placement of all slots by the numbers in here: -1 on a master that takes nothing."""
        return [self._place.get(at[s], -1) for s in self.slots]

    def loads_on(self, slots: Sequence[int]) -> NDArray[np.float64]:
        """Return what *slots* weigh [slot, master, resource]: one that is too heavy for a limit, as much as fills that master."""
        loads = np.repeat(self.rows[slots][:, None], len(self.takers), 1)
        number = {s: k for k, s in enumerate(slots)}
        for s, r in self._fillers:
            if s in number:
                loads[number[s], :, r] = np.minimum(self._full[s][r], self.limits[:, r])
        return loads

    def outside(self, placed: Sequence[int]) -> list[int]:
        """Return a placement by the numbers in here as one of all slots."""
        at = list(self.arrays.scaled.owner)
        for s, n in zip(self.slots, placed, strict=True):
            at[s] = self.takers[n]
        return at

    def placed(self, columns: Sequence[Sequence[int]], at: Sequence[int]) -> list[int]:
        """Return a placement in which all slots of each column are on its master of *at*."""
        placed = [0] * len(self.slots)
        for column, n in zip(columns, at, strict=True):
            for s in column:
                placed[s] = n
        return placed

    def fees(
        self, columns: Sequence[Sequence[int]], base: Sequence[int], extra: NDArray[np.float64] | float
    ) -> NDArray[np.float64]:
        """Return what every column costs on every master: its load away from home, *extra* (of one or of each) away from its *base*."""
        first = [column[0] for column in columns]
        cost = self._sums(columns, self.costs)
        away = np.array(self.home)[first][:, None] != np.arange(len(self.takers))
        moved = np.array(base)[first][:, None] != np.arange(len(self.takers))
        fees: NDArray[np.float64] = away * cost[:, None] + moved * np.broadcast_to(extra, len(columns))[:, None]
        return fees

    def fees_of_all(self) -> NDArray[np.float64]:
        """Return what every slot costs on every master: infinite where it may not go."""
        fees = self.fees([[s] for s in range(len(self.slots))], self.home, 0.0)
        for s, n in enumerate(self.home):
            if n >= 0 and not self.free[s]:
                fees[s] = np.where(np.arange(len(self.takers)) == n, fees[s], np.inf)
        return fees

    def _sums(self, columns: Sequence[Sequence[int]], rows: NDArray[np.float64]) -> NDArray[np.float64]:
        ends = np.cumsum([len(column) for column in columns])
        slots = [s for column in columns for s in column]
        return np.add.reduceat(rows[slots], np.concatenate([[0], ends[:-1]]), axis=0)

    def work_max(self) -> int:
        """Return the work that one program may take."""
        wanted = self.arrays.scaled.problem.iterations * WORK_OF_STEP or WORK_MAX
        wanted = min(max(wanted, WORK_MAX // 4), WORK_MAX)
        return int(max(WORK_LEAST, min(wanted, self.arrays.account.left)))

    def program(
        self, columns: Sequence[Sequence[int]], start: Sequence[int], base: Sequence[int] | None = None,
        extra: NDArray[np.float64] | float = 0.0, margin: float = 0.0,
    ) -> PlacementProgram:  # fmt: skip
        """Return the linear program of *columns*, lists of slots that stay together, each beginning on a master of *start*; *margin* mean slots below limits."""
        fees = self.fees(columns, self.home if base is None else base, extra)
        return PlacementProgram(
            self._sums(columns, self.rows),
            self.caps - margin,
            fees,
            np.array(start),
            OVER_COST,
            self.arrays.account.spend,
        )


class Program(Protocol):
    """A program of columns, of which `settle` makes whole ones."""

    loads: NDArray[np.float64]

    @property
    def work(self) -> int:
        """What was done so far, in about nanoseconds."""

    def solve(self, held: Mapping[int, int], work_max: int) -> Spread:
        """Return the solution with some columns held."""


class Columns(NamedTuple):
    """Lists of slots that stay together, and those that may not move with their master."""

    slots: list[list[int]]
    held: dict[int, int]


def gather(
    layout: Layout, base: Sequence[int], *, runs: bool = False, alone: Sequence[int] | None = None
) -> Columns:  # fmt: skip
    """Return columns: the slots *alone* (default: the singles), then bundles of the others an owner (of neighbours, for *runs*)."""
    singles = layout.singles if alone is None else alone
    columns, held = [[s] for s in singles], {}
    single = set(singles)
    rest: dict[tuple[int, int, bool], list[int]] = {}
    for s, home in enumerate(layout.home):
        if s not in single:
            rest.setdefault((home, base[s], layout.free[s]), []).append(s)
    for home, where, free in sorted(rest):
        slots = rest[home, where, free]
        if not free and home >= 0:
            held[len(columns)] = home
            columns.append(slots)
        elif runs:
            columns += [slots[i : i + RUN] for i in range(0, len(slots), RUN)]
        else:
            columns += bundle(slots, layout.rows, BUNDLES)
    return Columns(columns, held)


def bundle(slots: Sequence[int], rows: NDArray[np.float64], count: int) -> list[list[int]]:
    """Return *slots* in about *count* bundles of like proportions: halved again and again where they differ most."""
    if not len(slots):
        return []
    ratios = rows[:, 1:] / (rows[:, :1] + 1e-9)
    done, parts = 1, [np.array(slots)]
    while done < count:
        halves: list[NDArray[np.int64]] = []
        for part in parts:
            own = ratios[part]
            if own.shape[1]:
                widest = int((own.max(0) / (own.min(0) + 1e-9)).argmax())
                part = part[np.lexsort((part, own[:, widest]))]
            middle = len(part) // 2
            halves += [half for half in (part[:middle], part[middle:]) if len(half)]
        done, parts = done * 2, halves
    return [part.tolist() for part in parts]


def settle(program: Program, spread: Spread, held: Mapping[int, int], count: int, work_max: int) -> Spread:
    """Hold the first *count* columns, heavy ones first, each where its largest part is, until none of them is divided.

    When the work that is allowed is done, those that are divided stay so: they are no more than there are limits.
    """
    weight = program.loads.max(1)
    held = dict(held)
    while program.work < work_max:
        divided = [s for s in spread.divided if s < count and s not in held]
        if not divided:
            break
        line = weight[divided].max() / FINER
        held |= {s: int(spread.at[s]) for s in divided if weight[s] >= line}
        spread = program.solve(held, work_max)
    return spread
