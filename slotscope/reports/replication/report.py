"""The report on replication: links, resyncs and offsets from its tables, and as a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schemas.replication import REPLICATION_LINKS, REPLICATION_OFFSETS, RESYNCS
from slotscope.reports.document import (
    Cell,
    Column,
    Document,
    Facts,
    Format,
    Place,
    Section,
    Sentence,
    Steps,
    Table,
    Template,
    Tile,
    how_to_read,
)
from slotscope.reports.history.lanes import Bar, bar_of
from slotscope.reports.history.terminal import clock, moment
from slotscope.reports.records import record
from slotscope.runtime import text
from slotscope.runtime.storage.delta_files import read_rows

SHOWN_MAX = 1_000
"""Resyncs and pieces of links that are told; the tables hold all."""
OFFSETS_MAX = 5_000
FULL = "full"
LOST = ("connect", "lost")


@dataclass(frozen=True, slots=True)
class Resync:
    """One request to go on, or for everything; *as_foreseen* is None where no answer was captured."""

    resync_id: int
    ts_ns: int
    replica: str
    master: str
    asked: str
    answered: str | None
    as_foreseen: bool | None
    why: str
    dump_bytes: int
    bytes: int
    duration_ms: float | None
    outcome: str


@dataclass(frozen=True, slots=True)
class LinkPiece:
    """Who followed whom while the link was in one state; *valid_to_ns* is None while it holds."""

    link_id: int
    replica: str
    master: str
    state: str
    link_status: str
    valid_from_ns: int
    valid_to_ns: int | None
    offset: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """*lag_bytes* of what a master had sent were not yet acknowledged, where the replica acknowledged."""

    ts_ns: int
    replica: str
    master: str
    lag_bytes: int | None


@dataclass(frozen=True, slots=True)
class ReplicationReport:
    """Everything that a report shows, each list in order of time or of link."""

    snapshot_id: str
    resyncs: Sequence[Resync]
    pieces: Sequence[LinkPiece]
    offsets: Sequence[OffsetMark]

    @property
    def first_ns(self) -> int:
        """When the first of it was."""
        return min(self._times(), default=0)

    @property
    def last_ns(self) -> int:
        """When the last of it was."""
        return max(self._times(), default=0)

    def _times(self) -> list[int]:
        asked = [(one.ts_ns + round((one.duration_ms or 0) * 1_000_000)) for one in self.resyncs]
        held = [at for one in self.pieces for at in (one.valid_from_ns, one.valid_to_ns) if at is not None]
        return [*(one.ts_ns for one in self.resyncs), *asked, *held, *(one.ts_ns for one in self.offsets)]

    @property
    def replicas(self) -> list[str]:
        """Who followed anybody, in order of address."""
        return sorted({one.replica for one in self.pieces} | {one.replica for one in self.resyncs})

    @property
    def last_pieces(self) -> list[LinkPiece]:
        """The links that hold at the end."""
        return [one for one in self.pieces if one.valid_to_ns is None]

    @property
    def verdict(self) -> str:
        """How often replicas were sent everything, and whether that was to be expected, in one sentence."""
        if not self.resyncs and not self.pieces:
            return "No replication in these captures."
        full = [one for one in self.resyncs if one.answered == FULL]
        kinds = Counter(one.answered or "unanswered" for one in self.resyncs)
        counts = ", ".join(f"{text.count(count)} {kind}" for kind, count in kinds.items())
        sent = f", {text.size(sum(one.dump_bytes for one in full))} of dumps" if full else ""
        other = sum(one.as_foreseen is False for one in self.resyncs)
        unforeseen = f"; {text.count(other)} not as predicted from the traffic before" if other else ""
        down = sum(one.link_status != "up" for one in self.last_pieces)
        end = f"{text.plural(len(self.last_pieces), 'link')} at the end" + (
            f", {text.count(down)} of them down" if down else ""
        )
        return (
            f"{text.plural(len(self.resyncs), 'resync')}"
            + (f" ({counts}{sent})" if counts else "")
            + f"{unforeseen}; {end}."
        )


def load_replication(root: str, snapshot: str) -> ReplicationReport:
    """What the tables hold of *snapshot*; raises InputError where they are not there."""
    resyncs = read_rows(root, RESYNCS, order_by="resync_id", limit=SHOWN_MAX, snapshot_id=snapshot)
    links = read_rows(root, REPLICATION_LINKS, order_by="link_id, piece", limit=SHOWN_MAX, snapshot_id=snapshot)
    offsets = read_rows(root, REPLICATION_OFFSETS, order_by="ts_ns", limit=OFFSETS_MAX, snapshot_id=snapshot)
    return ReplicationReport(
        snapshot,
        [record(Resync, row) for row in resyncs],
        [record(LinkPiece, row) for row in links],
        [record(OffsetMark, row) for row in offsets],
    )


LANES_MAX = 300
RESYNCS_SHOWN = 400


class ReplicaLane(NamedTuple):
    """One replica: its links as bars, its resyncs as marks, and all of it in words."""

    replica: str
    links: list[Bar]
    marks: list[tuple[Bar, str]]
    now: str
    words: str


def replication_document(report: ReplicationReport) -> Document:
    """Return *report* as a document."""
    full = [one for one in report.resyncs if one.answered == FULL]
    unforeseen = sum(one.as_foreseen is False for one in report.resyncs)
    lags = [one.lag_bytes for one in report.offsets if one.lag_bytes is not None]
    return Document(
        "replication",
        f"Replication of {report.snapshot_id}",
        report.verdict,
        [_timelines(report), *_resyncs(report), _links(report), _ends(report), _reading()],
        names=(report.snapshot_id,),
        about=(report.snapshot_id,),
        of_ms=report.last_ns // 1_000_000 or None,
        page_subtitle=f"{moment(report.first_ns)} to {moment(report.last_ns)}" if report.replicas else "",
        is_calm=not full and not unforeseen,
        page_words="All of it on a time axis",
        tiles=[
            Tile("total-resyncs", "Resyncs", len(report.resyncs)),
            Tile(
                "total-full",
                "Full resyncs",
                len(full),
                note=f"{text.size(sum(one.dump_bytes for one in full))} of dumps",
            ),
            Tile("total-unforeseen", "Not as predicted", unforeseen, note="from the traffic before"),
            Tile("total-lag", "Largest lag", max(lags, default=None), Format.SIZE, "sent and not acknowledged"),
        ],
        scripts=("timeline.js",),
    )


def _since_start(report: ReplicationReport, ts_ns: int) -> str:
    return clock((ts_ns - report.first_ns) // 1_000_000)


def _timelines(report: ReplicationReport) -> Section:
    steps = {one.resync_id: f"resync-{at}" for at, one in enumerate(report.resyncs[:RESYNCS_SHOWN], 1)}
    context = {
        "report": report,
        "lanes": [_lane(report, replica, steps) for replica in report.replicas[:LANES_MAX]],
        "steps": steps,
        "resyncs_shown": RESYNCS_SHOWN,
        "mark_kind": _mark_kind,
        "instant": moment,
        "since_start": lambda ts_ns: _since_start(report, ts_ns),
    }
    blocks = [Template("replication.html", context)] if report.replicas else []
    return Section("timelines", "Links over time", blocks, short="Timelines", on=Place.PAGE)


def _resyncs(report: ReplicationReport) -> list[Section]:
    rows = [
        (_since_start(report, one.ts_ns), one.why + ("" if one.as_foreseen in (True, None) else " (not as predicted)"))
        for one in report.resyncs
    ]
    answered = [one for one in report.resyncs if one.as_foreseen is not None]
    about = f"{sum(bool(one.as_foreseen) for one in answered)} of {len(answered)} as predicted"
    return [Section("resyncs", "Resyncs", [Steps(rows)], about=about, on=Place.TERMINAL)]


def _links(report: ReplicationReport) -> Section:
    def lasted(one: LinkPiece) -> Cell:
        return Cell(
            ((one.valid_to_ns or report.last_ns) - one.valid_from_ns) / 1e9,
            "until the end" if one.valid_to_ns is None else "",
        )

    columns = [
        Column(
            "Since start",
            Format.DURATION,
            lambda one: Cell(one.valid_from_ns, _since_start(report, one.valid_from_ns)),
            "ascending",
        ),
        Column("Replica", Format.TEXT, "replica"),
        Column("Master", Format.TEXT, "master"),
        Column("State", Format.TEXT, "state"),
        Column("Link", Format.TEXT, "link_status"),
        Column("Lasted", Format.DURATION, lasted),
        Column("Offset", Format.COUNT, "offset"),
        Column("Evidence", Format.LONG, "cause"),
    ]
    pieces = sorted(report.pieces, key=lambda one: one.valid_from_ns)
    table = Table(
        "link-table", "One row for each state of a link", columns, pieces, "silver/replication_links", on_page=300
    )
    return Section("links", "Links", [table], on=Place.PAGE)


def _ends(report: ReplicationReport) -> Section:
    facts = [
        (
            one.replica,
            f"follows {one.master}: {one.state}, link {one.link_status}"
            + (f", offset {one.offset:,}" if one.offset is not None else ""),
        )
        for one in report.last_pieces
    ]
    blocks = [Facts(facts)] if facts else [Sentence("No replica follows a master.")]
    return Section("ends", "At the end", blocks if report.replicas else [], on=Place.TERMINAL)


def _reading() -> Section:
    sentences = (
        "A replica that connects asks its master to continue from the byte after its last one (PSYNC). The master continues if it knows that history"
        " and its backlog reaches back that far. Otherwise it sends everything as a dump (full resync).",
        "As predicted: the same rules, applied to the traffic before the request, gave the same answer.",
        "Tables: gold/resyncs, silver/replication_links, silver/replication_offsets.",
    )
    return how_to_read(*sentences)


def _lane(report: ReplicationReport, replica: str, steps: dict[int, str]) -> ReplicaLane:
    pieces = [one for one in report.pieces if one.replica == replica]
    asked = [one for one in report.resyncs if one.replica == replica and one.resync_id in steps]
    links = [_link_bar(one, report) for one in pieces]
    marks = [(_resync_bar(one, report), steps[one.resync_id]) for one in asked]
    last = [one for one in pieces if one.valid_to_ns is None]
    now = (
        ", ".join(f"{one.state} with {one.master}, link {one.link_status}" for one in last)
        or "follows no master at the end"
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
