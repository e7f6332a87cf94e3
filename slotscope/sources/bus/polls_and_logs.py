"""Polls and logs as a replay takes them: rows of bronze tables, statements for the process that each comes from, and gaps in the recordings of a landing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import GAPS_FILE, Gap, Kind, read_gap
from cluster_core.formats.poll_lines import Poll, without_times
from cluster_core.formats.prometheus_answer import MetricSample, without_repeats
from cluster_core.replay.dispatch import Statement
from cluster_core.replay.evidence import Endpoint
from schemas.caveats import Caveat, Code
from slotscope.runtime import text
from slotscope.sources.bus.files import RecordedInput
from slotscope.sources.files import exists, read_lines
from slotscope.sources.node_polls import PollFile
from slotscope.sources.prometheus import read_metrics
from slotscope.sources.server_logs import LogLine, LogOptions, LogOwner, ServerLog, rotation_order

BUS_PORT_OFFSET: Final = 10_000
"""Default distance of the bus port from the client port (R1)."""
LOG_RESOLUTION_NS: Final = 1_000_000
"""Resolution of times in logs, rounded down: the event happened, and its message was seen, before the next millisecond."""
HEALTH_KINDS: Final = ("pfail", "fail-decided", "fail-learned", "fail-cleared")
"""Log events of health that a replay follows."""
STARTED: Final = "started"
"""Log event of a process start, with the server's version."""
SAMPLED: Final = ("cluster_ok", "server_run_id", "uptime_s", "messages_sent", "keys", "master_offset")
"""Fields of CLUSTER INFO and INFO in bronze/node_polls."""
_START = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PollsAndLogs:
    """Which files of polls and logs are read, and how."""

    polls: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    zone: str = "UTC"
    log_node: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass(slots=True)
class FileEvidence:
    """Statements and rows that were read from the files."""

    statements: list[Statement] = field(default_factory=list)
    homes: dict[str, Endpoint] = field(default_factory=dict)
    polls: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    polled_versions: dict[str, str] = field(default_factory=dict)
    node_timeouts_ms: dict[str, int] = field(default_factory=dict)
    metrics: list[MetricSample] = field(default_factory=list)
    bad: list[DecodeError] = field(default_factory=list)
    foreign: dict[str, int] = field(default_factory=dict)
    """Lines of logs that no server wrote, by file."""
    log_owners: dict[str, LogOwner] = field(default_factory=dict)
    """Nodes by the pod, container or host that a log shipper names: they name themselves in few files."""
    ahead_ns: int = 0
    """How far the clock is ahead by which the file under way tells time."""

    def notes(self) -> list[Caveat]:
        """Caveats for the reader about the files."""
        if not self.foreign:
            return []
        lines, files = text.plural(sum(self.foreign.values()), "line"), text.plural(len(self.foreign), "log")
        return [Caveat.note(Code.FOREIGN_LINES, f"{lines} of {files} skipped: another program wrote them")]


def read_polls_and_logs(files: PollsAndLogs, *, permissive: bool, evidence: FileEvidence | None = None) -> FileEvidence:
    """Read all files and add their statements and rows to *evidence*; raises DecodeError at the first bad line unless *permissive*."""
    evidence = FileEvidence() if evidence is None else evidence
    for path in files.polls:
        polls = PollFile(path, permissive=permissive)
        for poll in _guarded(polls, evidence, permissive=permissive):
            _add_poll(evidence, path, poll)
        evidence.bad += polls.bad
    for path in sorted(files.logs, key=rotation_order):
        log = ServerLog(path, LogOptions(files.zone, files.log_node, permissive), evidence.log_owners)
        for line in _guarded(log, evidence, permissive=permissive):
            _add_line(evidence, path, line)
        evidence.bad += log.bad
        if log.foreign:
            evidence.foreign[path] = log.foreign
    if files.metrics:
        samples, bad = read_metrics(files.metrics, permissive=permissive)
        evidence.metrics += samples
        evidence.bad += bad
    return evidence


@dataclass(slots=True)
class MetricRows:
    """Rows of bronze/metric_samples, numbered across runs."""

    before: int = 0
    first_ns: int = 0
    last_ns: int = 0
    scrapes: int = 0
    fresh: int = 0

    def kept(self) -> tuple[Any, ...]:
        """Return the state for the next run."""
        return self.before + self.fresh, self.first_ns, self.last_ns, self.scrapes

    def of(self, samples: Sequence[MetricSample]) -> Iterator[dict[str, Any]]:
        """Yield the rows of new *samples*, which are in order of server and time."""
        self.scrapes += len(samples)
        self.first_ns = min(filter(None, (self.first_ns, *(polled.ts_ns for polled in samples))), default=0)
        self.last_ns = max([self.last_ns, *(polled.ts_ns for polled in samples)])
        for sample in without_repeats(samples):
            self.fresh += 1
            row = {name: value for name, value in sample._asdict().items() if name != "ts_ns"}
            line = self.before + self.fresh
            yield {"line": line, **times("ts", sample.ts_ns), **row}


