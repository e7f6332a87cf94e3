"""The history of a cluster as one HTML file: findings, timelines, stories, silence, costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slotscope.reports.history.report import HealthSpan, HistoryNode, HistoryReport, IncidentLine, Lane, RoleSpan
from slotscope.reports.history.terminal import FIGURE_WORDS, clock, figure_text, moment
from slotscope.reports.page import render_page
from slotscope.reports.severities import count_by_severity
from slotscope.runtime import text

LANE_WIDTH = 1000
"""Units of a lane's drawing, from the first to the last evidence."""
SPAN_WIDTH_MIN = 1.5
"""What lasts shorter still shows."""
PAGE_BYTES_MAX = 2_000_000
"""A page of more is slow to open: it shows less of everything, and says how much."""
SILENCE_STEPS = (0.5, 1, 2, 4)
"""Shades of the matrix, in node timeouts."""


class Room(NamedTuple):
    """How much of each list a page shows; a matrix of more nodes is not read by anybody."""

    findings: int = 300
    incidents: int = 1000
    story_steps: int = 400
    lanes: int = 300
    lane_spans: int = 200
    lane_changes: int = 60
    matrix_nodes: int = 60
    costs: int = 1000

    def half(self) -> Room:
        """Half of everything."""
        return Room(*(max(count // 2, 1) for count in self))


class Bar(NamedTuple):
    """A part of a lane, in units of `LANE_WIDTH`, with its words."""

    x: str
    width: str
    kind: str
    words: str


class Drawn(NamedTuple):
    """A lane, ready to be drawn: *now* is what the node is at the end."""

    lane: Lane
    now: RoleSpan | None
    health: str
    roles: Sequence[Bar]
    healths: Sequence[Bar]
    changes: Sequence[tuple[int, str]]
    change_count: int
    words: str


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
        "kinds": _kinds(report.incidents),
        "lanes": [_drawn(lane, report, names, room) for lane in report.lanes[: room.lanes]],
        "lane_width": LANE_WIDTH,
        "marks": [_mark(one, report) for one in report.incidents[: room.incidents]],
        "matrix_nodes": matrix_nodes,
        "matrix": [_matrix_row(report, observer, matrix_nodes) for observer in matrix_nodes],
        "steps_shown": room.story_steps,
        "figure_words": FIGURE_WORDS,
        "figure_text": figure_text,
        "clock": clock,
        "instant": moment,
        "since_start": lambda ts_ns: clock((ts_ns - report.first_ns) // 1_000_000),
        "duration": lambda value: figure_text("duration_ms", value) if value is not None else "open at the end",
        "seconds_long": f"{max(report.last_ns - report.first_ns, 0) / 1e9:.3f} s",
    }
    return render_page("history.html", context)


def _kinds(incidents: Sequence[IncidentLine]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in incidents:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    return counts


# -- timelines ---------------------------------------------------------------------------------------------------------


def _place(report: HistoryReport, from_ns: int, to_ns: int) -> tuple[str, str]:
    """Where a time lies in a lane, and how wide it is."""
    whole = max(report.last_ns - report.first_ns, 1)
    start = min(max(from_ns - report.first_ns, 0), whole)
    end = min(max(to_ns - report.first_ns, start), whole)
    width = max(LANE_WIDTH * (end - start) / whole, SPAN_WIDTH_MIN)
    return f"{min(LANE_WIDTH * start / whole, LANE_WIDTH - width):.2f}", f"{width:.2f}"


def _mark(one: IncidentLine, report: HistoryReport) -> Bar:
    ended_ns = report.last_ns if one.ended_ns is None else one.ended_ns
    x, width = _place(report, one.started_ns, ended_ns)
    return Bar(x, width, one.kind, f"{one.number} {one.kind}")


def _drawn(lane: Lane, report: HistoryReport, names: dict[str, str], room: Room) -> Drawn:
    now = lane.roles[-1] if lane.roles else None
    health = lane.healths[-1].health if lane.healths else "fine"
    changes = _changes(lane, report, names)
    failed_ms = sum((span.to_ns - span.from_ns) // 1_000_000 for span in lane.healths if span.health == "failed")
    words = (
        f"{lane.node.name}: {len(lane.roles)} roles and epochs, at the end"
        f" {_role_words(now, names) if now else 'not heard'}, {health}; held for failed for"
        f" {figure_text('failed_ms', failed_ms)}"
    )
    return Drawn(
        lane,
        now,
        health,
        [_role_bar(span, report, names) for span in lane.roles[: room.lane_spans]],
        [_health_bar(span, report) for span in lane.healths[: room.lane_spans] if span.health != "fine"],
        changes[: room.lane_changes],
        len(changes),
        text.printable(words, 300),
    )


def _role_words(span: RoleSpan, names: dict[str, str]) -> str:
    if span.role == "replica":
        return f"replica of {names.get(span.master_id, span.master_id[:8] or 'nobody')}, epoch {span.epoch}"
    return f"master, epoch {span.epoch}, {text.plural(span.slot_count, 'slot')}"


def _role_bar(span: RoleSpan, report: HistoryReport, names: dict[str, str]) -> Bar:
    kind = "replica" if span.role == "replica" else "master" if span.slot_count else "empty"
    return Bar(*_place(report, span.from_ns, span.to_ns), kind, text.printable(_role_words(span, names), 120))


def _health_bar(span: HealthSpan, report: HistoryReport) -> Bar:
    return Bar(*_place(report, span.from_ns, span.to_ns), span.health, f"{span.health}, by {span.observers}")


def _changes(lane: Lane, report: HistoryReport, names: dict[str, str]) -> list[tuple[int, str]]:
    """Everything that a lane draws, in words and in order of time."""
    told = [(max(span.from_ns, report.first_ns), _role_words(span, names)) for span in lane.roles]
    told += [
        (span.from_ns, f"{span.health} in the view of {text.plural(span.observers, 'other node')}")
        if span.health != "fine"
        else (span.from_ns, "trusted by all others")
        for at, span in enumerate(lane.healths)
        if at or span.health != "fine"
    ]
    return sorted(told)


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
