"""Rebalancing problems for tests, made from a seed."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from cluster_core.rebalance.goal.problem import Master, Problem


def problem(
    loads: list[int] | dict[str, Any], owners: str | list[str], masters: str | list[Master], **more: Any
) -> Problem:
    """A problem in one resource (or those given), owners as a word of one-letter master ids."""
    by_name = loads if isinstance(loads, dict) else {"serialized_bytes": loads}
    all_masters = [Master(name) for name in masters] if isinstance(masters, str) else masters
    return Problem(by_name, list(owners), all_masters, **more)


def random_problem(seed: int, masters: int, slots: int, *, empty: int = 0, skew: float = 0.5, **more: Any) -> Problem:
    """Three resources of Zipf-like loads, contiguous owners; the last *empty* masters own nothing."""
    chance = random.Random(seed)
    names = [f"n{number:04d}" for number in range(masters)]
    old = masters - empty
    loads = {}
    for name, mean in (("serialized_bytes", 100_000), ("keys", 200), ("ops", 3_000)):
        order = list(range(1, slots + 1))
        chance.shuffle(order)
        loads[name] = [1 + int(mean * (slots / rank) ** skew) for rank in order]
    owners = [names[slot * old // slots] for slot in range(slots)]
    return Problem(loads, owners, [Master(name) for name in names], **more)


def applied(before: Problem, owners: tuple[str, ...]) -> Problem:
    """The same request after a plan was carried out."""
    return replace(before, owners=owners)
