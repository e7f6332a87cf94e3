"""From the tables of a replay to gold/incidents, gold/incident_steps and gold/findings.

Spans of headers are few (`slotscope.pipelines.bus.headers`).  They go with the silver rows of the snapshot, changes instead of
messages, to `cluster_core.incidents` on the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from cluster_core.columns import Column, Kind, columns_of
from cluster_core.formats.prometheus_answer import MetricSample
from cluster_core.history.logs import logged_views, with_logs
from cluster_core.history.open_slots import OpenMark
from cluster_core.history.samples import metric_rows
from cluster_core.history.statements import Lines, LoggedLine
from cluster_core.incidents.catalogue import find_findings, find_story
from cluster_core.incidents.gaps import GapSeen
from cluster_core.incidents.header_claims import ClaimSpan
from cluster_core.incidents.history import History, OffsetSeen
from cluster_core.incidents.incident import SEVERITY_ORDER, Finding, Incident, SetUp
from cluster_core.incidents.rows import FindingRow, IncidentRow, StepRow, finding_row, incident_row, step_rows
from cluster_core.incidents.story import name_all, seconds, set_up_text, step_text, summary_of
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import slot_bits
from cluster_core.topology.nodes_text import read_nodes
from schemas.caveats import Caveat, Code
from schemas.history import (
    BUS_MESSAGES,
    EPOCHS,
    EVENTS,
    FAILURE_REPORTS,
    GAPS,
    LOG_EVENTS,
    METRIC_SAMPLES,
    NODE_POLLS,
    NODE_VIEWS,
    SLOT_BITMAPS,
    VOTES,
)
from schemas.incidents import FINDINGS, INCIDENT_STEPS, INCIDENTS
from schemas.table import Table, rows_table
from slotscope.pipelines.bus.headers import LARGEST, Basis, Headers
from slotscope.runtime.storage import tables
from slotscope.runtime.storage.delta_files import as_table
from slotscope.runtime.storage.runs import Run
from slotscope.sources.bus.polls_and_logs import SAMPLED

# -- rows of the replay ------------------------------------------------------------------------------------------------

ROWS: tuple[tuple[Table, type], ...] = (
    (NODE_VIEWS, NodeViewRow),
    (EVENTS, EventRow),
    (VOTES, VoteRow),
    (EPOCHS, EpochRow),
    (FAILURE_REPORTS, FailureReportRow),
)
"""Tables that are rows of a replay, and the row."""


class SnapshotEvidence(NamedTuple):
    """Evidence of a snapshot for the core; nodes of *offsets* are ids or addresses, those of *lines* may lack an id."""

    rows: list[ReplayRow]
    lines: list[LoggedLine]
    samples: dict[tuple[str, Source], list[MetricSample]]
    header_claims: list[ClaimSpan]
    slots_of: dict[int, int]
    gaps: list[GapSeen]
    offsets: list[OffsetSeen]
    open_marks: list[OpenMark]
    scraped: Sequence[NodeViewRow] = ()


def collect_notes(run: Run, headers: Headers, polls: str) -> SnapshotEvidence:
    """All rows that the core needs, of polls those that meet *polls*; silver rows are changes and not messages, and are read without Spark."""

    has_node = "observer IS NOT NULL OR address IS NOT NULL"
    lines = [logged_line(row) for row in run.read(LOG_EVENTS, LINE_COLUMNS, has_node)]
    are_needed = f"observer IS NOT NULL AND ({polls})"
    polled = run.read(NODE_POLLS, ("observer", "ts_ns", "asked_ns", *SAMPLED), are_needed)
    rows = [
        row
        for table, kind in ROWS
        for row in _replay_rows(kind, run.read(table, _names(kind), "source <> 'log'" if table is EVENTS else "TRUE"))
    ]
    gaps = run.read(GAPS, ("source_id", "target_id", "valid_from_ns", "valid_to_ns"))
    metrics = run.read(METRIC_SAMPLES, ("line", *MetricSample._fields))
    bitmaps, with_open = run.read(SLOT_BITMAPS, ("bitmap_id", "slots")), f"{are_needed} AND {HAS_OPEN_SLOTS}"
    notes = SnapshotEvidence(
        rows=rows,
        lines=lines,
        samples=polled_samples(polled),
        header_claims=headers.spans,
        slots_of={row["bitmap_id"]: slot_bits(row["slots"]) for row in bitmaps},
        gaps=[GapSeen(*row.values()) for row in gaps],
        offsets=[
            *_asked_in_logs(lines),
            *(
                OffsetSeen(row["observer"], row["ts_ns"], row["master_offset"])
                for row in polled
                if row["master_offset"] is not None
            ),
        ],
        open_marks=list(open_marks(run.read(NODE_POLLS, ("observer", "ts_ns", "text"), with_open))),
    )  # fmt: skip
    return with_metrics(notes, metrics)


_TEXTS = ("role", "master", "version", "server_run_id")


def with_metrics(notes: SnapshotEvidence, scraped: Iterable[Mapping[str, Any]]) -> SnapshotEvidence:
    """*notes* and rows of bronze/metric_samples; they show beliefs only of nodes without beliefs in packets, polls or logs."""
    samples = [
        MetricSample._make(row[name] or "" if name in _TEXTS else row[name] for name in MetricSample._fields)
        for row in sorted(scraped, key=lambda row: (row["address"], row["ts_ns"]))
    ]
    views = [row for row in notes.rows if isinstance(row, NodeViewRow)]
    ids = {f"{line.ip}:{line.port}": line.observer for line in notes.lines if line.ip and line.port}
    ids |= {f"{row.ip}:{row.port}": row.node_id for row in views if row.port}
    observers = {row.observer for row in views}
    rows = [row for row in metric_rows(samples, ids) if row.observer not in observers]
    sampled: dict[tuple[str, Source], list[MetricSample]] = {}
    for sample in samples:
        sampled.setdefault((ids.get(sample.address, sample.address), Source.METRICS), []).append(sample)
    return notes._replace(scraped=rows, samples=notes.samples | sampled)


LINE_COLUMNS = ("observer", "address", "kind", "subject", "text", "ts_ns", "epoch", "peer", "detail", "pid", "role")
"""Columns of log events that are read."""


def polled_samples(polls: Iterable[Mapping[str, Any]]) -> dict[tuple[str, Source], list[MetricSample]]:
    """Polled CLUSTER INFO and INFO of each observer, in order of time."""
    by_node: dict[tuple[str, Source], list[MetricSample]] = {}
    for row in polls:
        asked_ns = row["ts_ns"] if row["asked_ns"] is None else min(row["asked_ns"], row["ts_ns"])
        values = {name: row[name] for name in SAMPLED}
        values["server_run_id"] = values["server_run_id"] or ""
        sample = MetricSample(asked_ns, row["ts_ns"], row["observer"], **values)
        by_node.setdefault((row["observer"], Source.POLL), []).append(sample)
    return {key: sorted(samples, key=lambda polled: polled.ts_ns) for key, samples in by_node.items()}


OPEN_SLOT = "->-|-<-"
"""A regular expression for answers to CLUSTER NODES with an open slot."""
HAS_OPEN_SLOTS = f"regexp_like(text, '{OPEN_SLOT}')"


def open_marks(polls: Iterable[Mapping[str, Any]]) -> Iterator[OpenMark]:
    """The open slots that answers of masters to CLUSTER NODES show; each node shows its own alone."""
    for row in polls:
        me = read_nodes(row["text"].encode("utf-8", "surrogatepass")).by_id.get(row["observer"])
        if me is None or NodeFlags.MASTER not in me.flags:
            continue
        for slot, other in me.migrating.items():
            yield OpenMark(me.id, row["ts_ns"], slot, me.id, other)
        for slot, other in me.importing.items():
            yield OpenMark(me.id, row["ts_ns"], slot, other, me.id)


def _names(row: type) -> list[str]:
    return [column.name for column in columns_of(row)]


def _replay_rows(row: type, values: list[dict[str, Any]]) -> Iterator[ReplayRow]:
    readers = [(column.name, _reader(column)) for column in columns_of(row)]
    return (row(*(read(value[name]) for name, read in readers)) for value in values)


def _reader(column: Column) -> Callable[[Any], Any]:
    """Return the conversion of a column to its enum or bool; a missing message becomes -1."""
    if column.kind is Kind.MESSAGE:
        return lambda value: -1 if value is None else value
    if column.kind is Kind.UNSIGNED:
        return _signed
    return (lambda value: value) if column.type in (str, int) else column.type


def _signed(value: Any) -> int:
    """A number of unsigned 64 bits, 0 where there is none."""
    return min(int(value or 0), LARGEST)


def logged_line(row: Mapping[str, Any]) -> LoggedLine:
    """Convert a row of bronze/log_events to the core's record."""
    ip, _, port = (row["address"] or "").rpartition(":")
    number = int(port) if port.isdigit() else 0
    return LoggedLine(
        row["observer"] or "",
        ip,
        number,
        row["ts_ns"],
        EventKind(row["kind"]),
        row["subject"] or "",
        _signed(row["epoch"]),
        row["text"] or "",
        row["peer"] or "",
        row["detail"] or "",
        row["pid"] or 0,
        row["role"] or "",
    )


