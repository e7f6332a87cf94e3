"""What a snapshot comes to, in one sentence: which master carries most, how much more than the mean, and why."""

from __future__ import annotations

from slotscope.reports.keyspace.figures import Cause, Weight, cause_of, max_over_mean, totals, weighed_by
from slotscope.reports.keyspace.report import KeyspaceReport, NodeLoad
from slotscope.runtime import text

EVEN_RATIO = 1.05
"""A heaviest master below this much of the mean is no news."""
EXPLAINING_SHARE = 0.5
"""What explains a master holds this share of what it has more than the mean; what explains a slot, of the slot."""
NAME_LENGTH_MAX = 48


def verdict(report: KeyspaceReport) -> str:
    """Return the sentence, by what slots are compared by."""
    if not report.keys:
        return "No keys were found."
    owners = [node for node in report.nodes if node.slots or node.keys]
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


def _because(report: KeyspaceReport, node: NodeLoad, by: Weight, excess: float) -> str:
    """Why *node* has *excess* more than the mean: one slot, with what fills it; many slots; or nothing that stands out."""
    number = report.nodes.index(node)
    mine = [slot for slot in report.slots if slot.owner == number]
    heaviest = max(mine, key=lambda slot: (by.of(slot), -slot.slot), default=None)
    weight = by.of(heaviest) if heaviest else 0
    if heaviest is not None and weight >= EXPLAINING_SHARE * excess:
        share = text.percent(weight, by.of(node))
        cause = cause_of(report, heaviest)
        if cause is not None and cause.share >= EXPLAINING_SHARE:
            return f" because of {_named(cause)}: its slot {heaviest.slot} is {share} of that"
        return f" because of slot {heaviest.slot}, which is {share} of that"
    mean_slots = sum(each.slots for each in report.nodes) / len(report.nodes)
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
