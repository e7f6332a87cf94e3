"""What to know of the inputs of a plan before trusting it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cluster_core.kinds import Severity
from cluster_core.memory.model import MemoryBasis
from cluster_core.rebalance.execution.refusals import HEADROOM
from cluster_core.rebalance.stored_plan import PlannedNode
from cluster_core.topology.node import Topology
from schemas.caveats import Caveat, Code
from slotscope.runtime.text import plural
from slotscope.servers.slot_weights import MemoryLimits
from slotscope.sources.slot_weights import OPS_ESTIMATED, Weights

if TYPE_CHECKING:
    from slotscope.sources.slot_activity import Activity


def foreign_load(weights: Weights) -> list[Caveat]:
    """Keys on nodes that do not own their slots."""
    keys = weights.foreign_keys
    message = f"{keys} keys on nodes that do not own their slots are not counted"
    return [Caveat(Severity.WARNING, Code.FOREIGN_LOAD, message)] if keys else []


def estimated_load(resources: Sequence[str]) -> list[Caveat]:
    """Operations that are estimated, not counted."""
    message = (
        f"{OPS_ESTIMATED}: accesses in 1,000 s, estimated from the LFU counters of the dumps (a lower limit with lfu-decay-time above 1); "
        "MONITOR logs have exact counts"
    )
    return [Caveat(Severity.WARNING, Code.OPS_ESTIMATED, message)] if OPS_ESTIMATED in resources else []


def memory_basis(memory: Sequence[MemoryBasis], resources: Sequence[str]) -> list[Caveat]:
    """Models behind memory_bytes, where it is balanced and some keys were not measured with the model of their server."""
    if "memory_bytes" not in resources:
        return []
    caveats = dict.fromkeys(basis.caveat for basis in memory)
    return [Caveat(Severity.WARNING, Code.MEMORY_MODEL, f"memory_bytes: {caveat}") for caveat in caveats if caveat]


def unchecked_capacity(
    capped: Sequence[str], resources: Sequence[str], loads: Mapping[str, Sequence[float]]
) -> list[Caveat]:
    """Capacities of resources that are not balanced: no plan keeps them."""
    return [
        Caveat(
            Severity.WARNING,
            Code.CAPACITY_NOT_KEPT,
            f"the capacity of {name} is not kept: {'it is not balanced' if name in loads else 'its load is unknown'}",
        )
        for name in capped
        if name not in resources
    ]


def left_out(activity: Activity | None, topology: Topology, nodes: Sequence[PlannedNode]) -> list[Caveat]:
    """Masters that are gone and hold nothing, and windows of slots that moved meanwhile."""
    known = {node.id for node in nodes}
    caveats = [
        Caveat(
            Severity.WARNING, Code.GONE, f"master {node.address} ({node.id[:8]}) has failed and has no slots: left out"
        )
        for node in topology.masters()
        if node.id not in known
    ]
    restarted = {figure.slot for figure in activity.figures if figure.restarted} if activity is not None else set()
    if restarted:
        message = f"windows of {len(restarted)} slots that moved, or lost their counters, between polls are left out"
        caveats.append(Caveat(Severity.WARNING, Code.WINDOWS_LEFT_OUT, message))
    return caveats


def memory_limit_caveats(limits: MemoryLimits) -> list[Caveat]:
    """Capacities that come from maxmemory, and masters without one because they evict keys."""
    caveats = []
    if limits.capacity:
        message = (
            f"capacity of memory: {HEADROOM:.0%} of the maxmemory of {plural(len(limits.capacity), 'master')}, less the overhead of the "
            "server; --placement overrides it"
        )
        caveats.append(Caveat.note(Code.CAPACITY_OF_SERVERS, message, "memory_bytes"))
    for policy, count in sorted(Counter(limits.evicting.values()).items()):
        message = (
            f"{plural(count, 'master')} at maxmemory evict{'s' if count == 1 else ''} keys ({policy}): no capacity is kept there, and "
            "slots that arrive evict other keys"
        )
        caveats.append(Caveat.warning(Code.EVICTION, message, "memory_bytes"))
    return caveats