def _guarded(rows: Any, evidence: FileEvidence, *, permissive: bool) -> Iterator[Any]:
    """The rows up to damage of the file itself."""
    try:
        yield from rows
    except DecodeError as error:
        if not permissive:
            raise
        evidence.bad.append(error)


def keep_shortest(timeouts_ms: dict[str, int], node: str, timeout_ms: int) -> None:
    """Note a polled timeout of *node*: the shortest one bounds every silence, also before and after a change."""
    timeouts_ms[node] = min(timeout_ms, timeouts_ms.get(node, timeout_ms))


def _add_poll(evidence: FileEvidence, path: str, poll: Poll) -> None:
    ts_ns = poll.ts_ns - evidence.ahead_ns
    own = next((node for node in poll.topology.nodes if node.id == poll.observer), None)
    for node in poll.topology.nodes:
        if node.ip and node.port:
            evidence.homes[node.id] = Endpoint(node.ip, node.cport or node.port + BUS_PORT_OFFSET)
    address = None
    if own is not None and own.port:
        address = Endpoint(own.ip, own.cport or own.port + BUS_PORT_OFFSET)
    version = poll.sample.version
    if version and poll.observer and evidence.polled_versions.get(poll.observer) != version:
        evidence.polled_versions[poll.observer] = version
        evidence.versions.append((poll.observer, version))
        statement = f"{STARTED} {version}".encode("utf-8", "replace")
        evidence.statements.append(Statement(ts_ns, "log", poll.observer, address, statement))
    if poll.node_timeout_ms:
        keep_shortest(evidence.node_timeouts_ms, poll.observer, poll.node_timeout_ms)
    nodes = without_times(poll.text)
    asked_ns = ts_ns if poll.asked_ns is None else min(poll.asked_ns - evidence.ahead_ns, ts_ns)
    answer = f"{asked_ns}\n{nodes}".encode("utf-8", "surrogatepass")
    evidence.statements.append(Statement(ts_ns, "poll", poll.observer, address, answer))
    evidence.polls.append(
        {
            "source": path,
            "line": poll.line,
            **times("ts", ts_ns),
            "asked_ns": poll.asked_ns,
            "observer": poll.observer or None,
            "address": poll.address or None,
            "text": nodes,
            **{
                name: getattr(poll.sample, name) or None if name == "server_run_id" else getattr(poll.sample, name)
                for name in SAMPLED
            },
        }
    )


def _add_line(evidence: FileEvidence, path: str, line: LogLine) -> None:
    row, owner = line.row, line.owner
    seen_ns = row.ts_ns - evidence.ahead_ns
    subject = row.subject if row.kind in HEALTH_KINDS else row.detail if row.kind == STARTED else ""
    if subject:
        address = Endpoint(owner.ip, owner.port + BUS_PORT_OFFSET) if owner.port else None
        ts_ns = seen_ns + LOG_RESOLUTION_NS
        evidence.statements.append(Statement(ts_ns, "log", line.observer, address, f"{row.kind} {subject}".encode()))
    if row.kind == STARTED and line.observer:
        evidence.versions.append((line.observer, row.detail))
    evidence.logs.append(
        {
            "source": path,
            "line": row.line,
            **times("ts", seen_ns),
            "observer": line.observer or None,
            "address": owner.address,
            "kind": row.kind,
            "subject": row.subject or None,
            "epoch": None if row.epoch is None else Decimal(row.epoch),
            "text": row.text,
            "peer": row.peer or None,
            "detail": row.detail or None,
            "pid": row.pid,
            "role": row.role or None,
        }
    )


def times(name: str, ts_ns: int) -> dict[str, Any]:
    """A time as tables have it: *name* as a timestamp (microseconds), *name*_ns in ns."""
    return {name: instant(ts_ns), f"{name}_ns": ts_ns}


