"""What each slot weighs, from the tables of the key distribution: one figure a slot and resource, several snapshots combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cluster_core.memory.basis import Exactness, MemoryBasis
from cluster_core.rebalance.loads import combine_windows
from cluster_core.slots.key_slot import SLOT_COUNT
from jobs.runtime.delta_files import read_rows
from jobs.runtime.errors import InputError
from schemas.silver import SLOT_LOAD, SNAPSHOTS

RESOURCES = ("serialized_bytes", "memory_bytes", "keys", "ops")
"""Resources that silver/slot_load has."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Loads by resource; *topology* is CLUSTER NODES text of the newest snapshot, if it has one; *memory* what memory_bytes rests on."""

    loads: dict[str, list[float]]
    topology: str | None
    bad_records: int
    warnings: tuple[str, ...]
    memory: tuple[MemoryBasis, ...] = ()


def read_weights(root: str, snapshots: Sequence[str], *, how: str, smoothing: float) -> Weights:
    """Return the weights that *snapshots*, oldest first, have together; InputError for one that is not there or not complete."""
    if not snapshots:
        return Weights({}, None, 0, ())
    heads = [_head(root, name) for name in snapshots]
    windows = [_loads(root, name) for name in snapshots]
    loads = {
        resource: combine_windows([window[resource] for window in windows], how, smoothing=smoothing)
        for resource in RESOURCES
        if all(resource in window for window in windows)
    }
    if len(snapshots) == 1:
        loads = {name: [int(value) for value in load] for name, load in loads.items()}
    foreign = sum(window["foreign"][0] for window in windows)
    warnings = (
        [f"{int(foreign)} keys lie on nodes that do not own their slots: they are not counted"] if foreign else []
    )
    return Weights(
        loads,
        heads[-1]["topology"],
        sum(head["bad_records"] for head in heads),
        tuple(warnings),
        tuple(filter(None, map(_memory_basis, heads))),
    )


def _memory_basis(head: dict[str, Any]) -> MemoryBasis | None:
    if head.get("memory_exactness") is None:
        return None
    return MemoryBasis(head["memory_model"], Exactness(head["memory_exactness"]), head["unmeasured_keys"])


def _head(root: str, snapshot_id: str) -> dict[str, Any]:
    rows = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id)
    if not rows:
        known = sorted(row["snapshot_id"] for row in read_rows(root, SNAPSHOTS))[-8:]
        raise InputError(f"--snapshot {snapshot_id}: no finished snapshot of that name; there are {', '.join(known)}")
    return rows[0]


def _loads(root: str, snapshot_id: str) -> dict[str, list[float]]:
    """Sums of one snapshot; a resource that a row does not know is left out.  ``foreign`` counts keys on other nodes."""
    rows = read_rows(root, SLOT_LOAD, snapshot_id=snapshot_id)
    found: dict[str, list[float]] = {name: [0] * SLOT_COUNT for name in RESOURCES}
    unknown: set[str] = set()
    foreign = 0
    for row in rows:
        if row["node_id"] != row["owner_id"] and row["node_id"] is not None and row["owner_id"] is not None:
            foreign += row["keys"]
            continue
        for name in RESOURCES:
            if row[name] is not None:
                found[name][row["slot"]] += row[name]
            elif row["keys"]:
                unknown.add(name)
    return {
        **{name: load for name, load in found.items() if name not in unknown and (name == "keys" or any(load))},
        "foreign": [foreign],
    }