def _asked_in_logs(lines: Iterable[LoggedLine]) -> Iterator[OffsetSeen]:
    """A master that was deposed asks for the byte behind its own stream."""
    for line in lines:
        if line.kind == EventKind.RESYNC_ASKED and line.observer and line.detail.isdigit():
            yield OffsetSeen(line.observer, line.ts_ns, int(line.detail) - 1, is_last=True)


def history_of(notes: SnapshotEvidence, basis: Basis) -> tuple[History, list[NodeViewRow]]:
    """The index that the core asks, and the views that logs and metrics add to those of the replay."""
    views = [*(row for row in notes.rows if isinstance(row, NodeViewRow)), *notes.scraped]
    times = [] if views else [line.ts_ns for line in notes.lines]
    ids = {f"{view.ip}:{view.port}": view.node_id for view in sorted(views, key=lambda view: view.valid_from_ns)}
    logged = ((f"{line.ip}:{line.port}", line.observer) for line in notes.lines if line.observer and line.port)
    owners = list(dict.fromkeys([*logged, *ids.items()]))
    lines = Lines(_with_ids(notes.lines, owners), {node: address for address, node in ids.items()})
    added = [*notes.scraped, *logged_views(views, lines)]
    history = History(
        [*with_logs(notes.rows, lines), *added],
        notes.header_claims,
        notes.slots_of,
        node_timeout_ms=basis.node_timeout_ms,
        knows_timeout=basis.knows_timeout,
        first_ns=min([basis.first_ns or LARGEST, *times]),
        last_ns=max([basis.last_ns, *times]),
        offsets=[seen._replace(node=ids.get(seen.node, seen.node)) for seen in notes.offsets],
        gaps=notes.gaps,
        lines=lines,
        samples=notes.samples,
        open_marks=notes.open_marks,
    )
    return history, added


