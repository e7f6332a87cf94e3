"""What a snapshot comes to, in one sentence: which master carries most, how much more than the mean, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from slotscope.reports.keyspace.figures import Cause, cause_of, max_over_mean, totals
from slotscope.reports.keyspace.report import KeyspaceReport, NodeLoad, SlotLoad
from slotscope.runtime import text

EVEN_RATIO = 1.05
"""A heaviest master below this much of the mean is no news."""
EXPLAINING_SHARE = 0.5
"""What explains a master holds this share of what it has more than the mean; what explains a slot, of the slot."""
NAME_LENGTH_MAX = 48


class Resource(NamedTuple):
    """What masters are compared by."""

    words: str
    of_node: Callable[[NodeLoad], int | None]
    of_slot: Callable[[SlotLoad], int | None]


RESOURCES = (
    Resource("memory", lambda node: node.memory_bytes, lambda slot: slot.memory_bytes),
    Resource("serialized bytes", lambda node: node.serialized_bytes, lambda slot: slot.serialized_bytes),
    Resource("keys", lambda node: node.keys, lambda slot: slot.keys),
)


def verdict(report: KeyspaceReport) -> str:
    """Return the sentence: by memory where it is known of every master, else by bytes, else by keys."""
    if not report.keys:
        return "No keys were found."
    owners = [node for node in report.nodes if node.slots or node.keys]
    if len(owners) < 2:
        return _of_one(report)
    resource = next(one for one in RESOURCES if all(one.of_node(node) is not None for node in owners))
    values = [resource.of_node(node) or 0 for node in owners]
    ratio = max_over_mean(values)
    if ratio is None:
        return f"{text.plural(report.keys, 'key')}; no {resource.words} on any master."
    node = owners[values.index(max(values))]
    name = text.printable(node.address or node.node_id or "one master", NAME_LENGTH_MAX)
    if ratio < EVEN_RATIO:
        return f"{resource.words.capitalize()} is even: the fullest of {len(owners)} masters, {name}, holds {ratio:.2f}× the mean."
    excess = max(values) - sum(values) / len(values)
    return f"{name} holds {text.ratio(ratio)} the mean of {resource.words}{_because(report, node, resource, excess)}."


def _of_one(report: KeyspaceReport) -> str:
    whole = totals(report)
    known = next(
        (
            (one, size)
            for one, size in (("in memory", whole.memory_bytes), ("serialized", whole.serialized_bytes))
            if size
        ),
        None,
    )
    where = "on one master" if report.nodes else "; whose slots they are is not known"
    size = f" with {text.size(known[1])} {known[0]}" if known else ""
    return f"{text.plural(report.keys, 'key')}{size}{' ' if report.nodes else ''}{where}."


def _because(report: KeyspaceReport, node: NodeLoad, resource: Resource, excess: float) -> str:
    """Why *node* has *excess* more than the mean: one slot, with what fills it; many slots; or nothing that stands out."""
    number = report.nodes.index(node)
    mine = [slot for slot in report.slots if slot.owner == number]
    heaviest = max(mine, key=lambda slot: (resource.of_slot(slot) or 0, -slot.slot), default=None)
    weight = (resource.of_slot(heaviest) or 0) if heaviest else 0
    if heaviest is not None and weight >= EXPLAINING_SHARE * excess:
        share = text.percent(weight, resource.of_node(node))
        cause = cause_of(report, heaviest)
        if cause is not None and cause.share >= EXPLAINING_SHARE:
            return f" because of {_named(cause)}: its slot {heaviest.slot} is {share} of that"
        return f" because of slot {heaviest.slot}, which is {share} of that"
    mean_slots = sum(each.slots for each in report.nodes) / len(report.nodes)
    if (node.slots - mean_slots) * _mean(resource, report) >= EXPLAINING_SHARE * excess:
        return f" because it owns {text.ratio(node.slots / mean_slots)} the mean of slots"
    return "; no single slot, tag or key explains it"


def _mean(resource: Resource, report: KeyspaceReport) -> float:
    """What a slot weighs in the mean."""
    owned = [slot for slot in report.slots if slot.owner is not None]
    return sum(resource.of_slot(slot) or 0 for slot in owned) / len(owned) if owned else 0.0


def _named(cause: Cause) -> str:
    shown = text.shown(cause.name, NAME_LENGTH_MAX)
    return f"key {shown}" if cause.kind == "key" else f"{{{shown}}}"
