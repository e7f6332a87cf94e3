"""Prefixes as a tree by what they weigh: what fills the cluster, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from slotscope.reports.keyspace.figures import Weight, folded_prefixes, totals, weighed_by
from slotscope.reports.keyspace.key_use import KeyUse
from slotscope.reports.keyspace.report import KeyGroup, KeyspaceReport
from slotscope.runtime import text

SHARE_MIN = 0.002
"""A prefix of a smaller share of the whole is not drawn."""
LABEL_LENGTH_MAX = 40


@dataclass(slots=True)
class PrefixNode:
    """A prefix, or all keys (an empty name), with the prefixes below it, the heaviest first; *use* where it is recorded."""

    group: KeyGroup
    weight: int
    use: KeyUse | None = None
    children: list[PrefixNode] = field(default_factory=list)


def prefix_tree(report: KeyspaceReport) -> PrefixNode | None:
    """Return all keys and the prefixes below them; None where no prefix is worth drawing."""
    by, whole = weighed_by(report), totals(report)
    uses = {one.name: one for one in report.use.prefixes} if report.use else {}
    least = by.of(whole) * SHARE_MIN
    root = PrefixNode(
        KeyGroup(b"", None, whole.keys, whole.serialized_bytes, memory_bytes=whole.memory_bytes), by.of(whole),
        report.use.whole if report.use else None,
    )  # fmt: skip
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
