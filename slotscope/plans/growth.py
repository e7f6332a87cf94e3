"""How fast the loads of a cluster grow: since its newest earlier measurement of the same kind, a snapshot of dumps or a live plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, NamedTuple

from cluster_core.rebalance.goal.outlook import Growth
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.rebalance import REBALANCE_SLOTS
from schemas.silver import SNAPSHOTS
from slotscope.plans.stored_plans import plan_rows
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.sources.slot_weights import RESOURCES, is_partial, read_loads

LIVE: Final = "live"
"""The `snapshot_id` of plans from loads of live servers."""
APART_S_MIN: Final = 3600.0
"""Shortest time between two measurements."""
LOOKED_AT_MAX: Final = 4
"""Measurements that are read to find all loads."""
MEMORY: Final = "memory_bytes"


class Weighed(NamedTuple):
    """Loads by resource at a time; *memory_error* is the share by which live memory may be off, None where servers count it."""

    at: datetime
    loads: Mapping[str, Sequence[float]]
    memory_error: float | None = None
    is_snapshot: bool = False


def growth_since(root: str, nodes: Iterable[str], now: Weighed) -> Growth | None:
    """Return how the loads of the cluster of *nodes* (ids) grew until *now*; None without an earlier measurement.

    Memory of live servers counts where both were measured in one way, and it grew by more than they may be off.
    """
    wanted = now.loads.keys() & set(RESOURCES)
    best: Growth | None = None
    for source, earlier in islice(_earlier(root, set(nodes), now), LOOKED_AT_MAX):
        shared = {name: load for name, load in earlier.loads.items() if name in wanted and any(load)}
        if MEMORY in shared and not now.is_snapshot and not _is_comparable(earlier, now):
            del shared[MEMORY]
        if shared and (best is None or wanted <= earlier.loads.keys()):
            later = {name: now.loads[name] for name in shared}
            best = Growth((_utc(now.at) - earlier.at).total_seconds(), shared, later, source)
        if wanted <= earlier.loads.keys():
            break
    return best


def _is_comparable(earlier: Weighed, now: Weighed) -> bool:
    errors = (earlier.memory_error, now.memory_error)
    if None in errors:
        return errors == (None, None)
    grown = sum(now.loads[MEMORY]) / sum(earlier.loads[MEMORY]) - 1
    return abs(grown) >= math.hypot(*(error or 0.0 for error in errors))


def _earlier(root: str, nodes: set[str], now: Weighed) -> Iterator[tuple[str, Weighed]]:
    """Yield the earlier measurements of a cluster with one of *nodes*, each with its name, newest first."""
    if now.is_snapshot:
        snapshots = read_rows(root, SNAPSHOTS, where="taken_at is not null") if exists(root, SNAPSHOTS) else []
        rows = [(_utc(row["taken_at"]), row["snapshot_id"], row, row["topology"]) for row in snapshots if not is_partial(row)]  # fmt: skip
    else:
        plans = [row for row in plan_rows(root) if row["snapshot_id"] == LIVE]
        rows = [(_utc(row["created_at"]), row["plan_id"], row, row["document"]) for row in plans]
    for at, name, row, named in sorted(rows, key=lambda row: row[:2], reverse=True):
        if (_utc(now.at) - at).total_seconds() < APART_S_MIN or not any(node in (named or "") for node in nodes):
            continue
        if now.is_snapshot:
            yield f"snapshot {name}", Weighed(at, read_loads(root, name), is_snapshot=True)
        else:
            yield f"plan {name}", Weighed(at, _loads_of_plan(root, name), row.get("memory_error"))


def _loads_of_plan(root: str, plan_id: str) -> dict[str, list[float]]:
    by_slot = sorted(read_rows(root, REBALANCE_SLOTS, plan_id=plan_id), key=lambda row: int(row["slot"]))
    names = dict(by_slot[0]["loads"]) if len(by_slot) == SLOT_COUNT else {}
    return {name: [dict(row["loads"])[name] for row in by_slot] for name in names}


def _utc(moment: datetime) -> datetime:
    """A time of a table, which is UTC where it does not say so."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
