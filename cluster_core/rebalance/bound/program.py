"""The whole placement as a linear program of columns: slots that are placed on their own, and bundles of light ones.

`relaxation.relax` solves it.  A `Basis` is one solution; from a copy of it another one is reached in few steps when a column is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cluster_core.rebalance.bound.relaxation import BLOCK
from cluster_core.rebalance.search.arrays import Ground

MIDDLING = 1024
"""Slots above this part of a limit in any resource are placed on their own; others are light."""
BUNDLES = 128
"""Bundles of light slots an owner."""
RUN = 64
"""Light slots of a bundle where runs are wanted."""
WORK_MAX = 4_000_000_000
"""Work that one program may take, to its first solution and to `Program.settle` it; about so many nanoseconds."""
WORK_OF_STEP = 800
"""Work of a program that one iteration of a problem allows; a quarter of `WORK_MAX` is allowed to any."""
OVER_COST = 1000.0
"""What a unit above a limit costs, in units of the cost; both in mean slots."""
WHOLE = 1e-7
"""A part below this is none."""
FINER = 3.0
"""How much lighter slots are in the next turn of `settle`."""


class Layout:
    """The slots that may be placed and the masters that may take them, numbered from 0; loads and limits in mean slots."""

    def __init__(self, ground: Ground) -> None:
        scaled, takers = ground.scaled, ground.takers
        place = {n: k for k, n in enumerate(takers)}
        self.ground, self.takers, self.size = ground, takers, ground.size
        self.slots = [s for s, n in enumerate(scaled.owner) if not scaled.masters[n].excluded]
        self.mean = [sum(row) / len(row) or 1.0 for row in ground.shares]
        self.rows = [[ground.shares[r][s] / self.mean[r] for r in range(self.size)] for s in self.slots]
        self.home = [place.get(scaled.owner[s], -1) for s in self.slots]
        self.free = [int(s not in scaled.fixed) for s in self.slots]
        self._place = place
        self.caps = [ground.caps[n * self.size + r] / self.mean[r] for n in takers for r in range(self.size)]
        most = [max(self.caps[r :: self.size]) for r in range(self.size)]
        self.part = [max(row[r] / most[r] if most[r] else 0.0 for r in range(self.size)) for row in self.rows]
        self.singles = [s for s, part in enumerate(self.part) if part > 1 / MIDDLING and self.free[s]]
        self.singles.sort(key=lambda s: (-self.part[s], s))
        self.limits = [ground.targets.caps[n][r] / self.mean[r] for n in takers for r in range(self.size)]

    def inside(self, at: Sequence[int]) -> list[int]:
        """Return a placement of all slots by the numbers in here: -1 on a master that takes nothing."""
        return [self._place.get(at[s], -1) for s in self.slots]

    def outside(self, placed: Sequence[int]) -> list[int]:
        """Return a placement by the numbers in here as one of all slots."""
        at = list(self.ground.scaled.owner)
        for s, n in zip(self.slots, placed, strict=True):
            at[s] = self.takers[n]
        return at


class Basis(NamedTuple):
    """One solution as `relax` leaves it."""

    at: Any
    held: Any
    inverse: Any
    x: Any
    slot_of: Any
    node_of: Any

    def copy(self) -> Basis:
        """Return the same, to go on from."""
        return Basis(*[part.copy() for part in self])


class Program:
    """The linear program of *columns*, lists of slots that stay together; *extra* mean slots are paid for a slot that is not on its *base*."""

    def __init__(
        self, layout: Layout, columns: Sequence[Sequence[int]], base: Sequence[int] | None = None, extra: float = 0.0
    ) -> None:
        engine, base = layout.ground.engine, layout.home if base is None else base
        self.engine, self.size, self.masters = engine, layout.size, len(layout.takers)
        rows = [[sum(layout.rows[s][r] for s in column) for r in range(layout.size)] for column in columns]
        self.m = self.size * self.masters
        self.w = engine.floats([v for row in rows for v in row])
        self.cap = engine.floats(layout.caps)
        self.cost = engine.floats([row[layout.ground.scaled.cost] for row in rows])
        self.owner = engine.whole([layout.home[column[0]] for column in columns])
        self.base = engine.whole([base[column[0]] for column in columns])
        self.extra = engine.floats([extra * len(column) for column in columns])
        self.bulk = engine.floats([sum(row) + 1e-9 for row in rows])
        self.weight = [max(row) for row in rows]
        self.y = engine.floats([0.0] * self.m)
        self._room = engine.floats([0.0] * self.m), engine.floats([0.0] * len(rows)), engine.whole([0, 0])
        self.pivots = self.solves = 0
        self._pivot_work, self._solve_work = self.m**2 * 2 + BLOCK * self.m, len(columns) * self.m
        wanted = layout.ground.scaled.problem.iterations * WORK_OF_STEP or WORK_MAX
        self._work_max = min(max(wanted, WORK_MAX // 4), WORK_MAX)

    @property
    def work(self) -> int:
        """What was done so far: pivots times what one costs, and pricing all columns once a solution."""
        return self.pivots * self._pivot_work + self.solves * self._solve_work

    def start(self, at: Sequence[int], held: Sequence[int]) -> Basis:
        """Return a placement that divides nothing as a basis; *held* [s] is the master that s may not leave, or -1."""
        floats, whole, m = self.engine.floats, self.engine.whole, self.m
        zeros = [0.0] * m
        return Basis(whole(at), whole(held), floats([0.0] * (m * m)), floats(zeros), whole([0] * m), whole([0] * m))

    def solve(self, basis: Basis, *, warm: bool) -> float:
        """Solve in place, as far as the work that is allowed goes, and return the cost; *warm* from a solution, else from a start."""
        d, sums, out = self._room
        pivots_max = max(0, self._work_max - self.work) // self._pivot_work + 1
        pivots = self.engine.relax(
            self.size, self.masters, self.w, self.cap, self.cost, self.owner, self.base, self.extra, basis.at, basis.held,
            self.bulk, OVER_COST, int(warm), pivots_max, basis.inverse, basis.x, basis.slot_of, basis.node_of, self.y, d,
            sums, out,
        )  # fmt: skip
        self.pivots += abs(int(pivots)) + 1
        self.solves += 1
        return float(self.engine.appraise(
            self.m, self.cost, self.owner, self.base, self.extra, basis.at, basis.held, self.bulk, OVER_COST, basis.x,
            basis.slot_of, basis.node_of,
        ))  # fmt: skip

    def divided(self, basis: Basis) -> dict[int, int]:
        """Return the columns that are divided, each with the master of its largest part."""
        parts: dict[int, list[tuple[float, int]]] = {}
        for k in range(self.m):
            if basis.slot_of[k] >= 0:
                parts.setdefault(int(basis.slot_of[k]), []).append((float(basis.x[k]), int(basis.node_of[k])))
        found = {}
        for s in sorted(parts):
            key = 1.0 - sum(v for v, _ in parts[s])
            shares = [(v, n) for v, n in [*parts[s], (key, int(basis.at[s]))] if v > WHOLE]
            if len(shares) > 1 or shares[0][1] != basis.at[s]:
                found[s] = max(shares)[1]
        return found

    def settle(self, basis: Basis, count: int) -> None:
        """Hold the first *count* columns, heavy ones first, each where its largest part is, until none is divided that is not held.

        One that is held and does not fit may stay divided: holding it again would change nothing.  When the work that is allowed is done,
        as where thousands of columns weigh about the same, those that are divided stay so: they are no more than there are limits.
        """
        while self.work < self._work_max:
            divided = {s: n for s, n in self.divided(basis).items() if s < count and basis.held[s] < 0}
            if not divided:
                return
            line = max(self.weight[s] for s in divided) / FINER
            for s, n in divided.items():
                if self.weight[s] >= line:
                    basis.held[s] = n
            self.solve(basis, warm=True)


def gather(layout: Layout, base: Sequence[int], *, runs: bool = False) -> tuple[list[list[int]], list[int]]:
    """Return columns: the singles, then bundles of the others (neighbours, for *runs*); and where each is held, or -1."""
    columns, held = [[s] for s in layout.singles], [-1] * len(layout.singles)
    alone = set(layout.singles)
    rest: dict[tuple[int, int, int], list[int]] = {}
    for s, home in enumerate(layout.home):
        if s not in alone:
            rest.setdefault((home, base[s], layout.free[s]), []).append(s)
    for home, where, free in sorted(rest):
        slots = rest[home, where, free]
        if not free:
            bundles = [slots]
        elif runs:
            bundles = [slots[i : i + RUN] for i in range(0, len(slots), RUN)]
        else:
            bundles = bundle(slots, layout.rows, BUNDLES)
        columns += bundles
        held += [-1 if free else home] * len(bundles)
    return columns, held


def bundle(slots: Sequence[int], rows: Sequence[Sequence[float]], count: int) -> list[list[int]]:
    """Return *slots* in about *count* bundles of like proportions: halved again and again where they differ most."""
    if not slots:
        return []
    done, parts = 1, [list(slots)]
    size = len(rows[slots[0]])
    while done < count:
        halves: list[list[int]] = []
        for part in parts:
            widest, by = -1.0, 0
            for r in range(1, size):
                ratios = [rows[s][r] / (rows[s][0] + 1e-9) for s in part]
                spread = max(ratios) / (min(ratios) + 1e-9)
                if spread > widest:
                    widest, by = spread, r
            part.sort(key=lambda s: (rows[s][by] / (rows[s][0] + 1e-9), s))
            middle = len(part) // 2
            halves += [half for half in (part[:middle], part[middle:]) if half]
        done, parts = done * 2, halves
    return parts
