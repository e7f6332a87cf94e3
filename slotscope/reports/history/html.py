"""The history of a cluster as one HTML file: findings, timelines, stories."""

from __future__ import annotations

from functools import partial

from cluster_core.incidents.story import seconds
from slotscope.reports.document import Document, HandDrawn, count_by_severity
from slotscope.reports.history.lanes import Room, draw_lanes, incident_bar, mark_kind, step_id
from slotscope.reports.history.report import HistoryReport
from slotscope.reports.history.terminal import FIGURE_WORDS, clock, figure_text, moment, print_incidents
from slotscope.reports.page import render_page

PAGE_BYTES_MAX = 2_000_000
"""A page of more is slow to open: it shows less of everything, and says how much."""


def render_history(report: HistoryReport) -> str:
    """Return *report* as one page, to be written as UTF-8, of `PAGE_BYTES_MAX` at most; the same report gives the same text."""
    room = Room()
    page = _render(report, room)
    while len(page.encode()) > PAGE_BYTES_MAX and room != room.half():
        room = room.half()
        page = _render(report, room)
    return page


def to_document(report: HistoryReport) -> Document:
    """Return *report* as a document with a page and a terminal text of its own."""
    drawn = HandDrawn(partial(render_history, report), partial(print_incidents, report))
    about, title, of_ms = (report.snapshot_id,), f"History of {report.snapshot_id}", report.last_ns // 1_000_000
    return Document("history", title, report.verdict[0], (), about, about, of_ms, hand_drawn=drawn)


def _render(report: HistoryReport, room: Room) -> str:
    names = {node.node_id: node.name for node in report.nodes}
    context = {
        "report": report,
        "incidents": report.incidents[: room.incidents],
        "findings": report.findings[: room.findings],
        "severities": count_by_severity(report.findings),
        "names": names,
        "lanes": draw_lanes(report, names, room),
        "bars": [incident_bar(incident, report) for incident in report.incidents[: room.incidents]],
        "mark_kind": mark_kind,
        "step_id": step_id,
        "steps_shown": room.story_steps,
        "figure_words": FIGURE_WORDS,
        "figure_text": figure_text,
        "clock": clock,
        "instant": moment,
        "since_start": lambda ts_ns: clock((ts_ns - report.first_ns) // 1_000_000),
        "duration": lambda value: figure_text("duration_ms", value) if value is not None else "open at the end",
        "seconds_long": seconds(max(report.last_ns - report.first_ns, 0) // 1_000_000),
    }
    return render_page("history.html", context, scripts=["timeline.js"])
