"""The number crunching that a plan needs, as a value: the plain functions here, compiled ones from the kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cluster_core.rebalance.bound.cover import dive, price
from cluster_core.rebalance.bound.relaxation import appraise, relax, weigh
from cluster_core.rebalance.search.anneal import anneal, mend


class Engine(NamedTuple):
    """Array constructors and the loops; `cluster_core.kernels.rebalance_engine.ENGINE` has the same, compiled."""

    floats: Callable[[Iterable[float]], Any]
    whole: Callable[[Iterable[int]], Any]
    price: Callable[..., int]
    dive: Callable[..., int]
    anneal: Callable[..., float]
    mend: Callable[..., int]
    relax: Callable[..., int]
    appraise: Callable[..., float]
    weigh: Callable[..., float]


def floats(values: Iterable[float]) -> list[float]:
    """Return *values* as floats: the plain engine rounds where the compiled one does."""
    return [float(value) for value in values]


PLAIN = Engine(floats, list, price, dive, anneal, mend, relax, appraise, weigh)
