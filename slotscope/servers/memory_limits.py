"""Capacity of each master: the bytes of its data at which its server reaches maxmemory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from cluster_core.incidents.symptoms import Checkup
from cluster_core.rebalance.execution.refusals import HEADROOM

FULL: Final = 0.95
"""Share of maxmemory above which a server with an eviction policy counts as evicting."""
NO_EVICTION: Final = "noeviction"
ASKED: Final = ("maxmemory", "used_memory", "maxmemory_policy")
"""The fields of INFO that are read."""


class MemoryLimits(NamedTuple):
    """By master: *capacity* in bytes of its slots' data; *evicting* are policies of those that stay within maxmemory by evicting keys."""

    capacity: Mapping[str, int]
    evicting: Mapping[str, str]


def memory_limits(infos: Mapping[str, Mapping[str, str]], held: Mapping[str, float]) -> MemoryLimits:
    """Return how much data masters have room for: *infos* are the fields of their INFO, *held* is what their slots hold, by node id.

    A server may use `HEADROOM` of its maxmemory, as when slots move, and what it keeps besides data stays: what it *held* may grow by
    what is left.  Who evicts keys is always full, and that is no limit to slots.
    """
    capacity: dict[str, int] = {}
    evicting: dict[str, str] = {}
    for node, info in infos.items():
        checkup = Checkup(node, info=info)
        limit, used = checkup.number("maxmemory"), checkup.number("used_memory")
        if not limit:
            continue
        policy = info.get("maxmemory_policy", NO_EVICTION)
        if policy != NO_EVICTION and used >= FULL * limit:
            evicting[node] = policy
        else:
            capacity[node] = max(1, round(held.get(node, 0) + HEADROOM * limit - used))
    return MemoryLimits(capacity, evicting)
