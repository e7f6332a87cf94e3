"""Programs with whole numbers, solved by HiGHS: some columns are 0 or 1, and the search ends after a number of cases.

What is said of `linear_program` holds here, too: whatever it finds is advice, and the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import highspy
import numpy as np

from cluster_core.kernels.linear_program import INFINITE, SOLVER, Floats, Indices

OPTIONS: dict[str, bool | int | float] = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_rel_gap": 1e-3}


STEP_WORK, LOOK_WORK = 130_000, 2_500_000
"""Work of a simplex step with all that goes with it, and of what is done between two times that *stop* is asked."""


class Entries(NamedTuple):
    """A matrix by column: the entries of column k are *rows* and *values* from ``starts[k]`` on; *starts* ends with how many there are."""

    starts: Indices
    rows: Indices
    values: Floats


class Limits(NamedTuple):
    """What columns and rows are within; columns begin at 0."""

    upper: Floats
    least: Floats
    most: Floats


class Found(NamedTuple):
    """The values of the columns, and how many simplex steps it took; *known* is false where no whole numbers were found."""

    values: Floats
    steps: int
    known: bool


def solve_whole(
    cost: Floats,
    limits: Limits,
    entries: Entries,
    whole: int,
    *,
    cases_max: int,
    start: Floats | None = None,
    enough: float = -INFINITE,
    stop: Callable[[], bool] | None = None,
) -> Found:
    """Return the cheapest values found, the first *whole* columns 0 or 1, from *start* on; a cost of *enough* ends the search.

    With *stop*, which is asked now and then whether to end, good values are looked for soon, rather than proof that there are no better ones.
    """
    highs = SOLVER()
    for name, value in {**OPTIONS, "mip_max_nodes": cases_max, "objective_target": enough}.items():
        highs.setOptionValue(name, value)
    if stop is not None:
        highs.cbMipInterrupt.subscribe(partial(_end, stop))
        for name in ("mip_allow_restart", "mip_allow_cut_separation_at_nodes"):
            highs.setOptionValue(name, False)
    columns, rows = len(cost), len(limits.least)
    nothing = np.zeros(0, np.int32)
    highs.addRows(rows, limits.least, limits.most, 0, np.zeros(rows, np.int32), nothing, np.zeros(0))
    starts, places = entries.starts[:-1].astype(np.int32), entries.rows.astype(np.int32)
    highs.addCols(columns, cost, np.zeros(columns), limits.upper, len(places), starts, places, entries.values)
    if whole:
        each = np.arange(whole, dtype=np.int32)
        highs.changeColsIntegrality(whole, each, np.full(whole, highspy.HighsVarType.kInteger))
    if start is not None:
        highs.setSolution(columns, np.arange(columns, dtype=np.int32), start)
    highs.run()
    info = highs.getInfo()
    known = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return Found(np.array(highs.getSolution().col_value), max(0, info.simplex_iteration_count), known)


def _end(stop: Callable[[], bool], event: Any) -> None:
    event.data_in.user_interrupt = stop()
