"""What the data of each master may grow to before its server is at its maxmemory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from cluster_core.rebalance.execution.refusals import HEADROOM
from slotscope.servers.visits import Visit

FULL: Final = 0.95
"""Share of maxmemory from which on a server that may evict keys is taken to stay within it by that."""
NO_EVICTION: Final = "noeviction"


class MemoryLimits(NamedTuple):
    """By master: *capacity* in bytes of its slots' data; *evicting* are policies of those that stay within maxmemory by evicting keys.

    *used* and *maxmemory* are sums over the masters that have a capacity.
    """

    capacity: Mapping[str, int]
    evicting: Mapping[str, str]
    used: int = 0
    maxmemory: int = 0


def memory_limits(visits: Sequence[Visit], held: Mapping[str, int]) -> MemoryLimits:
    """Return how much data masters have room for; *held* is what their slots hold, by node id.

    A server may use `HEADROOM` of its maxmemory, as when slots move, and what it keeps besides data stays: what it *held* may grow by
    what is left.  Who evicts keys is always full, and that is no limit to slots.
    """
    capacity: dict[str, int] = {}
    evicting: dict[str, str] = {}
    sums = [0, 0]
    for visit in visits:
        info, me = visit.checkup, visit.me
        limit, used = info.number("maxmemory"), info.number("used_memory")
        if me is None or not me.is_master or not limit:
            continue
        policy = info.info.get("maxmemory_policy", NO_EVICTION)
        if policy != NO_EVICTION and used >= FULL * limit:
            evicting[me.id] = policy
        else:
            capacity[me.id] = max(1, held.get(me.id, 0) + round(HEADROOM * limit) - used)
            sums = [sums[0] + used, sums[1] + limit]
    return MemoryLimits(capacity, evicting, *sums)
