"""Logs and polls of sentinels as evidence by sentinel: files in, `cluster_core.sentinel_history` values out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.poll_lines import LINE_BYTES_MAX
from cluster_core.sentinel_history.announcements import read_event
from cluster_core.sentinel_history.evidence import Evidence, PollLine, SentinelReplies, SentinelStarted, read_poll_line
from slotscope.sources.files import is_named, read_lines
from slotscope.sources.server_logs import log_rows, port_in_name

BAD_ROWS_MAX: Final = 10_000
"""Bad records that are listed; the others are counted."""
NO_VERSION: Final[tuple[int, ...]] = ()
_RUNID: Final = re.compile(r"[0-9a-f]{40}")
_ID_LINE: Final = re.compile(r"Sentinel ID is ([0-9a-f]{40})")
_PORT_LINE: Final = re.compile(r"Running mode=sentinel, port=(\d{1,5})")
_VERSION_LINE: Final = re.compile(r"(Valkey|Redis) version=(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class SentinelFiles:
    """Which files are read, and how: *zone* of the logs' times, FILE=NODE pairs of *log_node*."""

    logs: tuple[str, ...] = ()
    polls: tuple[str, ...] = ()
    zone: str = "UTC"
    log_node: tuple[str, ...] = ()


@dataclass(slots=True)
class BadRecords:
    """Add an unreadable line; raises in strict mode."""

    strict: bool
    count: int = 0
    listed: list[dict[str, Any]] = field(default_factory=list)

    def add(self, source: str, offset: int, reason: str, skipped_bytes: int | None) -> None:
        """Note one bad record; raises DecodeError in strict mode."""
        if self.strict:
            raise DecodeError(reason, offset=offset, source=source)
        self.count += 1
        if len(self.listed) < BAD_ROWS_MAX:
            self.listed.append({"source": source, "offset": offset, "reason": reason, "skipped_bytes": skipped_bytes})


@dataclass(slots=True)
class SentinelEvidence:
    """Evidence by sentinel; *lines* and *answers* count the input."""

    logged: dict[str, list[Evidence]] = field(default_factory=dict)
    polled: dict[str, list[Evidence]] = field(default_factory=dict)
    lines: int = 0
    answers: int = 0
    strangers: set[str] = field(default_factory=set)
    """Owners of log lines or answers that belong to no known sentinel."""
    names: dict[str, set[str]] = field(default_factory=dict)
    """Ids of sentinels by id, ip:port and port."""

    def find(self, node: str) -> str:
        """The id of the sentinel that *node* (id, ip:port or port) names; nothing if none or several do."""
        if _RUNID.fullmatch(node):
            return node
        addresses = self.names.get(node) or self.names.get(node.rpartition(":")[2]) or set()
        return next(iter(addresses)) if len(addresses) == 1 else ""

    def all(self) -> dict[str, list[Evidence]]:
        """Logs and polls together."""
        return {
            runid: [*self.logged.get(runid, ()), *self.polled.get(runid, ())]
            for runid in sorted({*self.logged, *self.polled})
        }


@dataclass(slots=True)
class _SentinelLog:
    """Evidence in one log, and its sentinel as far as its lines name it."""

    path: str
    runid: str = ""
    port: str = ""
    items: list[Evidence] = field(default_factory=list)


def read_evidence(files: SentinelFiles, bad: BadRecords) -> SentinelEvidence:
    """Read all files; raises DecodeError as *bad* says."""
    evidence = SentinelEvidence()
    logs = [log for path in files.logs for log in _read_logs(path, files, bad)]
    polls = [(line.node, line.polled) for path in files.polls for line in _read_polls(path, bad)]
    _learn_names(evidence, logs, [polled for _, polled in polls])
    for log in logs:
        _add_log(evidence, log)
    for node, polled in polls:
        runid = evidence.find(node)
        if not runid:
            evidence.strangers.add(node)
            continue
        evidence.polled.setdefault(runid, []).append(polled)
        evidence.answers += 1
    return evidence


def _add_log(evidence: SentinelEvidence, log: _SentinelLog) -> None:
    runid = log.runid or evidence.find(log.port)
    if not log.items:
        return
    if not runid:
        evidence.strangers.add(log.path)
        return
    evidence.logged.setdefault(runid, []).extend(log.items)
    evidence.logged[runid].sort(key=lambda item: item.ts_ns)
    evidence.lines += len(log.items)


def _learn_names(evidence: SentinelEvidence, logs: Sequence[_SentinelLog], polls: Sequence[SentinelReplies]) -> None:
    """Who is at which address or port, from everything that says it."""

    def learn(runid: str, ip: str, port: str) -> None:
        if _RUNID.fullmatch(runid):
            for name in (runid, f"{ip}:{port}", port):
                evidence.names.setdefault(name, set()).add(runid)

    for polled in polls:
        for fields in polled.sentinels or ():
            learn(fields.get("runid", ""), fields.get("ip", ""), fields.get("port", ""))
    for log in logs:
        learn(log.runid, "", log.port)


# -- logs --------------------------------------------------------------------------------------------------------------


def _read_logs(path: str, files: SentinelFiles, bad: BadRecords) -> list[_SentinelLog]:
    """The events of each sentinel in one file, told apart by the sources that a shipper names; lines of other servers are skipped."""
    logs: dict[str, _SentinelLog] = {}
    versions: dict[str, tuple[int, ...]] = {}

    def refuse(error: DecodeError, skipped_bytes: int | None) -> None:
        bad.add(path, error.offset, error.reason, skipped_bytes)

    for row in log_rows(path, files.zone, refuse):
        if row.role != "X":
            continue
        log = logs.setdefault(row.source, _SentinelLog(path))
        event = read_event(row.ts_ns, row.text)
        if event is not None:
            log.items.append(event)
        elif (match := _ID_LINE.match(row.text)) is not None:
            log.runid = match[1]
            log.items.append(SentinelStarted(row.ts_ns, versions.get(row.source, NO_VERSION)))
        elif (match := _PORT_LINE.match(row.text)) is not None:
            log.port = match[1]
        elif (match := _VERSION_LINE.match(row.text)) is not None:
            versions[row.source] = (int(match[2]), int(match[3])) if match[1] == "Valkey" else (0, 0)
    given = next((pair.rpartition("=")[2] for pair in files.log_node if is_named(pair.rpartition("=")[0], path)), "")
    for log in logs.values():
        if _RUNID.fullmatch(given):
            log.runid = given
        elif given:
            log.port = given
        elif not log.port and len(logs) == 1:
            log.port = str(port_in_name(path) or "")
    return list(logs.values())


# -- polls -------------------------------------------------------------------------------------------------------------


def _read_polls(path: str, bad: BadRecords) -> Iterator[PollLine]:
    lines = read_lines(path, LINE_BYTES_MAX)
    while True:
        try:
            number, raw = next(lines)
        except StopIteration:
            return
        except DecodeError as error:
            bad.add(path, error.offset, error.reason, None)
            return
        try:
            line = read_poll_line(raw, line=number, source=path)
        except DecodeError as error:
            bad.add(path, error.offset, error.reason, len(raw))
            continue
        if line is not None:
            yield line
