"""A rebalancing plan as one HTML file: verdict, bars before and after, the price of tolerance, moves, proof, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slotscope.reports.line_chart import Chart, Series, line_chart
from slotscope.reports.page import render_page
from slotscope.reports.rebalance import words as say
from slotscope.reports.rebalance.charts import Curve, Profile, curve, profile
from slotscope.reports.rebalance.report import PlanNode, ProofLine, RebalanceReport, WorstLoad
from slotscope.reports.rebalance.ticket import no_parts_words, ticket
from slotscope.reports.severities import count_by_severity
from slotscope.runtime import text

CELLS_SHOWN = 600
"""Cells with bars: so many masters times resources."""
PROFILE_NODES_MIN = 13
"""Fewer masters are seen at a glance in the table."""
TRANSFERS_SHOWN = 300
RANGES_SHOWN = 12
HEAVY_SHOWN = 60
PARTS_SHOWN = 5
PROOFS_SHOWN = 100
PLANS_SHOWN = 40
WARNINGS_SHOWN = 200
BATCHES_SHOWN = 60

_PER_CENT = 100


class ShareBar(NamedTuple):
    """Load of a master in one resource, in per cent of the longest bar: before, after, fair share and limit."""

    before: str
    after: str
    fair: str | None
    limit: str | None
    over: bool
    ratio_before: float
    words: str
    figures: str


class NodeRow(NamedTuple):
    """A master with a bar for each resource, None where it has no load."""

    node: PlanNode
    bars: Sequence[ShareBar | None]


class ReachRow(NamedTuple):
    """One resource on a line from the fair share to the heaviest, in units of a drawing 1000 wide."""

    reach: WorstLoad
    before: str
    after: str
    limit: str
    floor: str
    words: str


def render_rebalance_html(report: RebalanceReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    nodes = sorted(report.nodes, key=lambda node: (-node.worst, node.node_id))
    shown = max(CELLS_SHOWN // max(len(report.resources), 1), 20)
    context = {
        "report": report,
        "names": report.names,
        "headline": say.headline(report),
        "reason": say.reason(report),
        "outlook": say.outlook(report),
        "severities": count_by_severity(report.warnings),
        "warnings_shown": WARNINGS_SHOWN,
        "reaches": _reach_rows([*report.reaches, *report.watched]),
        "profiles": profiles(report),
        "rows": _node_rows(report, nodes[:shown]),
        "curve": tolerance_curve(report),
        "tolerance_words": _tolerance_words(report),
        "choices": [line for line in report.curve if line.choice],
        "range_chart": range_chart(report),
        "range_words": say.range_words(report),
        "transfers_shown": TRANSFERS_SHOWN,
        "heavy_shown": HEAVY_SHOWN,
        "parts_shown": PARTS_SHOWN,
        "proofs_shown": PROOFS_SHOWN,
        "terms": proof_terms,
        "plans_shown": PLANS_SHOWN,
        "commands": say.next_commands(report),
        "batches_shown": BATCHES_SHOWN,
        "ticket": ticket(report),
        "seconds": say.seconds(report),
        "by_hand_words": say.by_hand_words(report),
        "bound_words": say.bound_words(report),
        "no_parts_words": no_parts_words(report.meant) if report.meant else "",
        "ranges": lambda transfer: say.ranges_text(transfer.ranges, RANGES_SHOWN),
        **{
            one.__name__: one
            for one in (
                say.amount,
                say.duration,
                say.factor,
                say.remedy,
                say.resource_words,
                say.share_text,
                say.budget_words,
                exactly,
            )
        },
    }
    return render_page("rebalance.html", context)


def exactly(value: float) -> str:
    """A figure with all digits before its point, and three after it where it has any."""
    return (
        text.count(round(value), text.THIN_SPACE)
        if value == round(value)
        else f"{value:,.3f}".replace(",", text.THIN_SPACE)
    )


# -- bars --------------------------------------------------------------------------------------------------------------


def _node_rows(report: RebalanceReport, nodes: Sequence[PlanNode]) -> list[NodeRow]:
    longest = {
        resource: max(
            (
                max(share.before, share.after, share.fair, min(share.limit, 2 * share.fair))
                for node in report.nodes
                if (share := node.shares.get(resource)) is not None
            ),
            default=0.0,
        )
        for resource in report.resources
    }
    return [NodeRow(node, [_bar(node, resource, longest[resource]) for resource in report.resources]) for node in nodes]


def _bar(node: PlanNode, resource: str, longest: float) -> ShareBar | None:
    share = node.shares.get(resource)
    if share is None:
        return None
    before, after = say.amount(resource, share.before), say.amount(resource, share.after)
    figures = f"{before} → {after}" if share.before != share.after else before
    words = f"{say.resource_words(resource)} before {before}, after {after}"
    if share.fair:
        words += f", fair share {say.amount(resource, share.fair)}, limit {say.amount(resource, share.limit)}"
    if share.capacity is not None:
        words += f", capacity {say.amount(resource, share.capacity)}"
    return ShareBar(
        _part(share.before, longest),
        _part(share.after, longest),
        _part(share.fair, longest) if share.fair else None,
        _part(share.limit, longest) if share.fair and share.limit <= longest else None,
        share.before > share.limit,
        node.ratio(resource, after=False),
        words,
        figures,
    )


def _part(value: float, longest: float) -> str:
    return f"{_PER_CENT * value / longest if longest else 0:.2f}"


def _reach_rows(reaches: Sequence[WorstLoad]) -> list[ReachRow]:
    """Ratios from 1 (left) to the worst of any resource (right)."""
    worst = max((max(reach.before, reach.after, reach.limit) for reach in reaches), default=1.0)
    span = max(worst - 1, 0.01) * 1.04
    rows = []
    for reach in reaches:
        before, after, limit, floor = (
            f"{20 + 960 * max(value - 1, 0.0) / span:.1f}"
            for value in (reach.before, reach.after, reach.limit, reach.floor)
        )
        words = (
            f"{say.resource_words(reach.resource)}: heaviest master {say.factor(reach.before)} its fair share before,"
            f" {say.factor(reach.after)} after, limit {say.factor(reach.limit)}, floor {say.factor(reach.floor)}"
        )
        rows.append(ReachRow(reach, before, after, limit, floor, words))
    return rows


def profiles(report: RebalanceReport) -> list[Profile]:
    """Where many masters are: their loads over fair shares from the heaviest to the lightest, one drawing a resource."""
    if len(report.nodes) < PROFILE_NODES_MIN:
        return []
    return [
        profile(
            reach.resource,
            [node.ratio(reach.resource, after=False) for node in report.nodes if _has_share(node, reach.resource)],
            [node.ratio(reach.resource, after=True) for node in report.nodes if _has_share(node, reach.resource)],
            reach.limit,
        )
        for reach in report.reaches
    ]


def _has_share(node: PlanNode, resource: str) -> bool:
    return resource in node.shares and node.shares[resource].fair > 0


# -- tolerance against bytes -------------------------------------------------------------------------------------------


def tolerance_curve(report: RebalanceReport) -> Curve | None:
    """What moves at which tolerance; None where fewer than two were tried."""
    lines = sorted(report.tolerances, key=lambda line: line.tolerance)
    if len(lines) < 2:
        return None
    return curve(
        [line.tolerance for line in lines],
        [float(line.moved) for line in lines],
        [float(line.bound) for line in lines],
        [line.missed for line in lines],
        chosen=_chosen(report),
        amount=lambda value: say.amount(report.cost, value),
    )


def range_chart(report: RebalanceReport) -> Chart | None:
    """Slot ranges against what moves; None where there is nothing to choose."""
    points = sorted({(float(line.moved), float(line.ranges)) for line in report.curve})
    if len(points) < 2:
        return None
    return line_chart(
        [Series("slot ranges after", points)],
        x_words=lambda value: say.amount(report.cost, value),
        y_words=lambda value: text.count(round(value)),
        words="; ".join(
            f"{say.amount(report.cost, moved)} moved: {ranges:.0f} slot ranges" for moved, ranges in points
        ),
        x_labels=[points[0][0], points[-1][0]],
    )


def _chosen(report: RebalanceReport) -> float | None:
    given = {reach.tolerance for reach in report.reaches}
    return given.pop() if len(given) == 1 else None


def _tolerance_words(report: RebalanceReport) -> str:
    chosen = _chosen(report)
    if chosen is not None:
        return say.share_text(chosen)
    return ", ".join(
        f"{say.resource_words(reach.resource)} {say.share_text(reach.tolerance)}" for reach in report.reaches
    )


# -- proof -------------------------------------------------------------------------------------------------------------


def proof_terms(line: ProofLine) -> list[tuple[str, str, str]]:
    """Each resource that has a price or is too much: (resource, amount over the limit, price of one unit)."""
    names = list(dict.fromkeys([*line.prices, *(line.over if line.is_drained else ())]))
    return [
        (
            say.resource_words(name),
            exactly(line.over[name]) if name in line.over else "",
            f"{line.prices[name]:.6g}" if name in line.prices else "",
        )
        for name in names
    ]