def _with_ids(lines: Iterable[LoggedLine], owners: Sequence[tuple[str, str]]) -> Iterator[LoggedLine]:
    """Return the lines of known nodes; the address, or a port of one node only, names the node of a log without a name."""
    by_port: dict[int, set[str]] = {}
    for address, node in owners:
        by_port.setdefault(int(address.rpartition(":")[2]), set()).add(node)
    ids = dict(owners)
    for line in lines:
        same_port = by_port.get(line.port, set())
        by_address = ids.get(f"{line.ip}:{line.port}", "") if line.ip else min(same_port) if len(same_port) == 1 else ""
        node = line.observer or by_address
        if node:
            yield line._replace(observer=node)


class GoldOutcome(NamedTuple):
    """The number of written steps, the state of the headers of each node, the nodes of each cluster (`clusters_in`), *views* that logs
    and metrics add to those of the replay, and notes for the reader.
    """

    steps: int
    states: dict[str, bytes]
    clusters: list[list[str]]
    views: pa.Table
    notes: Sequence[Caveat] = ()


SKEW_NS: Final = 10_000_000_000
"""Distance of two sources of one promotion that shows a wrong clock."""
RECENT_NS: Final = 600_000_000_000
"""Recorded time before a batch; its polls are read again."""
BEFORE_NS: Final = 120_000_000_000
"""Time before an incident in which polls belong to it."""