def instant(ts_ns: int) -> datetime:
    """A time in ns as a value of Arrow's timestamps (microseconds)."""
    return _START + timedelta(microseconds=ts_ns // 1000)


GAPS_KEPT: Final = 1_000
"""Gaps of a point that are remembered; the newest ones."""
LINE_BYTES_MAX: Final = 1 << 14


class UnrecordedGaps:
    """The gaps of all points; *known* are those of earlier runs, by series, as a list of their last lines."""

    def __init__(self, known: dict[str, list[Gap]] | None = None) -> None:
        self.known = known or {}
        self._unread: dict[str, int] = {}

    def read(self, files: Sequence[RecordedInput]) -> None:
        """Read the lines beside *files*, the recorded ones of this run; lines that are no gap are counted, except a last line that is still being written."""
        for series, path in {file.series: _gaps_path(file.path) for file in files}.items():
            if not exists(path):
                continue
            gaps = {gap.identity: gap for gap in self.known.get(series, ())}
            try:
                for number, raw in read_lines(path, LINE_BYTES_MAX):
                    gap = _gap_of(raw, number)
                    if gap is not None:
                        gaps[gap.identity] = gap
                    elif raw.rstrip().endswith(b"}"):
                        self._unread[series] = self._unread.get(series, 0) + 1
            except DecodeError:
                self._unread[series] = self._unread.get(series, 0) + 1
            self.known[series] = sorted(gaps.values(), key=lambda gap: gap.from_ns)[-GAPS_KEPT:]

    def rows(self, ahead_ns: dict[str, int]) -> Iterator[dict[str, Any]]:
        """Rows of bronze/unrecorded; times by the clock of the replay; *ahead_ns* is the lead of each series' clock."""
        for series, gaps in sorted(self.known.items()):
            ahead = ahead_ns.get(series, 0)
            for number, gap in enumerate(gaps, 1):
                end_ns = None if gap.to_ns is None else gap.to_ns - ahead
                yield {
                    "point": series.rpartition("/")[2],
                    "gap": number,
                    "kind": str(gap.kind),
                    "reason": str(gap.reason),
                    "subject": gap.subject,
                    "detail": gap.detail,
                    "missed": gap.missed,
                    **times("valid_from", gap.from_ns - ahead),
                    "valid_to": None if end_ns is None else instant(end_ns),
                    "valid_to_ns": end_ns,
                }

    def notes(self, first_ns: int, last_ns: int, ahead_ns: dict[str, int]) -> list[Caveat]:
        """Warn of missing evidence between *first_ns* and *last_ns*, a line for each point and kind; SLOT-STATS are no evidence."""
        caveats = [
            Caveat.warning(Code.GAPS, f"{count} lines of {GAPS_FILE} of {series} cannot be read", series)
            for series, count in sorted(self._unread.items())
        ]
        for series, gaps in sorted(self.known.items()):
            ahead = ahead_ns.get(series, 0)
            by_kind: dict[str, list[tuple[int, int, Gap]]] = {}
            for gap in gaps:
                start_ns, end_ns = gap.from_ns - ahead, last_ns if gap.to_ns is None else gap.to_ns - ahead
                if gap.kind is not Kind.SLOT_STATS and start_ns <= last_ns and end_ns >= first_ns:
                    by_kind.setdefault(gap.kind, []).append((max(start_ns, first_ns), min(end_ns, last_ns), gap))
            for kind, spans in sorted(by_kind.items()):
                subjects = len({gap.subject for *_, gap in spans}) if kind == Kind.POLLS else 1
                unrecorded_ns = covered_ns = 0
                for start_ns, end_ns, _ in spans:
                    unrecorded_ns += max(0, end_ns - max(start_ns, covered_ns))
                    covered_ns = max(covered_ns, end_ns)
                start_ns, end_ns, last = spans[-1]
                of = f" of {subjects} nodes" if subjects > 1 else f" of {last.subject}" if last.subject else ""
                times = "once" if len(spans) == 1 else f"{len(spans)} times"
                sentence = (
                    f"{series} could not record {kind}{of} {times},"
                    f" {unrecorded_ns / 1e9:.1f} s in all, last from"
                    f" {instant(start_ns):%Y-%m-%d %H:%M:%S} to {instant(end_ns):%H:%M:%S} UTC ({last.reason}):"
                    " results for these times may be partial (bronze/unrecorded)"
                )
                caveats.append(Caveat.warning(Code.GAPS, sentence, series))
        return caveats


def _gap_of(raw: bytes, number: int) -> Gap | None:
    try:
        return read_gap(raw, line=number)
    except DecodeError:
        return None


def _gaps_path(path: str) -> str:
    """Return the path of the gaps of a recorded file."""
    head, sign, rest = path.rpartition("://")
    return f"{head}{sign}{PurePosixPath(rest).parent.parent / GAPS_FILE}"
