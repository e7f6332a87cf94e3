"""Linear programs solved by HiGHS, with rows and columns added between solutions.

Values and prices are floats, so proofs must check them. Results are deterministic: one thread, a fixed seed, limits in
simplex steps instead of seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
INFINITE = highspy.kHighsInf
SOLVER: Any = highspy.Highs
OPTIONS: dict[str, bool | int | str] = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "solver": "simplex",
    "presolve": "off",
}
"""Presolve is off: programs are solved again from the last solution."""
WHOLE_OPTIONS: dict[str, bool | int | float | str] = {
    "presolve": "on",
    "mip_max_stall_nodes": 40,
    "mip_detect_symmetry": False,
    "mip_heuristic_effort": 0.3,
}
CHECKS_MAX = 80
"""Maximum checks of limits in a program with whole numbers: a measure of work without clock."""
DUAL, PRIMAL = ("simplex_strategy", 1), ("simplex_strategy", 4)
"""Simplex methods: dual after changed bounds, primal after added columns."""


class Solution(NamedTuple):
    """Cost, values of columns, and per row the saving (negative) or cost of one unit more room; *known*: not cut short.

    No solution with whole numbers costs less than *least*.
    """

    cost: float
    values: Floats
    prices: Floats
    known: bool
    least: float = -INFINITE


class LinearProgram:
    """Minimise ``cost · x`` with ``least <= A x <= most`` by row and ``0 <= x <= upper`` by column."""

    def __init__(self, *, growing: bool = False) -> None:
        """Begin without rows; a program *growing* by columns uses the faster primal simplex method."""
        self._highs, self._growing = SOLVER(), growing
        for name, value in OPTIONS.items():
            self._highs.setOptionValue(name, value)
        self.steps = 0
        """Simplex steps so far."""

    def add_rows(self, least: Floats, most: Floats, starts: Any = (), columns: Any = (), values: Any = ()) -> None:
        """Append rows; row k has ``columns`` and ``values`` from ``starts[k]`` on (default: empty rows)."""
        starts = starts if len(starts) else np.zeros(len(least), np.int32)
        self._highs.addRows(
            len(least), least, most, len(columns), _indices(starts), _indices(columns), np.asarray(values, float)
        )

    def add_columns(self, cost: Floats, upper: Floats, starts: Any, rows: Any, values: Floats) -> None:
        """Append columns; the entries of column k are ``rows`` and ``values`` from ``starts[k]`` on."""
        if self._growing:
            self._highs.setOptionValue(*PRIMAL)
        lower = np.zeros(len(cost))
        self._highs.addCols(len(cost), cost, lower, upper, len(rows), _indices(starts), _indices(rows), values)

    def bound(self, columns: Indices | Sequence[int], lower: Floats, upper: Floats) -> None:
        """Change the bounds of *columns*."""
        self._highs.setOptionValue(*DUAL)
        self._highs.changeColsBounds(len(columns), _indices(columns), lower, upper)

    def solve(self, steps_max: int) -> Solution:
        """Return the best solution within *steps_max* simplex steps from the current one."""
        self._highs.setOptionValue("simplex_iteration_limit", max(0, min(steps_max, 2**31 - 1)))
        self._highs.run()
        info, solution = self._highs.getInfo(), self._highs.getSolution()
        self.steps += max(0, info.simplex_iteration_count)
        known = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return Solution(info.objective_function_value, np.array(solution.col_value), np.array(solution.row_dual), known)

    def solve_whole(self, columns: Indices, nodes_max: int, gap: float) -> Solution:
        """Return a solution with whole *columns*, as `solve`: within *gap* of the best, or after *nodes_max* nodes."""
        kind = [highspy.HighsVarType.kInteger] * len(columns)
        self._highs.changeColsIntegrality(len(columns), _indices(columns), np.array(kind))
        for name, value in {**WHOLE_OPTIONS, "mip_max_nodes": nodes_max, "mip_rel_gap": gap}.items():
            self._highs.setOptionValue(name, value)
        checks = count(1)
        self._highs.cbMipInterrupt.subscribe(lambda event: event.interrupt() if next(checks) > CHECKS_MAX else None)
        self._highs.run()
        info, solution = self._highs.getInfo(), self._highs.getSolution()
        known = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        cost, values = info.objective_function_value, np.array(solution.col_value)
        return Solution(cost, values, np.zeros(0), known, info.mip_dual_bound)


def _indices(values: Any) -> NDArray[np.int32]:
    return np.asarray(values, np.int32)
