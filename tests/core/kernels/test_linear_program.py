"""Linear programs by HiGHS."""

from __future__ import annotations

import numpy as np
import pytest

from cluster_core.kernels.linear_program import LinearProgram


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """It writes to the file descriptor, past Python: a banner, its licence, a log of each step."""
    program = LinearProgram()
    program.add_rows(np.array([3.0]), np.array([np.inf]))
    program.add_columns(np.array([1.0, 2.0]), np.array([2.5, 9.0]), [0, 1], [0, 0], np.ones(2))

    relaxed, whole = program.solve(100), program.solve_whole([0, 1], 10, 0.0)

    assert (relaxed.cost, whole.cost) == (3.5, 4.0)
    assert capfd.readouterr() == ("", "")
