"""A fleet as one HTML file: a row a cluster, the worst first, with the way to its pages."""

from __future__ import annotations

from slotscope.reports.fleet.report import OLD_MS, UNEVEN, FleetReport, age, troubles
from slotscope.reports.page import render_page

CLUSTERS_SHOWN = 2_000


def render_fleet(report: FleetReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    troubled = [one for one in report.clusters if troubles(one, report.now_ms)]
    context = {
        "report": report,
        "clusters": report.clusters[:CLUSTERS_SHOWN],
        "troubled": len(troubled),
        "open_incidents": sum(one.open_incidents for one in report.clusters),
        "keys": sum(one.keys or 0 for one in report.clusters),
        "size_bytes": sum(one.size_bytes or 0 for one in report.clusters),
        "age": lambda at_ms: age(at_ms, report.now_ms),
        "troubles": lambda one: troubles(one, report.now_ms),
        "uneven": UNEVEN,
        "old_days": OLD_MS // 86_400_000,
    }
    return render_page("fleet.html", context)
