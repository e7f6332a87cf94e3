"""Relaxation of a plan with divisible slots: its prices prove a bound, its solution is rounded.

`_cover_prices` takes each master over a limit alone, with the cheapest slots that relieve it; on ordinary loads this
bound is nearly exact. `solve` covers all moves by column generation: it adds moves that reduce the cost.
"""

from __future__ import annotations

import numpy as np

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.rebalance.search.arrays import Arrays, Floats, Integers

ROUNDS_MAX = 40
COLUMNS_A_ROUND = 6000
STEPS_MAX = 60_000
"""Maximum simplex steps of all rounds together."""
NEAR = 1e-3
"""Rounds end when the prices prove all but this share of the program's value."""
SLACK_COST = 50.0
"""Cost of a mean slot above a limit: more than any move saves."""
FIRST_TAKERS = 4


class Relaxation:
    """Linear programs for *arrays*.

    *prices* [master or zone, resource] are the best found for all load, *staying* [master, resource] for load that stays,
    in cost per mean slot of load.
    """

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.zone_count = len(arrays.zone_names)
        self.prices = self._cover_prices()
        self.staying = self.prices[: len(arrays.limits)].copy()
        self.bound = self._evaluate(self.prices)[0]
        self.parts: dict[int, list[tuple[float, int]]] = {}
        """Shares and masters of each slot that the solution moves."""

    def _cover_prices(self) -> Floats:
        arrays = self.arrays
        masters, size = arrays.limits.shape
        prices = np.zeros((masters + self.zone_count, size))
        over = arrays.held(arrays.owner, arrays.loads) - arrays.limits
        for n in arrays.takers:
            short = np.flatnonzero(over[n] > 1e-12)
            own = np.flatnonzero((arrays.owner == n) & ~arrays.fixed)
            if not len(short) or not len(own):
                continue
            program = LinearProgram()
            k, m = len(short), len(own)
            program.add_rows(over[n, short], np.full(k, INFINITE))
            program.add_columns(
                arrays.cost[own],
                np.ones(m),
                np.arange(m) * k,
                np.tile(np.arange(k), m),
                arrays.loads[own][:, short].ravel(),
            )
            prices[n, short] = np.maximum(0.0, program.solve(STEPS_MAX).prices)
        return prices

    def _effective(self, prices: Floats) -> Floats:
        """Return prices [master, resource] including zones."""
        masters = len(self.arrays.limits)
        return prices[:masters] + (prices[masters:][self.arrays.zones] if self.zone_count else 0.0)

    def _evaluate(self, prices: Floats) -> tuple[float, Integers, Floats]:
        """Return the bound that *prices* prove (`bounds.least_moved`), and per slot its cheapest other master and the extra cost there."""
        arrays = self.arrays
        masters = len(arrays.limits)
        paid = arrays.loads @ self._effective(prices)[arrays.takers].T
        own = arrays.place[arrays.owner]
        mine = np.flatnonzero(own >= 0)
        stay = np.full(len(own), np.inf)
        stay[mine] = paid[mine, own[mine]]
        paid[mine, own[mine]] = np.inf
        best = paid.argmin(1)
        go = paid[np.arange(len(own)), best] + arrays.cost
        go[arrays.fixed] = np.inf
        stay[arrays.fixed & (own < 0)] = 0.0
        value = np.minimum(stay, go).sum() - (prices[:masters] * arrays.limits)[arrays.takers].sum()
        if self.zone_count:
            value -= (prices[masters:] * arrays.zone_limits).sum()
        return float(value), arrays.takers[best], go - stay

    def solve(self) -> None:
        """Solve the program and add moves until none reduces its cost; better prices replace the current ones."""
        arrays = self.arrays
        size = arrays.limits.shape[1]
        rows = len(arrays.takers) * size + self.zone_count * size
        program = LinearProgram(growing=True)
        held = arrays.held(arrays.owner, arrays.loads)
        program.add_rows(np.full(rows, -INFINITE), arrays.room(held))
        program.add_columns(
            np.full(rows, slack_cost(arrays)), np.full(rows, INFINITE), np.arange(rows), np.arange(rows), -np.ones(rows)
        )
        columns = _Columns(self, program, rows)
        self._program, self._columns, self._rows = program, columns, rows
        columns.add(self._first_moves(held))
        for _ in range(ROUNDS_MAX):
            solution = program.solve(STEPS_MAX - program.steps)
            raw = np.zeros_like(self.prices)
            raw[arrays.takers] = -solution.prices[: len(arrays.takers) * size].reshape(-1, size)
            if self.zone_count:
                raw[len(arrays.limits) :] = -solution.prices[len(arrays.takers) * size : rows].reshape(-1, size)
            raw = np.maximum(raw, 0.0)
            new: list[tuple[int, int]] = []
            for tried in (raw, (raw + self.prices) / 2):
                value, to, _ = self._evaluate(tried)
                new += columns.cheaper(to, self._effective(raw), solution.prices)
                if value > self.bound:
                    self.bound, self.prices = value, tried
            fresh = list(dict.fromkeys(new))
            is_near = solution.cost - self.bound <= NEAR * max(abs(solution.cost), 1e-9)
            if is_near or not fresh or program.steps >= STEPS_MAX:
                break
            columns.add(fresh)
        self.parts = columns.parts(solution.values[rows:])

    def make_whole(self, part: float) -> None:
        """Place divided slots above *part* of a limit on one master each, the heaviest first, solving again each time."""
        weights, settled = self.arrays.parts_of_limits(), set[int]()
        while divided := [
            s for s, parts in self.parts.items() if max(parts)[0] < 1 - 1e-6 and weights[s] > part and s not in settled
        ]:
            first = [s for s in divided if 2 * weights[s] >= weights[divided].max()]
            at = self.rounded()
            self._columns.settle({s: int(at[s]) for s in first})
            settled.update(first)
            solution = self._program.solve(STEPS_MAX)
            self.parts = self._columns.parts(solution.values[self._rows :])

    def rounded(self) -> Integers:
        """Return the solution with each slot on the master with most of it."""
        at = self.arrays.owner.copy()
        for s, parts in self.parts.items():
            most, n = max(parts)
            if self.arrays.must[s] or most >= 1 - sum(part for part, _ in parts):
                at[s] = n
        return at

    def _first_moves(self, held: Floats) -> list[tuple[int, int]]:
        """Return first moves: slots that must or nearly should leave, to the cheapest and the emptiest masters."""
        arrays = self.arrays
        room = np.where(arrays.takes, (arrays.limits - held).min(1), -np.inf)
        first = np.argsort(-room, kind="stable")[: min(FIRST_TAKERS, len(arrays.takers))]
        _, to, gain = self._evaluate(self.prices)
        hit = np.flatnonzero(((gain < 0.2 * arrays.cost) | arrays.must) & ~arrays.fixed)
        return [
            (int(s), n)
            for i, s in enumerate(hit)
            for n in dict.fromkeys((int(first[i % len(first)]), int(to[s])))
            if n != arrays.owner[s]
        ]


