"""Replication as one HTML file: a lane a replica with whom it followed, every resync with its reason, how far the streams had come."""

from __future__ import annotations

from typing import NamedTuple

from cluster_core.incidents.story import seconds
from slotscope.reports.history.lanes import Bar, bar_of
from slotscope.reports.history.terminal import clock, moment
from slotscope.reports.line_chart import Chart, Series, line_chart
from slotscope.reports.page import render_page
from slotscope.reports.replication.report import FULL, LOST, LinkPiece, ReplicationReport, Resync
from slotscope.runtime import text

LANES_MAX = 300
RESYNCS_SHOWN = 400
LINKS_SHOWN = 300


class ReplicaLane(NamedTuple):
    """One replica: its links as bars, its resyncs as marks, and all of it in words."""

    replica: str
    links: list[Bar]
    marks: list[tuple[Bar, str]]
    now: str
    words: str


def render_replication(report: ReplicationReport) -> str:
    """Return *report* as one page, to be written as UTF-8; the same report gives the same text."""
    steps = {one.resync_id: f"resync-{at}" for at, one in enumerate(report.resyncs[:RESYNCS_SHOWN], 1)}
    full = [one for one in report.resyncs if one.answered == FULL]
    lags = [one.lag_bytes for one in report.offsets if one.lag_bytes is not None]
    context = {
        "report": report,
        "lanes": [_lane(report, replica, steps) for replica in report.replicas[:LANES_MAX]],
        "steps": steps,
        "resyncs_shown": RESYNCS_SHOWN,
        "links_shown": LINKS_SHOWN,
        "full": len(full),
        "dumped": sum(one.dump_bytes for one in full),
        "lag": max(lags, default=None),
        "unforeseen": sum(one.as_foreseen is False for one in report.resyncs),
        "mark_kind": _mark_kind,
        "chart": _chart(report),
        "seconds": seconds,
        "instant": moment,
        "since_start": lambda ts_ns: clock((ts_ns - report.first_ns) // 1_000_000),
    }
    return render_page("replication.html", context, scripts=["timeline.js"])


def _lane(report: ReplicationReport, replica: str, steps: dict[int, str]) -> ReplicaLane:
    pieces = [one for one in report.pieces if one.replica == replica]
    asked = [one for one in report.resyncs if one.replica == replica and one.resync_id in steps]
    links = [_link_bar(one, report) for one in pieces]
    marks = [(_resync_bar(one, report), steps[one.resync_id]) for one in asked]
    last = [one for one in pieces if one.valid_to_ns is None]
    now = (
        ", ".join(f"{one.state} with {one.master}, link {one.link_status}" for one in last)
        or "follows nobody at the end"
    )
    words = f"{replica}: {text.plural(len({one.link_id for one in pieces}), 'link')}, {text.plural(len(asked), 'resync')}; {now}"
    return ReplicaLane(replica, links, marks, now, text.printable(words, 300))


def _link_bar(one: LinkPiece, report: ReplicationReport) -> Bar:
    kind = "failed" if one.state in LOST else "master" if one.link_status == "up" else "doubted"
    words = text.printable(f"{one.master}, {one.state}", 120)
    return bar_of(
        report, one.valid_from_ns, report.last_ns if one.valid_to_ns is None else one.valid_to_ns, kind, words
    )


def _resync_bar(one: Resync, report: ReplicationReport) -> Bar:
    ended_ns = one.ts_ns + round((one.duration_ms or 0) * 1_000_000)
    return bar_of(report, one.ts_ns, ended_ns, _mark_kind(one), text.printable(one.why, 200))


def _mark_kind(one: Resync) -> str:
    return "doubt" if one.answered == FULL else "change" if one.answered in (None, "refused") else "process"


def _chart(report: ReplicationReport) -> Chart | None:
    """How far each replica's stream had been sent, a line a replica."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in report.offsets:
        lines.setdefault(one.replica, []).append(((one.ts_ns - report.first_ns) / 1e9, float(one.sent_offset)))
    return line_chart(
        [Series(text.printable(replica, 60), points) for replica, points in sorted(lines.items())],
        x_words=lambda value: f"+{value:g} s",
        y_words=lambda value: text.count(round(value), text.THIN_SPACE),
        words="Offset up to which each replica was sent its stream, over time; the table of links has the figures",
    )
