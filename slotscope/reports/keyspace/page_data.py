"""What the page of a snapshot draws: the map of the 16384 slots, and prefixes as a tree by their weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from slotscope.reports.keyspace.figures import Weight, folded_prefixes, node_names, totals, weighed_by
from slotscope.reports.keyspace.report import KeyspaceReport
from slotscope.reports.records import Row
from slotscope.runtime import text

NAME_LENGTH_MAX = 24
"""Characters of the name of the largest key of a slot."""
TAG_LENGTH_MAX = 40
SHARE_MIN = 0.002
"""A prefix of a smaller share of the whole is not drawn."""
LABEL_LENGTH_MAX = 40


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
        "topKey": [None if slot.top_key is None else text.shown(slot.top_key, NAME_LENGTH_MAX) for slot in slots],
        "topTag": _top_tags(report),
    }
    return data | {"owner": [-1 if slot.owner is None else slot.owner for slot in slots]}


def owner_runs(owners: Iterable[int]) -> list[tuple[int, int]]:
    """Owners of the slots as (owner, number of slots in a row): most have whole ranges."""
    return [(owner, sum(1 for _ in run)) for owner, run in groupby(owners)]


def _sizes(values: Iterable[int | None]) -> list[int] | None:
    """Return *values* with 0 for unknown ones; None where all are."""
    found = list(values)
    return [value or 0 for value in found] if any(value is not None for value in found) else None


def _top_tags(report: KeyspaceReport) -> dict[int, str]:
    """The heaviest known hash tag of a slot with its keys; slots without one are left out."""
    found: dict[int, str] = {}
    for tag in report.hash_tags:  # heaviest first
        if tag.slot is not None and tag.slot not in found:
            found[tag.slot] = f"{{{text.shown(tag.name, TAG_LENGTH_MAX)}}}: {text.plural(tag.keys, 'key')}"
    return found


@dataclass(slots=True)
class PrefixNode:
    """A prefix, or all keys (an empty name), with the prefixes below it, the heaviest first; *use* where it is recorded."""

    group: Row
    weight: int
    use: Row | None = None
    children: list[PrefixNode] = field(default_factory=list)


def prefix_tree(report: KeyspaceReport) -> PrefixNode | None:
    """Return all keys and the prefixes below them; None where no prefix is worth drawing."""
    by, whole = weighed_by(report), totals(report)
    uses = {one.name: one for one in report.use.prefixes} if report.use else {}
    least = by.of(whole) * SHARE_MIN
    root = PrefixNode(
        Row(name=b"", keys=whole.keys, serialized_bytes=whole.serialized_bytes, memory_bytes=whole.memory_bytes),
        by.of(whole),
        report.use.whole if report.use else None,
    )
    known = {b"": root}
    for group in sorted(folded_prefixes(report.prefixes), key=lambda group: (len(group.name), group.name)):
        if by.of(group) < max(least, 1):
            continue
        parent = max((name for name in known if group.name.startswith(name)), key=len)
        node = PrefixNode(group, by.of(group), uses.get(group.name))
        known[group.name] = node
        known[parent].children.append(node)
    for node in known.values():
        node.children.sort(key=lambda child: (-child.weight, child.group.name))
    return root if root.children else None


def heaviest_nodes(root: PrefixNode, count: int) -> list[tuple[PrefixNode, int]]:
    """The *count* heaviest prefixes below *root* with their depths, from 0, each behind the one that it continues: none is heavier than that."""
    every = list(_below(root, 0))
    chosen = {id(node) for node, _ in sorted(every, key=lambda pair: (-pair[0].weight, pair[1]))[:count]}
    return [(node, depth) for node, depth in every if id(node) in chosen]


def _below(node: PrefixNode, depth: int) -> Iterator[tuple[PrefixNode, int]]:
    for child in node.children:
        yield child, depth
        yield from _below(child, depth + 1)


def tree_data(report: KeyspaceReport) -> dict[str, Any] | None:
    """Return the tree as the page draws it: nested, names as texts."""
    root = prefix_tree(report)
    if root is None:
        return None
    return {"by": weighed_by(report).words, "isSize": weighed_by(report) is not Weight.KEYS, "root": _data(root)}


def _data(node: PrefixNode) -> dict[str, Any]:
    use, group = node.use, node.group
    found: dict[str, Any] = {
        "name": text.shown(group.name, LABEL_LENGTH_MAX) if group.name else "",
        "weight": node.weight,
        "keys": group.keys,
        "bytes": group.serialized_bytes,
        "memory": group.memory_bytes,
    }
    if use is not None:
        weight = use.weight_bytes or 0
        found |= {
            "heat": use.ops_per_s,
            "expiry": None if use.expires is None or not use.keys else round(use.expires / use.keys, 3),
            "cold": None if use.untouched_7d_bytes is None or not weight else round(use.untouched_7d_bytes / weight, 3),
        }
    if node.children:
        found["children"] = [_data(child) for child in node.children]
    return found
