"""What the map of the 16384 slots draws: columns of figures, owners, the largest key and tag of each slot."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from slotscope.reports.keyspace.figures import node_names
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.reports.page import embedded_json
from slotscope.runtime import text

DATA_BYTES_MAX = 570_000
"""What the data of the map may take of a page; the names of the largest keys lose their middles for it."""
_NAME_LIMITS = (60, 40, 32, 28, 24, 20, 18, 16, 14, 12, 10, 8)
TAG_LENGTH_MAX = 40


def slot_data(report: KeyspaceReport) -> dict[str, Any]:
    """Return what the map of a snapshot needs, as columns of 16384 entries; -1 stands for no owner."""
    slots = report.slots
    data: dict[str, Any] = {
        "snapshot": text.printable(report.snapshot_id, 80),
        "nodes": [
            {
                "name": text.printable(name, 40),
                "id": text.printable(node.node_id or "", 40),
                "address": text.printable(node.address, 80),
            }
            for node, name in zip(report.nodes, node_names(report.nodes), strict=True)
        ],
        "keys": [slot.keys for slot in slots],
        "bytes": _sizes(slot.serialized_bytes for slot in slots),
        "memory": _sizes(slot.memory_bytes for slot in slots),
        "expires": [slot.expires for slot in slots],
        "topKeyBytes": [slot.top_key_bytes if slot.top_key_memory is None else slot.top_key_memory for slot in slots],
        "topTag": _top_tags(report),
    }
    data["topKey"] = _top_keys(report, DATA_BYTES_MAX - len(embedded_json(data)))
    return data | {"owner": [-1 if slot.owner is None else slot.owner for slot in slots]}


def owner_runs(owners: Iterable[int]) -> list[tuple[int, int]]:
    """Owners of the slots as (owner, number of slots in a row): most have whole ranges."""
    return [(owner, sum(1 for _ in run)) for owner, run in groupby(owners)]


def _sizes(values: Iterable[int | None]) -> list[int] | None:
    """Return *values* with 0 for unknown ones; None where all are."""
    found = list(values)
    return [value or 0 for value in found] if any(value is not None for value in found) else None


def _top_keys(report: KeyspaceReport, room: int) -> list[str | None]:
    """Return the largest key of every slot, with as much of each name as *room* bytes allow.

    The smaller keys have none (empty) where some of each is too much.
    """
    found: list[str | None] = []
    for limit in _NAME_LIMITS:
        found = [None if slot.top_key is None else text.shown(slot.top_key, limit) for slot in report.slots]
        if sum(_bytes_of(name) for name in found) <= room:
            return found
    room -= 3 * len(found)
    largest = sorted(range(len(found)), key=lambda slot: -(report.slots[slot].top_key_bytes or 0))
    kept: list[str | None] = [None if name is None else "" for name in found]
    for slot in largest:
        room -= _bytes_of(found[slot])
        if room < 0:
            break
        kept[slot] = found[slot]
    return kept


def _bytes_of(name: str | None) -> int:
    """What a name takes in the page: markup is escaped in six characters."""
    return (
        5 if name is None else len(name.encode()) + 3 + 5 * sum(name.count(mark) for mark in "<>&") + name.count("\\")
    )


def _top_tags(report: KeyspaceReport) -> dict[int, str]:
    """The heaviest known hash tag of a slot with its keys; slots without one are left out."""
    found: dict[int, str] = {}
    for tag in report.hash_tags:  # heaviest first
        if tag.slot is not None and tag.slot not in found:
            found[tag.slot] = f"{{{text.shown(tag.name, TAG_LENGTH_MAX)}}}: {text.plural(tag.keys, 'key')}"
    return found
