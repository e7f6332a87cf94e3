"""The planner's loops compiled: the very functions of `cluster_core.rebalance.bound.cover`, `.relaxation` and `.search`, with numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import njit
from cluster_core.rebalance.bound import cover, relaxation
from cluster_core.rebalance.search import anneal as search
from cluster_core.rebalance.search.engine import Engine


def floats(values: Iterable[float]) -> NDArray[np.float64]:
    """Return *values* as float64."""
    return np.array(list(values), np.float64)


def whole(values: Iterable[int]) -> NDArray[np.int64]:
    """Return *values* as int64."""
    return np.array(list(values), np.int64)


def _compile(module: ModuleType, *names: str) -> dict[str, Callable[..., Any]]:
    """Compile functions of *module*, callees first: each sees the compiled ones in place of the plain ones."""
    seen: dict[str, Any] = dict(vars(module))
    for name in names:
        plain = cast(FunctionType, seen[name])
        twin = FunctionType(plain.__code__, seen, name, plain.__defaults__)
        twin.__module__ = __name__
        seen[name] = njit()(twin)
    return seen


def _engine() -> Engine:
    covers = _compile(cover, "solve", "fill_basis", "enter", "price", "dive")
    walks = _compile(search, "step", "pick", "measure", "shift", "anneal", "mend")
    programs = _compile(relaxation, "fee", "candidate", "begin", "charge", "relax", "appraise", "weigh")
    return Engine(
        floats, whole, covers["price"], covers["dive"], walks["anneal"], walks["mend"],
        programs["relax"], programs["appraise"], programs["weigh"],
    )  # fmt: skip


ENGINE = _engine()
"""What the planner runs on: its own functions, compiled."""
