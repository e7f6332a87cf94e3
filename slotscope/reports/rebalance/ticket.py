"""A plan as a block of plain text for a ticket."""

from __future__ import annotations

from slotscope.reports.rebalance import words as say
from slotscope.reports.rebalance.consequences import Consequences
from slotscope.reports.rebalance.report import RebalanceReport
from slotscope.runtime import text

MASTERS_LISTED = 12
WARNINGS_LISTED = 10
LINE_LENGTH_MAX = 2000


def no_parts_words(meant: Consequences) -> str:
    """Why no hash tag or key is named that moves."""
    if meant.parts is not None:
        return "None of the heavy hash tags and keys that the snapshot lists moves."
    return "Which hash tags and keys move is not known: key-slots finds them in dumps, and a plan from its snapshot names the heaviest."


def ticket(report: RebalanceReport) -> str:
    """Return *report* as plain text: verdict, figures, masters, what to know, commands with the way back."""
    lines = [
        f"Rebalancing plan {report.plan_id}" + (f" (snapshot {report.snapshot_id})" if report.snapshot_id else ""),
        say.headline(report),
        say.reason(report),
        "",
        f"minimum          {say.bound_words(report)}" + (f"; the plan is {say.share_text(report.gap)} above" if report.gap is not None else ""),
        f"slots that move  {text.count(report.moved_slots)}",
        f"slot ranges      {text.count(report.ranges_before)} before, {text.count(report.ranges_after)} after",
        f"time             about {say.time_words(report)}, in {text.plural(report.batches, 'batch', 'batches')}",
        *(f"{say.resource_words(one.resource):16} heaviest master {say.factor(one.before)} before, {say.factor(one.after)} after, limit {say.factor(one.limit)}" for one in report.reaches),
        "",
    ]  # fmt: skip
    for node in sorted(report.nodes, key=lambda node: (-node.worst, node.node_id))[:MASTERS_LISTED]:
        share = node.shares.get(report.cost)
        moves = f"{say.amount(report.cost, share.before)} -> {say.amount(report.cost, share.after)}" if share else ""
        lines.append(f"{node.address or node.node_id}: {node.slots_before} -> {node.slots_after} slots  {moves}")
    if len(report.nodes) > MASTERS_LISTED:
        lines.append(f"and {text.plural(len(report.nodes) - MASTERS_LISTED, 'more master')}")
    ranges = say.range_words(report)
    lines += ["", *ranges] if ranges else []
    if report.warnings:
        lines += ["", *(f"{one.severity}: {one.text}" for one in report.warnings[:WARNINGS_LISTED])]
    lines += ["", *(f"{command}  # {what}" for command, what in say.next_commands(report))]
    return "\n".join(text.printable(line, LINE_LENGTH_MAX) for line in lines) + "\n"
