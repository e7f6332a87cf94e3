"""What a snapshot shows of a plan that was carried out: owners from its topology, loads from its tables.  No Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.rebalance.audit import Measured, NodeView
from cluster_core.slots.key_slot import SLOT_COUNT
from cluster_core.topology.nodes_text import read_nodes
from schemas.activity import SLOT_ACTIVITY
from schemas.silver import SLOT_LOAD, SNAPSHOTS
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows
from slotscope.sources.slot_weights import is_partial

COLUMNS = ("keys", "serialized_bytes", "memory_bytes", "ops")
"""Resources that silver/slot_load may hold."""


@dataclass(frozen=True, slots=True)
class SnapshotEvidence:
    """Rows of one snapshot: *taken_ms* is the newest time of its dumps, None if not known."""

    name: str
    taken_ms: int | None
    view: NodeView
    loads: Sequence[Mapping[str, Any]]
    activity: Sequence[Mapping[str, Any]]
    is_partial: bool = False

    def left_behind(self, moved: Mapping[int, str]) -> dict[tuple[str, int], int]:
        """Keys of *moved* slots (slot to former owner) on the former owners."""
        left = {(source, slot): 0 for slot, source in moved.items()}
        for row in self.loads:
            if (row["node_id"], row["slot"]) in left:
                left[row["node_id"], row["slot"]] += row["keys"]
        return left

    def measure(self, resource: str, moved: Mapping[int, str], moved_ms: int | None) -> Measured:
        """Load of each master in *resource*; flagged where counters may be from before the moves."""
        if resource in COLUMNS and any(row[resource] is not None for row in self.loads):
            loads: dict[str, float] = {}
            for row in self.loads:
                node = row["node_id"] or row["owner_id"] or ""
                loads[node] = loads.get(node, 0.0) + (row[resource] or 0)
            doubt = self._doubt(moved_ms)
            if resource == "ops" and moved and not doubt:
                doubt = "the operations may have been counted before the slots moved"
            return Measured(resource, loads, f"silver/slot_load of {self.name}", doubt=doubt)
        return self._measure_activity(resource, moved, moved_ms)

    def _measure_activity(self, resource: str, moved: Mapping[int, str], moved_ms: int | None) -> Measured:
        rows = [row for row in self.activity if row["metric"] == resource]
        basis = f"silver/slot_activity of {self.name}"
        if not rows:
            return Measured(resource, {}, basis, doubt=f"snapshot {self.name} does not hold it")
        loads: dict[str, float] = {}
        for row in rows:
            owner = self.view.owners[row["slot"]]
            loads[owner] = loads.get(owner, 0.0) + row["value"]
        restarted = sum(row["restarted"] > 0 for row in rows if row["slot"] in moved)
        doubt = self._doubt(moved_ms)
        if restarted and not doubt:
            doubt = f"the counters of {restarted} moved slots began again at 0 within its windows"
        return Measured(resource, loads, basis, doubt=doubt)

    def _doubt(self, moved_ms: int | None) -> str:
        if self.is_partial:
            return f"snapshot {self.name} is partial: some of its inputs could not be read"
        if moved_ms is not None and self.taken_ms is not None and self.taken_ms < moved_ms:
            return f"snapshot {self.name} was taken before the last slot moved"
        return ""


def read_snapshot(root: str, name: str) -> SnapshotEvidence:
    """Return the rows of snapshot *name*; InputError if it is not there or has no owners."""
    found = read_rows(root, SNAPSHOTS, snapshot_id=name) if exists(root, SNAPSHOTS) else []
    if not found:
        raise InputError(f"{root}: no finished snapshot {name}; slotscope key-slots makes one")
    taken = found[0]["taken_at"]
    loads = read_rows(root, SLOT_LOAD, snapshot_id=name)
    return SnapshotEvidence(
        name,
        None if taken is None else round(taken.timestamp() * 1000),
        _view(name, found[0]["topology"], loads),
        loads,
        read_rows(root, SLOT_ACTIVITY, snapshot_id=name) if exists(root, SLOT_ACTIVITY) else [],
        is_partial(found[0]),
    )


def _view(name: str, topology: str | None, loads: Sequence[Mapping[str, Any]]) -> NodeView:
    where = f"snapshot {name}"
    if topology:
        try:
            return NodeView.of(where, read_nodes(topology.encode("utf-8", "surrogateescape"), source=where))
        except DecodeError as error:
            raise InputError(str(error)) from error
    owners = [""] * SLOT_COUNT
    for row in loads:
        owners[row["slot"]] = row["owner_id"] or ""
    if not any(owners):
        raise InputError(f"{where} was made without --topology: who owns its slots is not known")
    return NodeView(where, owners)
