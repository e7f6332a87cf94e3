"""The history of a cluster as one HTML file: findings, timelines, stories, silence, costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cluster_core.incidents.story import seconds
from slotscope.reports.history.lanes import Room, draw_lanes, incident_bar, mark_kind, step_id
from slotscope.reports.history.report import HistoryNode, HistoryReport
from slotscope.reports.history.terminal import FIGURE_WORDS, clock, figure_text, moment
from slotscope.reports.page import render_page
from slotscope.reports.severities import count_by_severity

PAGE_BYTES_MAX = 2_000_000
"""A page of more is slow to open: it shows less of everything, and says how much."""
SILENCE_STEPS = (0.5, 1, 2, 4)
"""Shades of the matrix, in node timeouts."""


class MatrixRow(NamedTuple):
    """What one observer did not hear: a cell for each node, its shade and its time in ms; None where they are one."""

    observer: HistoryNode
    cells: Sequence[tuple[int, int | None]]


def render_history(report: HistoryReport) -> str:
    """Return *report* as one page, to be written as UTF-8, of `PAGE_BYTES_MAX` at most; the same report gives the same text."""
    room = Room()
    page = _render(report, room)
    while len(page.encode()) > PAGE_BYTES_MAX and room != room.half():
        room = room.half()
        page = _render(report, room)
    return page


def _render(report: HistoryReport, room: Room) -> str:
    names = {node.node_id: node.name for node in report.nodes}
    matrix_nodes = _matrix_nodes(report, room.matrix_nodes)
    troubles = report.troubles
    context = {
        "report": report,
        "incidents": report.incidents[: room.incidents],
        "costs": report.costs[: room.costs],
        "troubles": troubles[: room.findings],
        "trouble_count": len(troubles),
        "severities": count_by_severity(troubles),
        "names": names,
        "lanes": draw_lanes(report, names, room),
        "bars": [incident_bar(one, report) for one in report.incidents[: room.incidents]],
        "mark_kind": mark_kind,
        "step_id": step_id,
        "matrix_nodes": matrix_nodes,
        "matrix": [_matrix_row(report, observer, matrix_nodes) for observer in matrix_nodes],
        "steps_shown": room.story_steps,
        "parts_shown": room.step_parts,
        "figure_words": FIGURE_WORDS,
        "figure_text": figure_text,
        "clock": clock,
        "instant": moment,
        "since_start": lambda ts_ns: clock((ts_ns - report.first_ns) // 1_000_000),
        "duration": lambda value: figure_text("duration_ms", value) if value is not None else "open at the end",
        "seconds_long": seconds(max(report.last_ns - report.first_ns, 0) // 1_000_000),
    }
    return render_page("history.html", context, scripts=["timeline.js"])


# -- silence -----------------------------------------------------------------------------------------------------------


def _matrix_nodes(report: HistoryReport, count: int) -> list[HistoryNode]:
    """The nodes of the matrix: those that talked, or that should have."""
    involved = {node for pair in report.silences for node in pair}
    nodes = [node for node in report.nodes if node.node_id in involved]
    if len(nodes) <= count:
        return nodes
    worst: dict[str, int] = {}
    for pair, silence_ms in report.silences.items():
        for node_id in pair:
            worst[node_id] = max(worst.get(node_id, 0), silence_ms)
    kept = set(sorted(worst, key=lambda node_id: (-worst[node_id], node_id))[:count])
    return [node for node in nodes if node.node_id in kept]


def _matrix_row(report: HistoryReport, observer: HistoryNode, nodes: Sequence[HistoryNode]) -> MatrixRow:
    cells: list[tuple[int, int | None]] = []
    for node in nodes:
        silence_ms = report.silences.get((observer.node_id, node.node_id))
        cells.append((0 if silence_ms is None else silence_level(silence_ms, report.node_timeout_ms), silence_ms))
    return MatrixRow(observer, cells)


def silence_level(silence_ms: int, node_timeout_ms: int) -> int:
    """The shade of a cell, 0 to 4: how many of `SILENCE_STEPS` node timeouts the silence is longer than."""
    return sum(silence_ms > step * node_timeout_ms for step in SILENCE_STEPS)