def recent_since(last_ns: int, lateness_ns: int) -> int:
    """Return the time from which a batch finds incidents again, where the last batch ended at *last_ns*."""
    return last_ns - RECENT_NS - lateness_ns


def polls_since(since_ns: int) -> str:
    """The condition of polls that a batch needs to find incidents since *since_ns*."""
    return f"ts_ns >= {max(0, since_ns - BEFORE_NS)}"


def write_gold(run: Run, basis: Basis, headers: Headers, since_ns: int = 0) -> GoldOutcome:
    """Write gold/incidents, gold/incident_steps and gold/findings from the written and kept rows of *run*'s snapshot.

    Stored incidents and findings that began before *since_ns* stay.  An incident that lasted until then and changed is found again, with
    the polls around its start.
    """
    columns = ("incident", "incident_id", "kind", "subject", "started_ns", "ended_ns")
    earlier = _stored(run, INCIDENTS, f"started_ns < {since_ns}", *columns)
    spanning = [row for row in earlier if row["ended_ns"] is None or row["ended_ns"] >= since_ns]
    polls = polls_since(since_ns)

    def find(polls: str) -> tuple[SnapshotEvidence, History, list[NodeViewRow], SetUp | None, list[Incident]]:
        notes = collect_notes(run, headers, polls)
        history, added = history_of(notes, basis)
        return notes, history, added, *find_story(history)

    notes, history, added, set_up, incidents = find(polls)
    changed = _changed(run, spanning, incidents, since_ns)
    if changed:
        starts = [row["started_ns"] for row in changed]
        windows = (f"ts_ns BETWEEN {start_ns - BEFORE_NS} AND {start_ns + RECENT_NS}" for start_ns in starts)
        run.forget_read(NODE_POLLS)
        notes, history, added, set_up, incidents = find(" OR ".join((polls, *windows)))
    matches = {row["incident"]: _find_again(row, incidents, since_ns) for row in changed}
    recent = [incident for incident in incidents if incident.started_ns >= since_ns]
    kept = max((row["incident"] for row in earlier), default=0)
    steps = _write(run, history, recent, kept, matches, find_findings(history), since_ns)
    caveats = [] if set_up is None else [Caveat.note(Code.SET_UP, set_up_text(set_up))]
    caveats += skew_caveats(incidents)
    return GoldOutcome(
        steps, headers.states, clusters_in(notes.rows), rows_table(added, NodeViewRow, NODE_VIEWS), caveats
    )


