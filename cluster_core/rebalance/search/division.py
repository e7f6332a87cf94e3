"""Heavy slots divided exactly, a few masters at a time: what walks and rounding miss where a handful of slots fills every limit.

How this works.  The heaviest slots are whole, the others are bundles of like proportions that may be divided.  A division begins with a placement;
where that breaks limits, it begins *anew*: with many masters by a walk (`packing`), with few by a program that forgets who owns what: masters
with the same room are the same then, how heavy slots fit best is found in a moment, and everyone gets the part of which it owns most.  Where
limits are broken, what the fullest master and one with room hold is divided between them until all are kept.  Then two masters, later three,
divide what they hold between them at the least cost, where most moves first.  Masters that keep their limits are divided all at once: where
they are many, with few bundles (*coarse*).
Every program is small, and all of them together take a number of simplex steps (`STEPS_MAX`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.linear_program import INFINITE
from cluster_core.kernels.whole_program import LOOK_WORK, STEP_WORK, Entries, Found, Limits, solve_whole
from cluster_core.rebalance.search.dice import step
from cluster_core.rebalance.search.layout import OVER_COST, Layout, bundle
from cluster_core.rebalance.search.packing import Sand, pack_heavy

Floats = NDArray[np.float64]

HEAVIEST = 150
WHOLE_MAX = 3_000
"""Slots that are whole: so many, or fewer where these times the masters would be more than that."""
BUNDLES, BUNDLES_AWAY, BUNDLES_OF_ALL = 16, 2, 128
"""Bundles of light slots an owner; of those that are elsewhere, by owner and place; and of all together where nobody owns anything."""
MARGIN = 0.0005
"""Part of a limit that stays free: light slots are whole, too."""
FULL = 0.999
"""It suffices that no master is fuller than this part of its limit, where nobody owns anything."""
MASTERS_MAX = 32
"""With more masters that take slots, nothing is divided: each then has few heavy slots."""
KEPT_PART = 0.12
"""Part of the work that is kept, so that what is decided can be completed."""
CASES_MAX, CASES_OF_ALL = 60, 20
"""Cases that one program looks at."""
WHOLE_FEW, CASES_FEW, LOOKS_MAX = 300, 250, 1_000
"""Slots times masters that are whole where all masters are divided at once, cases that this looks at, and how often it asks whether to end."""
WHOLE_MANY, BUNDLES_MANY, LOOKS_MANY = 60, 4, 40
"""Slots that are whole, bundles of light slots an owner, and how often it asks, in a coarse division."""
STEPS_MAX = 12_000
WHOLE_STEPS = 8
"""Steps of a program without whole numbers that take as long as one of the others."""
STEPS_OF_STEP = 400
"""A search that has few steps gives this part of them to programs."""
PAIRS, TRIPLES = 2, 400
"""How often every two masters divide anew what they hold, and how many threes do."""
PATIENCE = 2
"""So many divisions a master in a row that gain nothing end a turn."""
PARTNERS = 8
"""With how many masters of most room the fullest one is tried, one at a time, and with as many pairs of others."""
FIT_MAX = 1_600
"""Heavy slots times masters up to which a program says how they fit best; with more, a walk does."""
GAIN_MIN, RELIEF_MIN = 1e-4, 1e-3
"""A division that costs this part of all that moves less is none, nor does one mend that takes this part less off what is above limits."""
PART_MIN = 1e-9


class Division:
    """One search for where the heaviest slots of *layout* go; *parts* [column, master] says how much of each is where."""

    def __init__(self, layout: Layout, at: Sequence[int], *, over: bool, coarse: bool = False) -> None:
        """Begin where *at* has the slots (numbers of the layout); where that is *over* limits, or masters are many and this is not *coarse*, with the heavy ones only, anew."""
        self.layout, self._account = layout, layout.arrays.account.part(1.0, KEPT_PART)
        wanted = layout.arrays.scaled.problem.iterations // STEPS_OF_STEP
        self._left = self._account.affords(min(wanted, STEPS_MAX) if wanted else STEPS_MAX, STEP_WORK)
        self._die = layout.arrays.scaled.problem.seed & 0xFFFFFFFF or 1
        masters = len(layout.takers)
        self.heavy = layout.singles[: min(HEAVIEST, WHOLE_MAX // masters)]
        few = not has_many(layout)
        self._at_once = (few or coarse) and not over
        if self._at_once:
            self.heavy = self.heavy[: WHOLE_MANY if coarse else WHOLE_FEW // masters]
            self._looks = (LOOKS_MANY if coarse else LOOKS_MAX) * self._left // STEPS_MAX
        bundles = BUNDLES_MANY if coarse else BUNDLES
        anew = not self._at_once and (over or not few)
        alone = set(self.heavy)
        kinds: dict[tuple[int, int, bool], list[int]] = {}
        for s, home in enumerate(layout.home):
            if s not in alone:
                kinds.setdefault((home, home if anew or coarse else at[s], layout.free[s] or home < 0), []).append(s)
        columns = [[s] for s in self.heavy]
        self._pinned: dict[int, int] = {}
        for (home, place, free), slots in sorted(kinds.items()):
            if not free:
                self._pinned[len(columns)] = home
            columns += bundle(slots, layout.rows, bundles if place == home else BUNDLES_AWAY) if free else [slots]
        self._loads = np.array([layout.rows[column].sum(0) for column in columns])
        homes = np.array([layout.home[column[0]] for column in columns])
        self._away = (homes[:, None] != np.arange(masters)) * np.array(
            [[layout.costs[column].sum()] for column in columns]
        )
        self._room = layout.caps * (1 - MARGIN)
        places = [at[column[0]] for column in columns]
        heavy = places[: len(self.heavy)]
        found = [] if not anew else self._fitting() if few else self._packed(heavy)
        self._fitted = few and bool(found)
        places[: len(heavy)] = found or heavy
        self.parts = np.zeros((len(columns), masters))
        self.parts[np.arange(len(columns)), places] = 1.0
        if anew:
            self._divide(list(range(masters)), whole=False)

    def _mend(self) -> None:
        """Divide what the fullest master and others hold until no limit is broken, or nothing helps or half of the steps are done."""
        masters, least = range(len(self.layout.takers)), self._left // 2
        over = self._over()
        while over.max() > PART_MIN:
            worst = int(over.argmax())
            free = (1 - self.parts.T @ self._loads / np.maximum(self._room, PART_MIN)).min(1)
            others = sorted((n for n in masters if n != worst), key=lambda n: (-free[n], n))
            before = float(over.sum())
            for some in [*([n] for n in others[:PARTNERS]), *(self._draw(others, 2) for _ in range(PARTNERS))]:
                if self._left <= least or self._account.is_over():
                    return
                self._divide(sorted({worst, *some}))
                over = self._over()
                if over.sum() < before * (1 - RELIEF_MIN):
                    break
            else:
                return

    def improve(self) -> None:
        """Divide anew what two masters hold, and three, until that gains nothing more or the steps are done."""
        masters = range(len(self.layout.takers))
        if self._at_once:
            self._divide(masters)
            return
        if not self._fitted:
            self._mend()
        for turn in range(PAIRS + 1):
            some: list[Sequence[int]] = sorted(combinations(masters, 2), key=self._foreign)
            if turn == PAIRS:
                some = [self._draw(masters, 3) for _ in range(TRIPLES if len(masters) > 2 else 0)]
            in_vain = 0
            for each in some:
                if self._left <= 0 or self._account.is_over() or in_vain > PATIENCE * len(masters):
                    break
                before = self.value
                self._divide(each)
                in_vain = 0 if self.value < before else in_vain + 1

    def _draw(self, masters: Sequence[int], count: int) -> list[int]:
        """Return *count* of *masters* by lot, all if there are no more."""
        drawn: set[int] = set()
        while len(drawn) < min(count, len(masters)):
            self._die = step(self._die)
            drawn.add(masters[(self._die * len(masters)) >> 32])
        return sorted(drawn)

    def decided(self) -> dict[int, int]:
        """Return the masters of the heavy slots, as the layout numbers both."""
        return dict(zip(self.heavy, self.parts[: len(self.heavy)].argmax(1).tolist(), strict=True))

    def _foreign(self, masters: Sequence[int]) -> tuple[float, Sequence[int]]:
        """Return what two *masters* hold that is not theirs, the most first."""
        return -float((self.parts * self._away)[:, masters].sum()), masters

    def _over(self) -> Floats:
        """Return by how many mean slots every master is above its limits."""
        over: Floats = np.maximum(0.0, self.parts.T @ self._loads - self._room).sum(1)
        return over

    @property
    def value(self) -> float:
        """What moves and, far dearer, what is above limits, in mean slots."""
        return float((self.parts * self._away).sum() + OVER_COST * self._over().sum())

    def _divide(self, masters: Sequence[int], *, whole: bool = True) -> bool:
        """Divide what *masters* hold between them, heavy slots *whole* or all where they are; keep that if it is cheaper."""
        masters = list(masters)
        held = self.parts[:, masters].sum(1)
        fixed = [k for k in self._pinned if held[k] > PART_MIN]
        some = [k for k in np.flatnonzero(held > PART_MIN).tolist() if k not in self._pinned]
        heavy = sum(1 for k in some if k < len(self.heavy))
        if not whole:
            fixed += some[:heavy]
            some, heavy = some[heavy:], 0
        size, many, count = self.layout.size, len(masters), len(some)
        room = self._room[masters] - self.parts[np.ix_(fixed, masters)].T @ self._loads[fixed]
        taken = held[some]
        now = self.parts[np.ix_(some, masters)]
        over = np.maximum(0.0, now.T @ self._loads[some] - room)
        limits = Limits(
            np.concatenate([np.repeat(taken, many), np.full(many * size, INFINITE)]),
            np.concatenate([taken, np.full(many * size, -INFINITE)]),
            np.concatenate([taken, room.ravel()]),
        )
        cost = np.concatenate([self._away[np.ix_(some, masters)].ravel(), np.full(many * size, OVER_COST)])
        entries = _entries(self._loads[some], many)
        start = np.concatenate([now.ravel(), over.ravel()]) if whole else None
        found = self._solve(cost, limits, entries, heavy * many, start)
        if not found.known:
            return False
        before, old = self.value, self.parts.copy()
        self.parts[np.ix_(some, masters)] = found.values[: count * many].reshape(count, many)
        if whole and self.value > before * (1 - GAIN_MIN):
            self.parts = old
        return True

    def _solve(self, cost: Floats, limits: Limits, entries: Entries, whole: int, start: Floats | None) -> Found:
        cases, stop = (CASES_FEW, self._is_over) if self._at_once else (CASES_MAX, None)
        found = solve_whole(cost, limits, entries, whole, cases_max=cases, start=start, stop=stop)
        steps = found.steps if whole else found.steps // WHOLE_STEPS
        self._left -= steps
        if not self._at_once:
            self._account.spend(steps * STEP_WORK)
        return found

    def _is_over(self) -> bool:
        """Return whether time is up, or this was asked often enough."""
        self._looks -= 1
        self._account.spend(LOOK_WORK)
        return self._looks < 0 or self._account.is_over()

    def _packed(self, at: Sequence[int]) -> list[int]:
        """Return masters of the heavy slots, from *at* on, so that the others find room and little moves."""
        layout, count, cost = self.layout, len(self.heavy), self.layout.arrays.scaled.cost
        light = layout.rows.copy()
        light[self.heavy] = 0.0
        homes = np.array(layout.home)
        home = np.bincount(homes[homes >= 0], light[homes >= 0, cost], len(layout.takers))
        whole = max(float(light[:, cost].sum()), PART_MIN)
        placed = np.array(at, np.int64)
        sand = Sand(light.sum(0), home / whole, whole)
        pack_heavy(placed, self._away[:count], self._loads[:count], self._room, sand, self._die)
        return [int(n) for n in placed]

    def _fitting(self) -> list[int]:
        """Return masters of the heavy slots as if nobody owned anything, so that the fullest master is as empty as can be; [] if not found."""
        layout = self.layout
        masters, size = len(layout.takers), layout.size
        if layout.arrays.scaled.fixed or not self.heavy:
            return []
        alone = set(self.heavy)
        light = bundle([s for s in range(len(layout.slots)) if s not in alone], layout.rows, BUNDLES_OF_ALL)
        columns = [*([s] for s in self.heavy), *light]
        loads = np.array([layout.rows[column].sum(0) for column in columns])
        kinds: dict[tuple[float, ...], list[int]] = {}
        for n, row in enumerate(self._room.tolist()):
            kinds.setdefault(tuple(row), []).append(n)
        upper = np.ones((len(columns), masters))
        for members in kinds.values():
            for k, n in enumerate(members):
                upper[:k, n] = 0.0  # the k-th of masters that are the same takes nothing heavier than the k-th slot
        count = len(columns)
        limits = Limits(
            np.append(upper.ravel(), INFINITE),
            np.concatenate([np.ones(count), np.full(masters * size, -INFINITE)]),
            np.concatenate([np.ones(count), np.zeros(masters * size)]),
        )
        filled = _entries(loads, masters, np.maximum(self._room, PART_MIN))
        starts = np.append(filled.starts[: count * masters + 1], count * (masters * (size + 1)) + masters * size)
        entries = Entries(starts, filled.rows, filled.values)
        found = solve_whole(
            np.append(np.zeros(count * masters), 1.0), limits, entries, len(self.heavy) * masters,
            cases_max=CASES_OF_ALL, enough=FULL,
        )  # fmt: skip
        self._account.spend(found.steps * STEP_WORK)
        if not found.known:
            return []
        chosen = found.values[: len(self.heavy) * masters].reshape(-1, masters).argmax(1)
        return self._named(chosen, list(kinds.values()))

    def _named(self, chosen: NDArray[np.int64], kinds: Sequence[Sequence[int]]) -> list[int]:
        """Return the masters of heavy slots, those that are the same named so that least moves."""
        gain = np.zeros((len(self.layout.takers), len(self.layout.takers)))
        for k, n in enumerate(chosen.tolist()):
            gain[n] += self.layout.costs[self.heavy[k]] - self._away[k]
        name = dict(enumerate(range(len(gain))))
        for members in kinds:
            count = len(members)
            rows = np.stack(np.meshgrid(np.arange(count), count + np.arange(count), indexing="ij"), -1).ravel()
            starts = np.arange(count * count + 1) * 2
            ones = np.ones(2 * count)
            found = solve_whole(
                -gain[np.ix_(members, members)].ravel(), Limits(np.ones(count * count), ones, ones),
                Entries(starts, rows, np.ones(len(rows))), count * count, cases_max=CASES_MAX,
            )  # fmt: skip
            places = found.values.reshape(count, count).argmax(1) if found.known else np.arange(count)
            name |= {members[k]: members[place] for k, place in enumerate(places.tolist())}
        return [name[n] for n in chosen.tolist()]


def has_many(layout: Layout) -> bool:
    """Return whether the masters of *layout* are too many to fit its heavy slots on them by one program of fine bundles."""
    masters = len(layout.takers)
    return min(len(layout.singles), HEAVIEST, WHOLE_MAX // masters) * masters > FIT_MAX


def _entries(loads: Floats, masters: int, room: Floats | None = None) -> Entries:
    """Return the entries of columns [column, master], each in the row of its column and in those of the master's limits, and of what is over them.

    With *room*, loads are parts of it, and one column stands for all that is over.
    """
    count, size = loads.shape
    each = np.arange(masters * size)
    own = np.repeat(np.arange(count), masters)[:, None]
    place = np.tile(count + each.reshape(masters, size), (count, 1))
    parts = np.repeat(loads, masters, 0)
    if room is not None:
        parts = parts / np.tile(room, (count, 1))
    rows = np.concatenate([np.hstack([own, place]).ravel(), count + each])
    values = np.concatenate([np.hstack([np.ones((count * masters, 1)), parts]).ravel(), -np.ones(masters * size)])
    first = np.arange(count * masters) * (size + 1)
    starts = np.concatenate([first, count * masters * (size + 1) + np.arange(masters * size + 1)])
    return Entries(starts, rows, values)
