"""What one master had best hold: no choice is cheaper, what is chosen fits, and the tree of prices proves it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_core.kernels.linear_program import INFINITE, LinearProgram
from cluster_core.kernels.mixed_knapsack import Choice, Floats, Integers, fill, room_for_proof
from tests.examples import examples

CASES = 600


def filled(
    costs: Floats, loads: Floats, room: Floats, whole: int, *, known: float = 0.0, slack: float = 0.0, cases: int = CASES
) -> tuple[float, float, Floats, Floats, Integers]:  # fmt: skip
    held, proof = np.ones(len(costs)), room_for_proof(cases, len(room))
    low, high, _ = fill(Choice(costs, loads, room), whole, known, slack, held, proof)
    return low, high, held, *proof


def least(costs: Floats, loads: Floats, room: Floats, whole: int) -> float:
    """The least cost, by a linear program for every choice of whole columns."""
    count, size = len(costs), len(room)
    best = 0.0
    for choice in product((0.0, 1.0), repeat=whole):
        left = room - loads[:, :whole] @ np.array(choice)
        if (left < 0).any():
            continue
        program = LinearProgram()
        program.add_rows(np.full(size, -INFINITE), left)
        each = np.arange(count - whole) * size
        rows = np.tile(np.arange(size), count - whole)
        program.add_columns(costs[whole:], np.ones(count - whole), each, rows, loads[:, whole:].T.ravel())
        rest = program.solve(10_000).cost if count > whole else 0.0
        best = min(best, float(costs[:whole] @ np.array(choice)) + rest)
    return best


def proven(costs: Floats, loads: Floats, room: Floats, lists: Floats, tree: Integers) -> float:
    """What the tree proves: in each case every column that it does not fix is put where it is cheapest at its prices."""
    found = []
    cases: list[tuple[int, dict[int, bool]]] = [(0, {})]
    while cases:
        entry, fixed = cases.pop()
        column, first = tree[entry].tolist()
        if column >= 0:
            cases += [(first, {**fixed, column: True}), (first + 1, {**fixed, column: False})]
            continue
        prices = lists[-1 - column]
        assert (prices >= 0).all()
        rest = costs + prices @ loads
        chosen = [rest[k] * fixed[k] if k in fixed else min(0.0, rest[k]) for k in range(len(costs))]
        found.append(float(sum(chosen) - prices @ room))
    return min(found)


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Floats, Floats, Floats, int]:
    """Costs, loads, room, and how many columns are whole; some columns weigh nothing, some fit in no room."""
    size, count = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    whole = draw(st.integers(0, min(count, 5)))
    numbers = st.integers(0, 20)
    loads = [draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(size)]
    costs = draw(st.lists(st.integers(-30, 5), min_size=count, max_size=count))
    room = draw(st.lists(st.integers(0, 60), min_size=size, max_size=size))
    return np.array(costs, float), np.array(loads, float), np.array(room, float), whole


@settings(max_examples=examples(150), deadline=None)
@given(rooms())
def test_what_is_held_fits_and_no_choice_is_cheaper_and_the_tree_proves_that(
    case: tuple[Floats, Floats, Floats, int],
) -> None:
    costs, loads, room, whole = case
    low, high, held, lists, tree = filled(costs, loads, room, whole)

    assert high == pytest.approx(least(costs, loads, room, whole), abs=1e-6)
    assert low == pytest.approx(high, abs=1e-6)
    assert proven(costs, loads, room, lists, tree) >= low - 1e-6
    assert (loads @ held <= room + 1e-6).all()
    assert set(held[:whole].tolist()) <= {0.0, 1.0}
    assert costs @ held == pytest.approx(high, abs=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(rooms(), st.integers(1, 4))
def test_where_few_cases_are_looked_at_what_is_proven_is_less_but_true(
    case: tuple[Floats, Floats, Floats, int], cases: int
) -> None:
    costs, loads, room, whole = case
    low, high, held, lists, tree = filled(costs, loads, room, whole, cases=cases)
    best = least(costs, loads, room, whole)

    assert low <= best + 1e-6 <= high + 2e-6
    assert low - 1e-6 <= proven(costs, loads, room, lists, tree) <= best + 1e-6
    assert (loads @ held <= room + 1e-6).all()


def test_nothing_is_held_where_something_as_cheap_is_known() -> None:
    costs, loads, room = np.array([-3.0, -2.0, -1.0]), np.array([[2.0, 2.0, 2.0]]), np.array([3.0])

    assert filled(costs, loads, room, 2)[1] == pytest.approx(-3.5)
    low, high, held, _, _ = filled(costs, loads, room, 2, known=-3.5)
    assert (low, high) == (pytest.approx(-3.5), -3.5)
    assert not held.any()


def test_a_column_that_fills_the_room_to_the_last_bit_may_be_held() -> None:
    """Its load and the room are sums of floats; beside it there is room for nothing that weighs the same."""
    filler = sum([0.1] * 7)
    loads = np.array([[filler, 0.3, 0.2, 0.1], [0.2, 0.1, 0.4, 0.3]])
    low, high, held, _, _ = filled(np.array([-9.0, -1.0, -1.0, -1.0]), loads, np.array([filler, 1.0]), 1)

    assert low == pytest.approx(-9.0)
    assert high == pytest.approx(-9.0)
    assert held == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-9)
