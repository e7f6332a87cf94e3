"""The history of a cluster as one HTML file: findings, stories, and a time axis with one lane a node.

Places are in percent of the whole time for a browser without scripts; ``data-from`` and ``data-to`` are µs since the start,
from which `timeline.js` draws any part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from cluster_core.incidents.story import seconds
from slotscope.reports.document import Document, HandDrawn, count_by_severity
from slotscope.reports.history.report import HistoryReport, IncidentLine, Lane, RoleSpan, StepLine
from slotscope.reports.history.terminal import FIGURE_LABELS, clock, figure_text, moment, print_incidents
from slotscope.reports.page import render_page
from slotscope.runtime import text

Names = Mapping[str, str]

SPAN_PERCENT_MIN = 0.15
"""Least width of a bar."""
MARK_KINDS = {
    "election": ("election", "vote", "won", "took", "manual", "paused", "adopted", "demoted"),
    "suspicion": ("pfail", "report", "fail", "doubted", "unserved", "unreached", "state-fail", "barred", "no-replica"),
    "process": ("last-sign", "cut-off", "process", "back", "trusted", "new-id"),
}
"""Colours of marks by the beginning of a step's kind; other kinds are changes."""


class ListLimits(NamedTuple):
    """How much of each list a page shows."""

    findings: int = 300
    incidents: int = 1000
    story_steps: int = 400
    lanes: int = 300
    lane_spans: int = 200
    lane_marks: int = 100

    def half(self) -> ListLimits:
        """Half of everything."""
        return ListLimits(*(max(count // 2, 1) for count in self))


class TimedRecord(Protocol):
    """A record with a first and a last time, in ns."""

    @property
    def first_ns(self) -> int:
        """When it begins."""

    @property
    def last_ns(self) -> int:
        """When it ends."""


class Bar(NamedTuple):
    """A part of a lane: its place in percent and in µs since the start, its kind and its label."""

    x: str
    width: str
    from_us: int
    to_us: int
    kind: str
    label: str


class Mark(NamedTuple):
    """A step of a story on the lane of a node that took part: the step's id and text."""

    bar: Bar
    step_id: str


class DrawnLane(NamedTuple):
    """A lane, ready to be drawn: *now* describes the node at the end, *part* whether it took part in an incident."""

    lane: Lane
    now: str
    health: str
    roles: Sequence[Bar]
    healths: Sequence[Bar]
    marks: Sequence[Mark]
    label: str
    part: bool


def draw_lanes(report: HistoryReport, names: Names, room: ListLimits) -> list[DrawnLane]:
    """The lanes of *report*: nodes that took part in an incident come first, before the others whom an incident put out of service for longest, and who took over."""
    marks: dict[str, list[Mark]] = {}
    incidents = report.incidents[: room.incidents]
    gravest = sorted(incidents, key=lambda incident: -(incident.figures.get("outage_ms") or 0))
    order = {
        node: at
        for at, node in enumerate(
            dict.fromkeys(n for incident in gravest for n in (incident.subject, incident.winner) if n)
        )
    }
    for incident in incidents:
        for place, step in enumerate(incident.steps[: room.story_steps], 1):
            for node, bar in _step_bars(report, step):
                order.setdefault(node, len(order))
                marks.setdefault(node, []).append(Mark(bar, step_id(incident, place)))
    lanes = sorted(report.lanes, key=lambda lane: order.get(lane.node.node_id, len(order)))[: room.lanes]
    return [_drawn(lane, report, names, room, marks, lane.node.node_id in order) for lane in lanes]


def _step_bars(report: HistoryReport, step: StepLine) -> Iterator[tuple[str, Bar]]:
    """Where a step lies on the lanes of its nodes."""
    label = text.printable(step.text, 120)
    for node in step.nodes:
        yield node, bar_of(report, step.at_ns, step.until_ns or step.at_ns, mark_kind(step), label)


def incident_bar(incident: IncidentLine, report: HistoryReport) -> Bar:
    """An incident on the axis."""
    ended_ns = report.last_ns if incident.ended_ns is None else incident.ended_ns
    return bar_of(
        report,
        incident.started_ns,
        ended_ns,
        incident.kind,
        text.printable(f"{incident.number} {incident.kind}: {incident.summary}", 200),
    )


def step_id(incident: IncidentLine, place: int) -> str:
    """Return the id of a step in the page."""
    return f"step-{incident.number}-{place}"


def mark_kind(step: StepLine) -> str:
    """The colour of a step's mark: a key of `MARK_KINDS`, or ``change``."""
    return next((name for name, begins in MARK_KINDS.items() if step.kind.startswith(begins)), "change")


def bar_of(whole: TimedRecord, from_ns: int, to_ns: int, kind: str, label: str) -> Bar:
    """The part of *whole* from *from_ns* to *to_ns*."""
    length = max(whole.last_ns - whole.first_ns, 1)
    start = min(max(from_ns - whole.first_ns, 0), length)
    end = min(max(to_ns - whole.first_ns, start), length)
    width = max(100 * (end - start) / length, SPAN_PERCENT_MIN)
    place = (f"{min(100 * start / length, 100 - width):.3f}", f"{width:.3f}")
    return Bar(*place, start // 1000, end // 1000, kind, label)


def _drawn(
    lane: Lane, report: HistoryReport, names: Names, room: ListLimits, marks: Mapping[str, list[Mark]], part: bool
) -> DrawnLane:
    now = role_text(lane.roles[-1], names) if lane.roles else "not heard"
    health = lane.healths[-1].health if lane.healths else "fine"
    failed_ms = sum((span.to_ns - span.from_ns) // 1_000_000 for span in lane.healths if span.health == "failed")
    label = (
        f"{lane.node.name}: {len(lane.roles)} roles and epochs, at the end"
        f" {now}, {health}; held for failed for"
        f" {figure_text('failed_ms', failed_ms)}"
    )
    return DrawnLane(
        lane,
        now,
        health,
        [_role_bar(span, report, names) for span in lane.roles[: room.lane_spans]],
        [
            bar_of(report, span.from_ns, span.to_ns, span.health, f"{span.health}, by {span.observers}")
            for span in lane.healths[: room.lane_spans]
            if span.health != "fine"
        ],
        marks.get(lane.node.node_id, [])[: room.lane_marks],
        text.printable(label, 300),
        part,
    )


def role_text(span: RoleSpan, names: Names) -> str:
    """Describe the role of a node; unknown parts are called so."""
    epoch = "epoch unknown" if span.epoch is None else f"epoch {span.epoch}"
    if span.role == "replica":
        return f"replica of {names.get(span.master_id, span.master_id[:8] or 'nobody')}, {epoch}"
    slots = "slots unknown" if span.slot_count is None else text.plural(span.slot_count, "slot")
    return f"{span.role}, {epoch}, {slots}"


def _role_bar(span: RoleSpan, report: HistoryReport, names: Names) -> Bar:
    has_slots = span.role == "master" and span.slot_count != 0
    kind = "replica" if span.role == "replica" else "master" if has_slots else "empty"
    return bar_of(report, span.from_ns, span.to_ns, kind, text.printable(role_text(span, names), 120))


PAGE_BYTES_MAX = 2_000_000
"""A page of more is slow to open: it shows less of everything, and says how much."""


def render_history(report: HistoryReport) -> str:
    """Return *report* as one page, to be written as UTF-8, of `PAGE_BYTES_MAX` at most; the same report gives the same text."""
    room = ListLimits()
    page = _render(report, room)
    while len(page.encode()) > PAGE_BYTES_MAX and room != room.half():
        room = room.half()
        page = _render(report, room)
    return page


def to_document(report: HistoryReport) -> Document:
    """Return *report* as a document with its own page and terminal text."""
    drawn = HandDrawn(partial(render_history, report), partial(print_incidents, report))
    about, title, of_ms = (report.snapshot_id,), f"History of {report.snapshot_id}", report.last_ns // 1_000_000
    return Document("history", title, report.verdict[0], (), about, about, of_ms, hand_drawn=drawn)


def _render(report: HistoryReport, room: ListLimits) -> str:
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
        "figure_labels": FIGURE_LABELS,
        "figure_text": figure_text,
        "clock": clock,
        "instant": moment,
        "since_start": lambda ts_ns: clock((ts_ns - report.first_ns) // 1_000_000),
        "duration": lambda value: figure_text("duration_ms", value) if value is not None else "open at the end",
        "seconds_long": seconds(max(report.last_ns - report.first_ns, 0) // 1_000_000),
    }
    return render_page("history.html", context, scripts=["timeline.js"])
