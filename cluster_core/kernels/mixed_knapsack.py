"""What one master had best hold: columns in a room of few resources, the first of them whole, the others in any part.

How this works.  Branch and bound, depth first.  A case is relaxed by the dual simplex method with bounds: its basis has as many columns as there are
resources, so that a step is a pass over the columns, and the case below goes on from where the one above stands, which a column
that becomes fixed leaves dual feasible.  A ratio test passes a breakpoint where a column goes from none to all at once (the long step of Fourer 1994).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
States = NDArray[np.int8]

NONE, ALL, BASIC = 0, 1, 2
"""Where a column is: at one of its bounds, or in the basis, which says how much of it is in."""
OPEN = -1
"""A column that may be in or not; else `NONE` or `ALL`."""
CLOSE = 1e-9
PIVOT_MIN = 1e-11
STEPS_MAX = 500
"""Simplex steps of one case: a dozen were enough wherever it was measured."""
INFINITE = 1e300
SURE = 2.0
"""How much dearer than what is enough an impossible case is made."""


class Choice(NamedTuple):
    """What may be held: columns at *costs*, which may be below 0, of *loads* [resource, column] within *room* [resource]."""

    costs: Floats
    loads: Floats
    room: Floats


class Proof(NamedTuple):
    """That any choice costs as much: *lists* [case, resource] of prices of the room, and a *tree* [entry, 2].

    An entry is a column and its first entry of two, one where it is held and one where it is not, or -1 - k, closed by list k.
    """

    lists: Floats
    tree: Integers


class Stand(NamedTuple):
    """Where a case is: the columns of its *basis* (from their number on, the rooms), and where all columns are and are *fixed* to be."""

    basis: Integers
    states: States
    fixed: States


def room_for_proof(cases: int, size: int) -> Proof:
    """Return a proof to be written, of at most so many *cases*, for *size* resources."""
    return Proof(np.zeros((cases, size)), np.zeros((2 * cases + 1, 2), np.int64))


@njit()
def invert(matrix: Floats, inverse: Floats) -> bool:
    """Write the *inverse* of a small square *matrix*, which is lost; return whether it has one."""
    size = len(matrix)
    for i in range(size):
        for j in range(size):
            inverse[i, j] = 1.0 if i == j else 0.0
    for i in range(size):
        best = i
        for k in range(i + 1, size):
            if abs(matrix[k, i]) > abs(matrix[best, i]):
                best = k
        if abs(matrix[best, i]) < PIVOT_MIN:
            return False
        for j in range(size):
            matrix[i, j], matrix[best, j] = matrix[best, j], matrix[i, j]
            inverse[i, j], inverse[best, j] = inverse[best, j], inverse[i, j]
        pivot = matrix[i, i]
        for j in range(size):
            matrix[i, j] /= pivot
            inverse[i, j] /= pivot
        for k in range(size):
            factor = matrix[k, i]
            if k != i and factor != 0.0:
                for j in range(size):
                    matrix[k, j] -= factor * matrix[i, j]
                    inverse[k, j] -= factor * inverse[i, j]
    return True


@njit()
def relax(
    choice: Choice, stand: Stand, enough: float, values: Floats, prices: Floats, scratch: Floats, passed: Integers
) -> tuple[float, int]:  # fmt: skip
    """Solve a case with parts allowed from its *stand*, or until it costs *enough*; return its cost, `INFINITE` for an impossible one, and the steps.

    The *values* of the basis are written, and *prices* of the room that prove what the case costs (an impossible one, *enough*).
    """
    costs, loads, room = choice
    basis, states, fixed = stand
    size, count = loads.shape
    matrix, inverse, left = np.zeros((size, size)), np.zeros((size, size)), room.copy()
    rest, pull, points, steep = scratch[0], scratch[1], scratch[2], scratch[3]
    rest[:count] = costs
    prices[:] = 0.0
    whole, cost = 0.0, -INFINITE
    for k in range(count):
        if states[k] == ALL:
            whole += costs[k]
            for r in range(size):
                left[r] -= loads[r, k]
    for number in range(STEPS_MAX):
        for j in range(size):
            for r in range(size):
                matrix[r, j] = loads[r, basis[j]] if basis[j] < count else 1.0 if r == basis[j] - count else 0.0
        if not invert(matrix, inverse):
            return -INFINITE, number
        if number == 0:
            for r in range(size):
                for j in range(size):
                    if basis[j] < count:
                        prices[r] -= costs[basis[j]] * inverse[j, r]
                if prices[r] != 0.0:
                    for k in range(count):
                        rest[k] += prices[r] * loads[r, k]
        cost, leaving, short, below = whole, -1, CLOSE, True
        for j in range(size):
            values[j] = 0.0
            for r in range(size):
                values[j] += inverse[j, r] * left[r]
            least, most = 0.0, INFINITE
            if basis[j] < count:
                cost += costs[basis[j]] * values[j]
                least = 1.0 if fixed[basis[j]] == ALL else 0.0
                most = 0.0 if fixed[basis[j]] == NONE else 1.0
            if least - values[j] > short:
                leaving, short, below = j, least - values[j], True
            if values[j] - most > short:
                leaving, short, below = j, values[j] - most, False
        if leaving < 0 or cost >= enough:
            return cost, number + 1
        sign = 1.0 if below else -1.0
        for r in range(size):
            factor = sign * inverse[leaving, r]
            for k in range(count):
                pull[k] = factor * loads[r, k] + (pull[k] if r else 0.0)
        found = 0
        for k in range(count):
            if fixed[k] != OPEN:
                continue
            if states[k] == NONE and pull[k] < -PIVOT_MIN:
                points[found], passed[found], steep[found] = max(rest[k], 0.0) / -pull[k], k, -pull[k]
                found += 1
            elif states[k] == ALL and pull[k] > PIVOT_MIN:
                points[found], passed[found], steep[found] = max(-rest[k], 0.0) / pull[k], k, pull[k]
                found += 1
        for r in range(size):
            away, inside = sign * inverse[leaving, r], False
            for j in range(size):
                inside = inside or basis[j] == count + r
            if not inside and away < -PIVOT_MIN:
                points[found], passed[found], steep[found] = max(prices[r], 0.0) / -away, count + r, INFINITE
                found += 1
        entering, step = -1, 0.0
        while found:
            i = 0
            for j in range(1, found):
                if points[j] < points[i]:
                    i = j
            k, step, slope = passed[i], points[i], steep[i]
            if short <= slope + CLOSE:
                entering = k
                break
            short -= slope
            found -= 1
            points[i], passed[i], steep[i] = points[found], passed[found], steep[found]
            way = -1.0 if states[k] == ALL else 1.0
            whole += way * costs[k]
            for r in range(size):
                left[r] -= way * loads[r, k]
            states[k] = ALL - states[k]
        if entering < 0:
            step += SURE * (1.0 + abs(enough) + abs(cost)) / short
        for r in range(size):
            prices[r] = max(0.0, prices[r] + step * sign * inverse[leaving, r])
        if entering < 0:
            return INFINITE, number + 1
        for k in range(count):
            rest[k] += step * pull[k]
        k = basis[leaving]
        if k < count:
            states[k] = fixed[k] if fixed[k] != OPEN else NONE if below else ALL
            if states[k] == ALL:
                whole += costs[k]
                for r in range(size):
                    left[r] -= loads[r, k]
        if entering < count:
            if states[entering] == ALL:
                whole -= costs[entering]
                for r in range(size):
                    left[r] += loads[r, entering]
            states[entering] = BASIC
        basis[leaving] = entering
    return cost, STEPS_MAX


@njit()
def fill(
    choice: Choice, whole: int, known: float, slack: float, held: Floats, proof: Proof
) -> tuple[float, float, int]:
    """Find what is cheapest to hold, the first *whole* columns in whole.

    Writes how much of each column is *held* where that is cheaper than what is *known* (at most 0: to hold nothing); returns what any choice
    costs at least, what the best one does, and how many simplex steps were done.  Ends where no case may be cheaper by *slack*, or after
    as many cases as there is room for in the *proof*, which is written.
    """
    costs, loads, room = choice
    lists, tree = proof
    size, count = loads.shape
    depth = 2 * whole + 2
    all_states, all_fixed = np.zeros((depth, count), np.int8), np.full((depth, count), OPEN, np.int8)
    bases, bounds, entries = (
        np.zeros((depth, size), np.int64),
        np.full(depth, -INFINITE),
        np.zeros((depth, 2), np.int64),
    )
    values, scratch, passed = np.zeros(size), np.zeros((4, count + size)), np.zeros(count + size, np.int64)
    for k in range(count):
        all_states[0, k] = ALL if costs[k] < 0.0 else NONE
    for r in range(size):
        bases[0, r] = count + r
    held[:] = 0.0
    low, high, open_cases, cases, steps, grown = INFINITE, known, 1, 0, 0, 1
    while open_cases:
        open_cases -= 1
        bound, entry, by = bounds[open_cases], entries[open_cases, 0], entries[open_cases, 1]
        if bound >= high - slack or cases == len(lists):
            low = min(low, bound)
            tree[entry, 0] = -1 - by
            continue
        basis, states, fixed = bases[open_cases].copy(), all_states[open_cases].copy(), all_fixed[open_cases].copy()
        cost, done = relax(choice, Stand(basis, states, fixed), high - slack, values, lists[cases], scratch, passed)
        if cost > bound:
            bound, by = cost, cases
        cases, steps = cases + 1, steps + done
        tree[entry, 0] = -1 - by
        if bound >= high - slack:
            low = min(low, bound)
            continue
        divide, bulk, part = -1, CLOSE, 0.0
        for j in range(size):
            if basis[j] < whole:
                worth = 0.0
                for r in range(size):
                    worth = max(worth, loads[r, basis[j]] / max(room[r], CLOSE))
                worth *= min(values[j], 1.0 - values[j])
                if worth > bulk:
                    divide, bulk, part = basis[j], worth, values[j]
        if divide < 0:
            low = min(low, bound)
            if cost < high:
                high = cost
                for k in range(count):
                    held[k] = 1.0 if states[k] == ALL else 0.0
                for j in range(size):
                    if basis[j] < count:
                        held[basis[j]] = values[j]
            continue
        tree[entry, 0], tree[entry, 1] = divide, grown
        for first in (part < 0.5, part >= 0.5):  # what is nearer comes last, and is looked at first
            bases[open_cases], all_states[open_cases], all_fixed[open_cases] = basis, states, fixed
            all_fixed[open_cases, divide], bounds[open_cases] = ALL if first else NONE, bound
            entries[open_cases, 0], entries[open_cases, 1] = grown if first else grown + 1, by
            open_cases += 1
        grown += 2
    return min(low, high), high, steps
