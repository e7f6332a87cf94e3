"""Figures of a report: totals, skew, names of nodes, causes of heavy slots."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from slotscope.reports.keyspace.report import KeyspaceReport, SlotLoad
from slotscope.reports.records import Row
from slotscope.runtime import text

SHORT_ID_LENGTH = 8
SINGLE_CAUSE_SHARE = 0.5
"""A key that holds this share of its slot is the cause, whatever tag it has."""
WORTH_NAMING_SHARE = 0.1
"""A key or tag below this share of its slot does not explain it."""
_ENDS = (*((length, 0) for length in range(SHORT_ID_LENGTH, 17, 4)), (4, 6), (6, 10))
EVEN_RATIO = 1.05
"""A heaviest master below this much of the mean is no news."""
EXPLAINING_SHARE = 0.5
"""A cause holds this share of a slot, or of a master's excess over the mean."""
NAME_LENGTH_MAX = 48


class Weight(StrEnum):
    """The figure by which slots, masters, tags and prefixes are compared."""

    MEMORY = "memory_bytes"
    BYTES = "serialized_bytes"
    KEYS = "keys"

    @property
    def words(self) -> str:
        """As a report calls it."""
        return _WEIGHT_WORDS[self]

    def of(self, load: SlotLoad | Row | Totals) -> int:
        """Return the weight of *load*, 0 if unknown."""
        return getattr(load, self.value) or 0


_WEIGHT_WORDS = {Weight.MEMORY: "memory", Weight.BYTES: "bytes", Weight.KEYS: "keys"}


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole snapshot in one line; *serialized_bytes* and *memory_bytes* are None where no source knows them."""

    keys: int
    expires: int
    serialized_bytes: int | None
    owned_slots: int
    used_slots: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The key or hash tag that makes a slot heavy: it has *weight* of the slot's figure *by*, the part *share*."""

    kind: str
    name: bytes
    keys: int
    weight: int
    share: float
    by: Weight


@dataclass(frozen=True, slots=True)
class HeavySlot:
    """One of the heaviest slots, with its part of the snapshot and, where one stands out, its cause."""

    load: SlotLoad
    owner: Row | None
    share: float
    cause: Cause | None


def totals(report: KeyspaceReport) -> Totals:
    """Add up the slots of *report*."""
    slots = report.slots
    sizes = [slot.serialized_bytes for slot in slots if slot.serialized_bytes is not None]
    memory = [node.memory_bytes for node in report.nodes if node.memory_bytes is not None]
    return Totals(
        keys=report.keys,
        expires=sum(slot.expires for slot in slots),
        serialized_bytes=sum(sizes) if sizes else None,
        owned_slots=sum(slot.owner is not None for slot in slots),
        used_slots=sum(slot.keys > 0 for slot in slots),
        memory_bytes=sum(memory) if memory else None,
    )


def max_over_mean(values: Sequence[int | None]) -> float | None:
    """Return the largest of *values* over their mean; None if that is 0."""
    known = [value for value in values if value is not None]
    whole = sum(known)
    return max(known) * len(known) / whole if whole else None


