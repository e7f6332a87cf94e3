"""The planner's loops compiled: the very functions of `cluster_core.rebalance.bound.cover`, `.relaxation` and `.search`, with numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.compiled import compiled
from cluster_core.rebalance.bound import cover, relaxation
from cluster_core.rebalance.search import anneal as search
from cluster_core.rebalance.search.engine import Engine


def floats(values: Iterable[float]) -> NDArray[np.float64]:
    """Return *values* as float64."""
    return np.array(list(values), np.float64)


def whole(values: Iterable[int]) -> NDArray[np.int64]:
    """Return *values* as int64."""
    return np.array(list(values), np.int64)


def _engine() -> Engine:
    covers = compiled(cover, "solve", "fill_basis", "enter", "price", "dive")
    walks = compiled(search, "step", "pick", "measure", "shift", "anneal", "mend")
    programs = compiled(relaxation, "fee", "candidate", "begin", "charge", "relax", "appraise", "weigh")
    return Engine(
        floats, whole, covers["price"], covers["dive"], walks["anneal"], walks["mend"],
        programs["relax"], programs["appraise"], programs["weigh"],
    )  # fmt: skip


ENGINE = _engine()
"""What the planner runs on: its own functions, compiled."""
