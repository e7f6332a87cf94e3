"""How fast the loads of a cluster grow: by its newest measurement in the tables that is old enough, a snapshot's or a live plan's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from cluster_core.memory.model import Exactness
from cluster_core.rebalance.goal.outlook import Growth
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.caveats import Caveat, Code
from schemas.rebalance import REBALANCE_SLOTS
from schemas.silver import SNAPSHOTS
from slotscope.plans.stored_plans import plan_rows
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.sources.slot_weights import RESOURCES, is_partial, read_loads

LIVE: Final = "live"
"""What plans are filed under whose weights are those of the servers themselves."""
APART_S_MIN: Final = 3600.0
"""Loads that were measured less apart say little of how they grow."""
MODEL_ERROR: Final = 0.01
"""By which share the memory that a model gives keys of dumps may differ from what servers say of them."""
LOOKED_AT_MAX: Final = 4
"""Measurements that are read to find one of all loads."""
MEMORY: Final = "memory_bytes"


class Weighed(NamedTuple):
    """When loads by resource were measured, and the share by which their memory may be off: None where servers counted it."""

    at: datetime
    loads: Mapping[str, Sequence[float]]
    memory_error: float | None
    is_snapshot: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Earlier:
    """A measurement that is there: *source* is its name in words, *row* that of its snapshot or plan."""

    source: str
    at: datetime
    row: Mapping[str, Any]
    is_snapshot: bool


def growth_since(root: str, nodes: Iterable[str], now: Weighed) -> tuple[Growth | None, list[Caveat]]:
    """Return how the loads of the cluster of *nodes* (ids) grew until *now*, and what is to be known of that; None where nothing tells.

    Memory that was measured in two ways counts where it grew by more than these may be off.
    """
    wanted = now.loads.keys() & set(RESOURCES)
    found: dict[_Earlier, Mapping[str, Sequence[float]]] = {}
    for one in islice(_measurements(root, set(nodes), now.at), LOOKED_AT_MAX):
        found[one] = _loads_of(root, one)
        if wanted <= found[one].keys():
            break
    if not found:
        return None, []
    earlier = next((one for one, loads in found.items() if wanted <= loads.keys()), next(iter(found)))
    loads = found[earlier]
    shared = {name: load for name, load in loads.items() if name in wanted and any(load)}
    if earlier.is_snapshot and not now.is_snapshot and earlier.row["memory_exactness"] != Exactness.MODEL:
        shared.pop(MEMORY, None)
    caveats = []
    if MEMORY in shared:
        error = 0.0 if now.is_snapshot and earlier.is_snapshot else _error(now.memory_error, earlier)
        grown = sum(now.loads[MEMORY]) / sum(shared[MEMORY]) - 1
        if error is None or abs(grown) < error:
            del shared[MEMORY]
        if error != 0:
            caveats = [_memory_caveat(earlier, grown, error)]
    if not shared:
        return None, caveats
    later = {name: now.loads[name] for name in shared}
    return Growth((_utc(now.at) - earlier.at).total_seconds(), shared, later, earlier.source), caveats


def _measurements(root: str, nodes: set[str], now: datetime) -> Iterator[_Earlier]:
    """What was measured of a cluster with one of *nodes* long enough before *now*, the newest first."""
    snapshots = read_rows(root, SNAPSHOTS, where="taken_at is not null") if exists(root, SNAPSHOTS) else []
    found = [
        _Earlier(f"snapshot {row['snapshot_id']}", _utc(row["taken_at"]), row, is_snapshot=True)
        for row in snapshots
        if not is_partial(row)
    ]
    found += [
        _Earlier(f"plan {row['plan_id']}", _utc(row["created_at"]), row, is_snapshot=False)
        for row in plan_rows(root)
        if row["snapshot_id"] == LIVE
    ]  # fmt: skip
    for one in sorted(found, key=lambda one: (one.at, one.source), reverse=True):
        named = one.row["topology" if one.is_snapshot else "document"] or ""
        if (_utc(now) - one.at).total_seconds() >= APART_S_MIN and any(node in named for node in nodes):
            yield one


def _loads_of(root: str, earlier: _Earlier) -> dict[str, list[float]]:
    if earlier.is_snapshot:
        return read_loads(root, earlier.row["snapshot_id"])
    rows = read_rows(root, REBALANCE_SLOTS, plan_id=earlier.row["plan_id"])
    by_slot = sorted(rows, key=lambda row: int(row["slot"]))
    names = dict(by_slot[0]["loads"]) if len(by_slot) == SLOT_COUNT else {}
    return {name: [dict(row["loads"])[name] for row in by_slot] for name in names}


def _error(now: float | None, earlier: _Earlier) -> float | None:
    """By which share growth of memory may be off; None where servers counted it once, and it was measured otherwise the other time."""
    before = MODEL_ERROR if earlier.is_snapshot else earlier.row.get("memory_error")
    if now is None and before is None:
        return 0.0
    return None if now is None or before is None else math.hypot(now, before)


def _memory_caveat(earlier: _Earlier, grown: float, error: float | None) -> Caveat:
    since = f"since {earlier.source}"
    if error is None:
        words = f"memory was measured in another way for {earlier.source}: how it grows is not known"
    elif abs(grown) < error:
        words = f"memory changed by {grown:+.1%} {since}, less than the two may be off ({error:.1%}): how it grows is not known"
    else:
        words = f"memory changed by {grown:+.1%} {since}, give or take {error:.1%}"
    return Caveat.note(Code.GROWTH, words, MEMORY)


def _utc(moment: datetime) -> datetime:
    """A time of a table, which is UTC where it does not say so."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
