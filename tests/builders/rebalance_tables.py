"""A finished snapshot of a small cluster in the tables, without reading dumps: what rebalance-plan starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from cluster_core.load.unread import FileUnread
from cluster_core.slots.key_slot import SLOT_COUNT
from schemas.gold import BIG_KEYS, HASH_TAGS
from schemas.silver import SLOT_LOAD, SNAPSHOTS, SOURCES
from tests.builders.stored_rows import store

LOADED = 64
"""Every so manieth slot has keys: planning takes time by the slots that do."""
FILE_COLUMNS = ("source", "kind", "file_bytes", "unread_bytes", "records", "unread_records", "bad_records")


def node_id(number: int) -> str:
    """Id of master *number*."""
    return f"{number:x}" * 40


def topology(owners: Sequence[int], masters: int, replicas: Mapping[int, int] | None = None) -> str:
    """CLUSTER NODES text: *owners* is the number of each slot's master, *replicas* maps a node's number to its master's."""
    lines = []
    for number in range(masters):
        held = " ".join(str(slot) for slot, owner in enumerate(owners) if owner == number)
        flags = "myself,master" if not number else "master"
        lines.append(
            f"{node_id(number)} 10.0.0.{number + 1}:7000@17000 {flags} - 0 0 {number + 1} connected {held}".rstrip()
        )
    for number, master in (replicas or {}).items():
        lines.append(f"{node_id(number)} 10.0.0.{number + 1}:7000@17000 slave {node_id(master)} 0 0 1 connected")
    return "\n".join(lines) + "\n"


def write_snapshot(
    root: Path | str, owners: Sequence[int], bytes_by_slot: Mapping[int, int], *, masters: int = 3, name: str = "current",
    tags: Mapping[bytes, tuple[int, int, int]] | None = None, keys: Mapping[bytes, tuple[int, int]] | None = None,
    memory_by_slot: Mapping[int, int] | None = None, unread: FileUnread | None = None,
    taken_at: datetime | None = None, exactness: str | None = None, cluster: str | None = None, **more: Any,
) -> None:  # fmt: skip
    """Write silver/slot_load and silver/snapshots: 1000 bytes and 10 keys in every slot of `LOADED`, none in others, but for *bytes_by_slot*.

    *memory_by_slot* (2000 bytes for other slots) is memory, unknown if it is None, and *exactness* how exact its model is.  *unread* is an input that could not be read in full.

    *tags* (slot, keys, bytes) go to gold/hash_tags, *keys* (slot, bytes) to gold/big_keys.
    """
    rows = []
    for slot in range(SLOT_COUNT):
        usual, owner = int(slot % LOADED == 0), node_id(owners[slot])
        size = bytes_by_slot.get(slot, 1000 * usual)
        row = {"slot": slot, "node_id": owner, "owner_id": owner, "keys": size // 100, "serialized_bytes": size}
        memory = None if memory_by_slot is None else memory_by_slot.get(slot, 2000 * usual)
        rows.append({**row, "expires": 0, "memory_bytes": memory, "ops": None, "partial": unread is not None})
    head = {
        "keys": sum(row["keys"] for row in rows),
        "serialized_bytes": None,
        "bad_records": 0,
        "warnings": [],
        "taken_at": taken_at,
        "memory_exactness": exactness,
        "partial": unread is not None,
        "file_bytes": 10_000_000,
    }
    sources = []
    if unread is not None:
        facts = {"ends_early": "true"} if unread.is_cut else {}
        columns = {name: getattr(unread, name) for name in FILE_COLUMNS}
        file = {
            **columns,
            "keys": 1,
            "node_id": None,
            "facts": facts,
            "partial": True,
            "unread_share": unread.share,
        }
        sources.append(file)
    listed = [
        {"hash_tag": tag, "slot": slot, "node_id": None, "keys": count, "serialized_bytes": size, "expires": 0,
         "keys_error": 0, "bytes_error": 0, "rank_keys": 1, "rank_bytes": 1}
        for tag, (slot, count, size) in (tags or {}).items()
    ]  # fmt: skip
    largest = [
        {"scope": "slot", "scope_value": str(slot), "rank": 1, "node_id": None, "db": 0, "key": key, "slot": slot,
         "hash_tag": None, "serialized_bytes": size, "source": "f"}
        for key, (slot, size) in (keys or {}).items()
    ]  # fmt: skip
    snapshot = [{**head, "topology": topology(owners, masters, **more)}]
    written = {SLOT_LOAD: rows, SNAPSHOTS: snapshot, SOURCES: sources, HASH_TAGS: listed, BIG_KEYS: largest}
    store(str(root), name, written, job="key-slots", cluster=cluster)
