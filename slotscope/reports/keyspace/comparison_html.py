"""A comparison as one HTML file: what changed in all, a map of the slots that did, the trend over all snapshots, tables."""

from __future__ import annotations

from slotscope.reports.keyspace.comparison import PARTIAL_COMPARISON, ComparisonReport, status_words
from slotscope.reports.keyspace.figures import node_names
from slotscope.reports.keyspace.trend import Trend, TrendPoint
from slotscope.reports.line_chart import STYLES, Chart, Series, line_chart
from slotscope.reports.page import render_page
from slotscope.runtime import text

ROWS_ON_PAGE = 200
MS_A_DAY = 86_400_000
CLOCK_DAYS_MAX = 3
"""A trend no longer than this is labelled with times of day."""
LABELS_MAX = 3


def render_comparison_html(report: ComparisonReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    tables = [
        {"table": table, "rows": [(row, status_words(row, table)) for row in table.rows[:ROWS_ON_PAGE]]}
        for table in report.tables
    ]
    data, trend = map_data(report), report.trend
    labels = {"memory": "Memory", "bytes": "Bytes", "keys": "Keys"}
    context = {
        "report": report,
        "tables": tables,
        "rows_shown": ROWS_ON_PAGE,
        "partial_comparison": PARTIAL_COMPARISON,
        "has_map": data is not None,
        "metrics": [(name, label) for name, label in labels.items() if data and data[name] is not None],
        "trend_charts": trend_charts(trend) if trend else [],
        "trend_across": "by time" if trend and _by_time(trend) else "snapshot after snapshot",
        "of_bytes": trend is not None and trend.resource != "keys",
        "amount": lambda value: _amount(trend, value),
        "heaviest": lambda point: _heaviest(trend, point),
    }
    return render_page("comparison.html", context, data=data, scripts=["slot_map.js", "comparison.js"])


def map_data(report: ComparisonReport) -> dict[str, object] | None:
    """Return what the map needs, as columns of 16384 entries; -1 stands for no owner, None for a figure that is not known."""
    changes = report.slot_changes
    if changes is None:
        return None
    named = zip(changes.nodes, node_names(changes.nodes), strict=True)
    return {
        "signed": True,
        "nodes": [
            {"name": text.printable(name, 40), "address": text.printable(node.address, 80)} for node, name in named
        ],
        "owner": [-1 if owner is None else owner for owner in changes.owners],
        "keys": changes.keys,
        "bytes": changes.serialized_bytes,
        "memory": changes.memory_bytes,
    }


def trend_charts(trend: Trend) -> list[tuple[str, Chart]]:
    """All masters in one line, and a line each for the heaviest of the newest snapshot; none with fewer than two snapshots."""
    if len(trend.points) < 2:
        return []
    by_time = _by_time(trend)
    places = [float(point.taken_at_ms or 0) if by_time else float(at) for at, point in enumerate(trend.points)]
    newest = trend.points[-1].masters
    names = sorted(
        {name for point in trend.points for name in point.masters}, key=lambda name: (-(newest.get(name) or 0), name)
    )
    whole = Series(
        "all masters",
        [(x, float(one.total)) for x, one in zip(places, trend.points, strict=True) if one.total is not None],
    )
    single = [
        Series(
            text.printable(name, 60),
            [
                (x, float(value))
                for x, one in zip(places, trend.points, strict=True)
                if (value := one.masters.get(name)) is not None
            ],
        )
        for name in names[:STYLES]
    ]
    days = (places[-1] - places[0]) / MS_A_DAY if by_time else 0.0
    step = -(-len(places) // LABELS_MAX)

    def across(value: float) -> str:
        if not by_time:
            return text.printable(trend.points[round(value)].snapshot_id, 16)
        words = text.moment(round(value))
        return words[5:16] if days <= CLOCK_DAYS_MAX else words[:10]

    more = f", the {STYLES} heaviest of {len(names)}" if len(names) > STYLES else ""
    titles = (f"{trend.resource}, all masters", f"{trend.resource} of each master{more}")
    found = []
    for title, lines in zip(titles, ([whole], single), strict=True):
        chart = line_chart(
            lines,
            x_words=across,
            y_words=lambda value: _amount(trend, round(value)),
            words=f"{title}, over {len(places)} snapshots; the table below has the figures",
            x_labels=places[::step],
        )
        if chart is not None:
            found.append((title[0].upper() + title[1:], chart))
    return found


def _by_time(trend: Trend) -> bool:
    """Whether every snapshot has a time of its own; else they stand in their order."""
    times = [point.taken_at_ms for point in trend.points]
    return None not in times and len(set(times)) == len(times)


def _amount(trend: Trend | None, value: int | None) -> str:
    return text.size(value) if trend is not None and trend.resource != "keys" else text.count(value, text.THIN_SPACE)


def _heaviest(trend: Trend | None, point: TrendPoint) -> str:
    known = {name: value for name, value in point.masters.items() if value is not None}
    if not known:
        return text.NOTHING
    name = max(known, key=lambda one: (known[one], one))
    return f"{text.printable(name, 60)}: {_amount(trend, known[name])}"