def slack_cost(arrays: Arrays) -> float:
    """Return the price of a mean slot above a limit."""
    return SLACK_COST * max(1.0, float(np.quantile(arrays.cost / np.maximum(arrays.loads.max(1), 1e-9), 0.99)))


class _Columns:
    """Moves of a program, in order of its columns after those of slack."""

    def __init__(self, relaxation: Relaxation, program: LinearProgram, rows: int) -> None:
        self._relaxation, self._program, self._rows = relaxation, program, rows
        arrays = relaxation.arrays
        self._row_of = np.full(len(arrays.owner), -1)
        self._moves: list[tuple[int, int]] = []
        self._seen: set[tuple[int, int]] = set()

    def add(self, moves: list[tuple[int, int]]) -> None:
        """Append *moves*; each slot gets a row: it moves at most once, from a drained master exactly once."""
        arrays, size = self._relaxation.arrays, self._relaxation.arrays.limits.shape[1]
        new = [s for s in dict.fromkeys(s for s, _ in moves) if self._row_of[s] < 0]
        if new:
            used = self._rows + int((self._row_of >= 0).sum())
            self._row_of[new] = used + np.arange(len(new))
            self._program.add_rows(np.where(arrays.must[new], 1.0, -INFINITE), np.ones(len(new)))
        self._moves += moves
        self._seen.update(moves)
        if not moves:
            return
        slots, to = np.array(moves, np.int64).T
        owner, loads, every = arrays.owner[slots], arrays.loads[slots], np.arange(size)
        zoned = len(arrays.takers) * size + arrays.zones * size
        rows = [arrays.place[to] * size, arrays.place[owner] * size, zoned[to], zoned[owner]]
        crosses = (arrays.zones[owner] != arrays.zones[to]) & bool(self._relaxation.zone_count)
        is_in = np.stack([np.ones_like(crosses), arrays.place[owner] >= 0, crosses, crosses], axis=1)
        is_in = np.append(
            is_in[:, None].repeat(size, 1).reshape(len(moves), -1), np.ones((len(moves), 1), bool), axis=1
        )
        at = (np.stack(rows, axis=1)[:, None] + every[None, :, None]).reshape(len(moves), -1)
        values = (loads[:, :, None] * np.array([1.0, -1.0, 1.0, -1.0])).reshape(len(moves), -1)
        self._program.add_columns(
            arrays.cost[slots],
            np.full(len(moves), INFINITE),
            np.cumsum(is_in.sum(1)) - is_in.sum(1),
            np.append(at, self._row_of[slots][:, None], axis=1)[is_in],
            np.append(values, np.ones((len(moves), 1)), axis=1)[is_in],
        )

    def settle(self, at: dict[int, int]) -> None:
        """Place each slot whole on its master in *at*, to which it has a move, or on its owner."""
        hit = [k for k, (s, _) in enumerate(self._moves) if s in at]
        whole = np.array([float(at[s] == n) for s, n in (self._moves[k] for k in hit)])
        self._program.bound(self._rows + np.array(hit), whole, whole)

    def cheaper(self, to: Integers, effective: Floats, prices: Floats) -> list[tuple[int, int]]:
        """Return moves of slots to their masters *to* that reduce the program's cost, the best first."""
        arrays = self._relaxation.arrays
        of_slot = np.where(self._row_of >= 0, prices[np.maximum(self._row_of, 0)], 0.0)
        at_home = np.where(arrays.takes[arrays.owner][:, None], effective[arrays.owner], 0.0)
        reduced = arrays.cost + (arrays.loads * (effective[to] - at_home)).sum(1) - of_slot
        hit = np.flatnonzero((reduced < -1e-7) & ~arrays.fixed)
        hit = hit[np.argsort(reduced[hit], kind="stable")][:COLUMNS_A_ROUND]
        return [(int(s), int(to[s])) for s in hit if (int(s), int(to[s])) not in self._seen]

    def parts(self, values: Floats) -> dict[int, list[tuple[float, int]]]:
        """Return shares and targets of moved slots."""
        parts: dict[int, list[tuple[float, int]]] = {}
        for (s, n), part in zip(self._moves, values.tolist(), strict=True):
            if part > 1e-7:
                parts.setdefault(s, []).append((part, n))
        return parts
