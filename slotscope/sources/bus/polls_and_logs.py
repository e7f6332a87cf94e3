"""Polls and logs as a replay takes them: rows of bronze tables, and statements for the process that each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import Poll, without_times
from cluster_core.formats.prometheus_answer import MetricSample, without_repeats
from cluster_core.replay.dispatch import Statement
from cluster_core.replay.evidence import Endpoint
from schemas.caveats import Caveat, Code
from slotscope.runtime import text
from slotscope.sources.node_polls import PollFile
from slotscope.sources.prometheus import read_metrics
from slotscope.sources.server_logs import LogLine, LogOptions, ServerLog

BUS_PORT_OFFSET: Final = 10_000
"""The bus port of a node whose configuration does not say another (R1)."""
LOG_RESOLUTION_NS: Final = 1_000_000
"""Logs have whole milliseconds, cut off: by the next one what they tell has happened, and its message was seen."""
HEALTH_KINDS: Final = ("pfail", "fail-decided", "fail-learned", "fail-cleared")
"""Log events of health that a replay follows."""
STARTED: Final = "started"
"""The log event of a process that starts: it tells the server's version."""
SAMPLED: Final = ("cluster_ok", "server_run_id", "uptime_s", "messages_sent", "keys", "master_offset")
"""What bronze/node_polls keeps of CLUSTER INFO and INFO."""
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
class Told:
    """What the files say."""

    statements: list[Statement] = field(default_factory=list)
    homes: dict[str, Endpoint] = field(default_factory=dict)
    polls: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    polled_versions: dict[str, str] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    bad: list[DecodeError] = field(default_factory=list)
    foreign: dict[str, int] = field(default_factory=dict)
    """Lines of logs that no server wrote, by file."""
    ahead_ns: int = 0
    """How far the clock is ahead by which the file under way tells time."""

    def notes(self) -> list[Caveat]:
        """What a reader should know of the files."""
        if not self.foreign:
            return []
        lines, files = text.plural(sum(self.foreign.values()), "line"), text.plural(len(self.foreign), "log")
        return [Caveat.note(Code.FOREIGN_LINES, f"{lines} of {files} skipped: another program wrote them")]


def read_polls_and_logs(what: PollsAndLogs, *, permissive: bool, told: Told | None = None) -> Told:
    """Read all files, and add what they say to *told*; raises DecodeError at the first bad line unless *permissive*."""
    told = Told() if told is None else told
    for path in what.polls:
        polls = PollFile(path, permissive=permissive)
        for poll in _guarded(polls, told, permissive=permissive):
            _add_poll(told, path, poll)
        told.bad += polls.bad
    for path in what.logs:
        log = ServerLog(path, LogOptions(what.zone, what.log_node, permissive))
        for line in _guarded(log, told, permissive=permissive):
            _add_line(told, path, line)
        told.bad += log.bad
        if log.foreign:
            told.foreign[path] = log.foreign
    if what.metrics:
        samples, bad = read_metrics(what.metrics, permissive=permissive)
        told.metrics += metric_rows(samples)
        told.bad += bad
    return told


def metric_rows(samples: Sequence[MetricSample]) -> Iterator[dict[str, Any]]:
    """Rows of bronze/metric_samples: samples of each server, with the time of the last one before that reached the server."""
    reached_ns: dict[str, int] = {}
    before_ns: dict[MetricSample, int | None] = {}
    for sample in samples:
        before_ns[sample] = reached_ns.get(sample.address)
        if sample.role:
            reached_ns[sample.address] = sample.ts_min_ns
    for line, sample in enumerate(without_repeats(samples), 1):
        row = {name: value for name, value in sample._asdict().items() if name != "ts_ns"}
        yield {"line": line, **times("ts", sample.ts_ns), "from_ns": before_ns[sample], **row}


def _guarded(rows: Any, told: Told, *, permissive: bool) -> Iterator[Any]:
    """The rows up to damage of the file itself."""
    try:
        yield from rows
    except DecodeError as error:
        if not permissive:
            raise
        told.bad.append(error)


def _add_poll(told: Told, path: str, poll: Poll) -> None:
    ts_ns = poll.ts_ns - told.ahead_ns
    own = next((node for node in poll.topology.nodes if node.id == poll.observer), None)
    for node in poll.topology.nodes:
        if node.ip and node.port:
            told.homes[node.id] = Endpoint(node.ip, node.cport or node.port + BUS_PORT_OFFSET)
    address = None
    if own is not None and own.port:
        address = Endpoint(own.ip, own.cport or own.port + BUS_PORT_OFFSET)
    version = poll.sample.version
    if version and poll.observer and told.polled_versions.get(poll.observer) != version:
        told.polled_versions[poll.observer] = version
        told.versions.append((poll.observer, version))
        said = f"{STARTED} {version}".encode("utf-8", "replace")
        told.statements.append(Statement(ts_ns, "log", poll.observer, address, said))
    nodes = without_times(poll.text)
    asked_ns = ts_ns if poll.asked_ns is None else min(poll.asked_ns - told.ahead_ns, ts_ns)
    answer = f"{asked_ns}\n{nodes}".encode("utf-8", "surrogatepass")
    told.statements.append(Statement(ts_ns, "poll", poll.observer, address, answer))
    told.polls.append(
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


def _add_line(told: Told, path: str, line: LogLine) -> None:
    row, owner = line.row, line.owner
    seen_ns = row.ts_ns - told.ahead_ns
    subject = row.subject if row.kind in HEALTH_KINDS else row.detail if row.kind == STARTED else ""
    if subject:
        address = Endpoint(owner.ip, owner.port + BUS_PORT_OFFSET) if owner.port else None
        ts_ns = seen_ns + LOG_RESOLUTION_NS
        told.statements.append(Statement(ts_ns, "log", line.observer, address, f"{row.kind} {subject}".encode()))
    if row.kind == STARTED and line.observer:
        told.versions.append((line.observer, row.detail))
    told.logs.append(
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
    """A time as tables have it: *name* as a timestamp (microseconds), *name*_ns as it is."""
    return {name: instant(ts_ns), f"{name}_ns": ts_ns}


def instant(ts_ns: int) -> datetime:
    """A time in ns as a value of Arrow's timestamps (microseconds)."""
    return _START + timedelta(microseconds=ts_ns // 1000)
