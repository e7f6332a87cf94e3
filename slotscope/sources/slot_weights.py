"""Weight of each slot from the tables of the key distribution: one figure a slot and resource, several snapshots combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster_core.load.unread import FileUnread, UnreadInputs, together
from cluster_core.load.windows import combine_windows
from cluster_core.memory.model import Exactness, MemoryBasis
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.gold import KEY_USE
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from slotscope.runtime.errors import InputError
from slotscope.runtime.storage.delta_files import exists, read_rows

RESOURCES = ("serialized_bytes", "memory_bytes", "keys", "ops")
"""Resources that silver/slot_load has."""
OPS_ESTIMATED = "ops_estimated"
"""Accesses a second by slot, estimated from the LFU counters of a dump (gold/key_use): where nobody counted operations."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Loads by resource; *topology* is CLUSTER NODES text of the newest snapshot, if it has one; *memory* the basis of memory_bytes.

    *unread* is the unreadable part of the snapshots' inputs; *foreign_keys* lie on nodes that do not own their slots, uncounted.
    """

    loads: dict[str, list[float]]
    topology: str | None
    unread: UnreadInputs
    foreign_keys: int
    memory: tuple[MemoryBasis, ...] = ()


def read_weights(root: str, snapshots: Sequence[str], *, how: str) -> Weights:
    """Return the weights of *snapshots* of one cluster, oldest first; InputError for one that is not there or not complete."""
    if not snapshots:
        return Weights({}, None, UnreadInputs(), 0)
    heads = [_head(root, name) for name in snapshots]
    clusters = sorted({head["cluster"] for head in heads if head.get("cluster")})
    if len(clusters) > 1:
        raise InputError(f"--snapshot: the snapshots are of several clusters: {', '.join(clusters)}")
    windows = [read_loads(root, name) for name in snapshots]
    loads = {
        resource: combine_windows([window[resource] for window in windows], how)
        for resource in RESOURCES
        if all(resource in window for window in windows)
    }
    if "ops" not in loads and (estimated := _estimated_ops(root, snapshots[-1])):
        loads[OPS_ESTIMATED] = estimated
    if len(snapshots) == 1:
        loads = {name: [int(value) for value in load] for name, load in loads.items()}
    return Weights(
        loads,
        heads[-1]["topology"],
        together(_unread(root, head) for head in heads),
        int(sum(window["foreign"][0] for window in windows)),
        tuple(filter(None, map(memory_basis, heads))),
    )


def _estimated_ops(root: str, snapshot_id: str) -> list[float]:
    """Accesses in 1,000 s by slot; empty where no dump of the snapshot holds counters."""
    rates = [0.0] * SLOT_COUNT
    if not exists(root, KEY_USE):
        return []
    for row in read_rows(root, KEY_USE, where="ops_per_s is not null", snapshot_id=snapshot_id, scope="slot"):
        rates[int(row["scope_value"])] = round(row["ops_per_s"] * 1000)
    return rates if any(rates) else []


def is_partial(head: Mapping[str, Any]) -> bool:
    """Whether a row of silver/snapshots says that some of its inputs could not be read; older versions only counted bad records."""
    known = head.get("partial")
    return bool(head["bad_records"] if known is None else known)


def _unread(root: str, head: dict[str, Any]) -> UnreadInputs:
    """Return the unreadable part of a snapshot's inputs; a snapshot of an older version tells only whether there is one."""
    if not is_partial(head):
        return UnreadInputs((), head.get("file_bytes") or 0, head["keys"])
    snapshot_id = head["snapshot_id"]
    if head.get("partial") is None:
        return UnreadInputs((FileUnread(f"an input of snapshot {snapshot_id}", "", bad_records=head["bad_records"]),))
    rows = read_rows(root, SOURCES, snapshot_id=snapshot_id)
    files = tuple(
        FileUnread(
            row["source"], row["kind"], row["file_bytes"] or None, row["unread_bytes"], row["records"], row["unread_records"],
            "ends_early" in row["facts"], row["bad_records"],
        )
        for row in sorted(rows, key=lambda row: str(row["source"]))
        if row["partial"]
    )  # fmt: skip
    return UnreadInputs(files, head["file_bytes"], head["keys"])


def memory_basis(head: dict[str, Any]) -> MemoryBasis | None:
    """The basis of the memory figures in a row of ``silver/snapshots``; None where there are none."""
    if head.get("memory_exactness") is None:
        return None
    return MemoryBasis(head["memory_model"], Exactness(head["memory_exactness"]), head["unmeasured_keys"])


def _head(root: str, snapshot_id: str) -> dict[str, Any]:
    rows = read_rows(root, SNAPSHOTS, snapshot_id=snapshot_id)
    if not rows:
        known = sorted(row["snapshot_id"] for row in read_rows(root, SNAPSHOTS))[-8:]
        raise InputError(f"--snapshot {snapshot_id}: no finished snapshot of that name; there are {', '.join(known)}")
    return rows[0]


def read_loads(root: str, snapshot_id: str) -> dict[str, list[float]]:
    """Return the sums of one snapshot by slot; a resource that a row does not know is left out.  ``foreign`` counts keys on other nodes."""
    rows = read_rows(root, SLOT_LOAD, snapshot_id=snapshot_id)
    loads: dict[str, list[float]] = {name: [0] * SLOT_COUNT for name in RESOURCES}
    unknown: set[str] = set()
    foreign = 0
    for row in rows:
        if row["node_id"] != row["owner_id"] and row["node_id"] is not None and row["owner_id"] is not None:
            foreign += row["keys"]
            continue
        for name in RESOURCES:
            if row[name] is not None:
                loads[name][row["slot"]] += row[name]
            elif row["keys"]:
                unknown.add(name)
    return {
        **{name: load for name, load in loads.items() if name not in unknown and (name == "keys" or any(load))},
        "foreign": [foreign],
    }