def weighed_by(report: KeyspaceReport) -> Weight:
    """Return memory if it is known for all slots with keys, else bytes, else keys."""
    held = [slot for slot in report.slots if slot.keys]
    for weight in (Weight.MEMORY, Weight.BYTES):
        if held and all(getattr(slot, weight) is not None for slot in held):
            return weight
    return Weight.KEYS


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a unique short form of each node id: its first digits, or its first and last."""
    known = sorted(set(ids))
    for head, tail in _ENDS:
        names = {node_id: _ends(node_id, head, tail) for node_id in known}
        if len(set(names.values())) == len(known):
            return names
    return {node_id: node_id for node_id in known}


def _ends(node_id: str, head: int, tail: int) -> str:
    return (
        node_id if len(node_id) <= head + tail else f"{node_id[:head]}..{node_id[-tail:]}" if tail else node_id[:head]
    )


def node_names(nodes: Iterable[Row]) -> list[str]:
    """Return a short name for each node: of its id (`short_names`), else its address."""
    nodes = list(nodes)
    names = short_names(node.node_id for node in nodes if node.node_id)
    return [names[node.node_id] if node.node_id else node.address or "no node" for node in nodes]


def names_by_id(report: KeyspaceReport) -> dict[str | None, str]:
    """Return the short name of each node of *report* by its id."""
    named = zip(report.nodes, node_names(report.nodes), strict=True)
    return {node.node_id: name for node, name in named if node.node_id}


def heavy_slots(report: KeyspaceReport, limit: int) -> list[HeavySlot]:
    """Return the *limit* heaviest slots with keys, heaviest first, the lower number first among equals."""
    by = weighed_by(report)
    held = [slot for slot in report.slots if slot.keys]
    heaviest = heapq.nsmallest(limit, held, key=lambda slot: (-by.of(slot), slot.slot))
    whole = sum(by.of(slot) for slot in held)
    return [
        HeavySlot(
            load=slot,
            owner=None if slot.owner is None else report.nodes[slot.owner],
            share=by.of(slot) / whole if whole else 0.0,
            cause=cause_of(report, slot, by),
        )
        for slot in heaviest
    ]


def cause_of(report: KeyspaceReport, slot: SlotLoad, by: Weight) -> Cause | None:
    """Return the cause of a heavy slot: one key with half of it, else its heaviest tag, else its largest key."""
    key = _key_cause(slot, by)
    if key is not None and key.share >= SINGLE_CAUSE_SHARE:
        return key
    tags = (_tag_cause(slot, tag, by) for tag in report.hash_tags if tag.slot == slot.slot)
    tag = min(tags, key=lambda cause: (-cause.share, cause.name), default=None)
    if tag is not None and tag.share >= WORTH_NAMING_SHARE and (key is None or tag.share >= key.share):
        return tag
    return key if key is not None and key.share >= WORTH_NAMING_SHARE else None


def _key_cause(slot: SlotLoad, by: Weight) -> Cause | None:
    size = {Weight.MEMORY: slot.top_key_memory, Weight.BYTES: slot.top_key_bytes}.get(by)
    if slot.top_key is None or not size or not by.of(slot):
        return None
    return Cause("key", slot.top_key, 1, size, size / by.of(slot), by)


def _tag_cause(slot: SlotLoad, tag: Row, by: Weight) -> Cause:
    """Weigh *tag* as the slot if that figure is known, else by keys."""
    if getattr(tag, by) is None or not by.of(slot):
        by = Weight.KEYS
    share = by.of(tag) / by.of(slot) if by.of(slot) else 0.0
    return Cause("tag", tag.name, tag.keys, by.of(tag), share, by)


def owners_of(report: KeyspaceReport) -> list[Row]:
    """Return the nodes with slots or keys: those that the mean counts."""
    return [node for node in report.nodes if node.slots or node.keys]


def verdict(report: KeyspaceReport) -> str:
    """Return the headline: the fullest master and its cause."""
    if not report.keys:
        return "No keys were found."
    owners = owners_of(report)
    if len(owners) < 2:
        return _of_one(report)
    by = weighed_by(report)
    values = [by.of(node) for node in owners]
    ratio = max_over_mean(values)
    if ratio is None:
        return f"{text.plural(report.keys, 'key')}; no {by.words} on any master."
    node = owners[values.index(max(values))]
    name = text.printable(node.address or node.node_id or "one master", NAME_LENGTH_MAX)
    if ratio < EVEN_RATIO:
        return f"{by.words.capitalize()} {'is' if by is Weight.MEMORY else 'are'} even: the fullest of {len(owners)} masters, {name}, holds {ratio:.2f}× the mean."
    excess = max(values) - sum(values) / len(values)
    return f"{name} holds {text.ratio(ratio)} the mean of {by.words}{_because(report, node, by, excess)}."


def _of_one(report: KeyspaceReport) -> str:
    whole = totals(report)
    sizes = (("in memory", whole.memory_bytes), ("serialized", whole.serialized_bytes))
    size = next((f" with {text.size(size)} {noun}" for noun, size in sizes if size), "")
    has_owner = any(node.node_id or node.address for node in report.nodes)
    where = " on one master" if has_owner else "; owners of slots are unknown without --topology"
    return f"{text.plural(report.keys, 'key')}{size}{where}."


def _because(report: KeyspaceReport, node: Row, by: Weight, excess: float) -> str:
    """Return the reason of the *excess* of *node* over the mean: one slot and its cause, many slots, or none."""
    number = report.nodes.index(node)
    mine = [slot for slot in report.slots if slot.owner == number]
    heaviest = max(mine, key=lambda slot: (by.of(slot), -slot.slot), default=None)
    weight = by.of(heaviest) if heaviest else 0
    if heaviest is not None and weight >= EXPLAINING_SHARE * excess:
        share = text.percent(weight, by.of(node))
        cause = cause_of(report, heaviest, by)
        if cause is not None and cause.share >= EXPLAINING_SHARE:
            return f" because of {_named(cause)}: its slot {heaviest.slot} is {share} of that"
        return f" because of slot {heaviest.slot}, which is {share} of that"
    owners = owners_of(report)
    mean_slots = sum(each.slots for each in owners) / len(owners)
    if (node.slots - mean_slots) * _mean(by, report) >= EXPLAINING_SHARE * excess:
        return f" because it owns {text.ratio(node.slots / mean_slots)} the mean of slots"
    return "; no single slot, tag or key explains it"


def _mean(by: Weight, report: KeyspaceReport) -> float:
    """What a slot weighs in the mean."""
    owned = [slot for slot in report.slots if slot.owner is not None]
    return sum(by.of(slot) for slot in owned) / len(owned) if owned else 0.0


def _named(cause: Cause) -> str:
    shown = text.shown(cause.name, NAME_LENGTH_MAX)
    return f"key {shown}" if cause.kind == "key" else f"{{{shown}}}"