def skew_caveats(incidents: Iterable[Incident]) -> list[Caveat]:
    """Warn of a wrong clock or time zone: sources date one promotion far apart."""
    apart = sorted(incident.skew_ns for incident in incidents if incident.skew_ns >= SKEW_NS)
    if not apart:
        return []
    least = seconds(apart[0] // 1_000_000)
    text = f"{len(apart)} promotions: logs and polls or metrics are at least {least} apart; check --log-zone and clocks"
    return [Caveat.warning(Code.LOG_CLOCK, text)]


def _changed(
    run: Run, spanning: Sequence[Mapping[str, Any]], incidents: Sequence[Incident], since_ns: int
) -> list[Mapping[str, Any]]:
    """Those of the stored incidents *spanning* that ended, go on, or have other steps since *since_ns* than *incidents* show."""
    is_new = f"at_ns >= {since_ns}"
    stored = Counter(row["incident"] for row in _stored(run, INCIDENT_STEPS, is_new, "incident")) if spanning else {}
    changed = []
    for row in spanning:
        match = _find_again(row, incidents, since_ns)
        new_steps = sum(step.ts_ns >= since_ns for step in match.steps) if match is not None else 0
        if match is None or match.ended_ns != row["ended_ns"] or new_steps != stored.get(row["incident"], 0):
            changed.append(row)
    return changed


def _find_again(row: Mapping[str, Any], incidents: Sequence[Incident], since_ns: int) -> Incident | None:
    """The incident of the stored *row* among *incidents*; its start may differ where its first polls were not read."""
    same = [
        incident
        for incident in incidents
        if (incident.kind, incident.subject or None) == (row["kind"], row["subject"]) and incident.started_ns < since_ns
    ]
    return max(
        same, key=lambda incident: (incident.incident_id == row["incident_id"], incident.started_ns), default=None
    )


def clusters_in(rows: Iterable[ReplayRow]) -> list[list[str]]:
    """The nodes of each cluster: those that know each other, directly or through others, by captures or polls; single nodes left out."""
    group: dict[str, set[str]] = {}
    for row in rows:
        if isinstance(row, NodeViewRow) and row.evidence in (Source.CAPTURE, Source.POLL):
            small, large = sorted((group.get(node) or {node} for node in (row.observer, row.node_id)), key=len)
            if small is not large:
                large |= small
                group |= dict.fromkeys(large, large)
    return sorted(sorted(nodes) for nodes in {id(nodes): nodes for nodes in group.values()}.values() if len(nodes) > 1)


def check_figures(run: Run, facts: Mapping[str, Any], known_messages: int, found_steps: int) -> None:
    """Compare the figures of *run* with its staged rows; raises InputError for a contradiction.

    *facts* are those of the capture task, *known_messages* of its messages were settled by earlier runs.
    """
    sql = """SELECT count(*) AS rows, count(type) AS types, count(file) AS files,
      max(message_id) - min(message_id) + 1 AS numbers FROM bus_messages"""
    (stored,) = run.query(sql, BUS_MESSAGES, stored=False).to_pylist()
    by = {f"{BUS_MESSAGES.name}, {name}": count or 0 for name, count in stored.items()}
    run.check("messages", {"read": facts["messages"] - known_messages, **by})
    sql = "SELECT sum(steps) AS steps FROM incidents"
    (counted,) = run.query(sql, INCIDENTS, stored=False).to_pylist()
    steps = {"found": found_steps, INCIDENTS.name: counted["steps"] or 0}
    run.check("steps", {**steps, INCIDENT_STEPS.name: run.rows[INCIDENT_STEPS]})


def _write(
    run: Run,
    history: History,
    recent: Sequence[Incident],
    kept: int,
    matches: Mapping[int, Incident | None],
    findings: Sequence[Finding],
    since_ns: int,
) -> int:
    """Replace the incidents after number *kept* by *recent*, and those with the numbers of *matches*; return the number of steps."""
    names = name_all(history.nodes, history.addresses)
    again = [(number, incident) for number, incident in matches.items() if incident is not None]
    numbered = [*again, *enumerate(recent, kept + 1)]
    incident_rows = [
        incident_row(number, incident, summary_of(incident, names), history.addresses) for number, incident in numbered
    ]
    steps = [
        row for number, incident in numbered for row in step_rows(number, incident, lambda step: step_text(step, names))
    ]
    kinds = ((incident_rows, IncidentRow, INCIDENTS), (steps, StepRow, INCIDENT_STEPS))
    replaced = " OR ".join([f"incident > {kept}", *(f"incident = {number}" for number in matches)])
    changes = [tables.Change(rows_table(rows, row, table), table, replaced) for rows, row, table in kinds]
    finding_rows = [
        finding_row(0, finding) for finding in findings if finding.last_ns is None or finding.last_ns >= since_ns
    ]
    rows = rows_table(finding_rows, FindingRow, FINDINGS).to_pylist()
    first_ns = {_about(row): row["first_ns"] or 0 for row in rows}
    before = _stored(run, FINDINGS, f"last_ns < {since_ns}", *FINDINGS.unlabelled.names)
    rows += [row for row in before if first_ns.get(_about(row), since_ns) > row["first_ns"]]
    rows.sort(key=lambda row: (SEVERITY_ORDER.index(row["severity"]), row["first_ns"] or 0, *_about(row)))
    by_number = [row | {"finding": number} for number, row in enumerate(rows, 1)]
    tables.apply_changes([*changes, tables.Change(as_table(FINDINGS, by_number), FINDINGS)], run)
    return len(steps)


def _about(finding: Mapping[str, Any]) -> tuple[str, str, str]:
    return finding["code"], finding["node_id"] or "", finding["other"] or ""


def _stored(run: Run, table: Table, where: str, *columns: str) -> list[dict[str, Any]]:
    """The rows of *table* that earlier batches left."""
    return run.read(table, columns, where, staged=False) if run.continues else []
