"""The key-space report as one HTML file: warnings, totals, masters, a map of the slots, what is heavy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from slotscope.reports.keyspace.figures import (
    Weight,
    folded_prefixes,
    heavy_slots,
    max_over_mean,
    names_by_id,
    node_names,
    totals,
    weighed_by,
)
from slotscope.reports.keyspace.key_use import NOT_RECORDED, rate, use_figures
from slotscope.reports.keyspace.prefix_tree import tree_data
from slotscope.reports.keyspace.report import SLOT_COUNT, KeyspaceReport, NodeLoad
from slotscope.reports.keyspace.verdict import verdict
from slotscope.reports.page import embedded_json, render_page
from slotscope.reports.severities import count_by_severity, gravest_first
from slotscope.runtime import text

HEAVY_SLOTS_SHOWN = 60
ROWS_SHOWN = 100
USES_SHOWN = 60
WARNINGS_SHOWN = 200
PAGE_BYTES_MAX = 1_000_000
"""What a page may take; the names of the largest keys lose their middles for it."""

_TOP_KEY_LIMITS = (60, 40, 28, 20, 12, 8)


def render_html(report: KeyspaceReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    whole = totals(report)
    names = node_names(report.nodes)
    tree = tree_data(report)
    weight = weighed_by(report)
    context = {
        "report": report,
        "verdict": verdict(report),
        "whole": whole,
        "weight": weight,
        "slot_count": SLOT_COUNT,
        "warnings": gravest_first(report.warnings)[:WARNINGS_SHOWN],
        "warning_counts": count_by_severity(report.warnings),
        "names": names,
        "name_of": names_by_id(report),
        "shares": _shares(report.nodes),
        "heavy": heavy_slots(report, HEAVY_SLOTS_SHOWN),
        "prefixes": folded_prefixes(report.prefixes),
        "group_peaks": {
            "hash_tags": max(map(weight.of, report.hash_tags), default=0),
            "prefixes": max(map(weight.of, report.prefixes), default=0),
        },
        "rows_shown": ROWS_SHOWN,
        "uses_shown": USES_SHOWN,
        "use_is_known": report.use is not None and (report.use.is_recorded or report.use.whole.expires is not None),
        "use_figures": use_figures,
        "prefix_tree": tree,
        "tree_colours": _tree_colours(report, weight),
        "use_rate": rate,
        "not_recorded": NOT_RECORDED,
        "unread": text.unread,
        "known": {
            "expires": any(slot.expires for slot in report.slots),
            "bytes": any(slot.serialized_bytes is not None for slot in report.slots),
            "memory": any(node.memory_bytes is not None for node in report.nodes),
            "ops": any(node.ops is not None for node in report.nodes),
        },
    }
    scripts = ["slot_map.js", "keyspace.js", "icicle.js"]
    data = slot_data(report) | {"owner": _owner_runs(report), "prefixes": tree, "topKey": []}
    rest = len(render_page("keyspace.html", context, data=data, scripts=scripts).encode())
    data["topKey"] = _top_keys(report, PAGE_BYTES_MAX - rest)
    return render_page("keyspace.html", context, data=data, scripts=scripts)


def _owner_runs(report: KeyspaceReport) -> list[tuple[int, int]]:
    """Owners of the slots as (owner, number of slots in a row): most have whole ranges."""
    owners = (-1 if slot.owner is None else slot.owner for slot in report.slots)
    return [(owner, sum(1 for _ in run)) for owner, run in groupby(owners)]


def _tree_colours(report: KeyspaceReport, weight: Weight) -> list[tuple[str, str]]:
    """What the prefixes' colour may show, what they are weighed by first."""
    use = report.use.whole if report.use else None
    known = {
        "memory": weight is Weight.MEMORY,
        "bytes": any(group.serialized_bytes is not None for group in report.prefixes),
        "keys": True,
        "heat": use is not None and use.ops_per_s is not None,
        "cold": use is not None and use.untouched_7d_bytes is not None,
        "expiry": use is not None and use.expires is not None,
    }
    labels = {"cold": "Untouched", "expiry": "Expiry", "heat": "Heat"}
    return [(name, labels.get(name, name.capitalize())) for name, is_known in known.items() if is_known]


def _shares(nodes: Sequence[NodeLoad]) -> dict[str, dict[str, object]]:
    """Return values, sum and max over mean of each figure of the masters; a figure that no master says is left out."""
    columns: dict[str, list[int | None]] = {
        "slots": [node.slots for node in nodes],
        "keys": [node.keys for node in nodes],
        "bytes": [node.serialized_bytes for node in nodes],
        "memory": [node.memory_bytes for node in nodes],
    }
    return {
        name: {"values": values, "sum": sum(value or 0 for value in values), "skew": max_over_mean(values)}
        for name, values in columns.items()
        if any(value is not None for value in values)
    }


def slot_data(report: KeyspaceReport) -> dict[str, object]:
    """Return what the map of the slots needs, as columns of 16384 entries; -1 stands for no owner."""
    slots = report.slots
    names = node_names(report.nodes)
    return {
        "snapshot": text.printable(report.snapshot_id, 80),
        "nodes": [
            {
                "name": text.printable(name, 40),
                "id": text.printable(node.node_id or "", 40),
                "address": text.printable(node.address, 80),
            }
            for node, name in zip(report.nodes, names, strict=True)
        ],
        "keys": [slot.keys for slot in slots],
        "bytes": _sizes(slot.serialized_bytes for slot in slots),
        "memory": _sizes(slot.memory_bytes for slot in slots),
        "expires": [slot.expires for slot in slots],
        "topKeyBytes": [slot.top_key_bytes if slot.top_key_memory is None else slot.top_key_memory for slot in slots],
        "owner": [-1 if slot.owner is None else slot.owner for slot in slots],
    }


def _sizes(values: Iterable[int | None]) -> list[int] | None:
    """Return *values* with 0 for unknown ones; None where all are."""
    found = list(values)
    return [value or 0 for value in found] if any(value is not None for value in found) else None


def _top_keys(report: KeyspaceReport, room: int) -> list[str | None]:
    """Return the largest key of every slot, with as much of each name as *room* bytes allow; of the smaller keys none (empty) where some of each is too much."""
    shown: list[str | None] = []
    for limit in _TOP_KEY_LIMITS:
        shown = [None if slot.top_key is None else text.shown(slot.top_key, limit) for slot in report.slots]
        if len(embedded_json(shown).encode()) <= room:
            return shown
    left = room - len(embedded_json(["" if name else None for name in shown]).encode())
    for slot, name in sorted(zip(report.slots, shown, strict=True), key=lambda pair: -(pair[0].top_key_bytes or 0)):
        left -= 0 if name is None else len(embedded_json(name).encode())
        if name is not None and left < 0:
            shown[slot.slot] = ""
    return shown
