"""What server logs alone tell, as rows of a replay: of processes whose messages are in no capture, or only their first bytes.

A log names who was held for failing and when no longer, elections, votes and wins, but neither roles nor slots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster_core.gossip.causes import Cause, Mechanism, Refusal, ReportEnd
from cluster_core.incidents.finders.failovers import ATTEMPTS
from cluster_core.kinds import EventKind
from cluster_core.replay.rows import EpochRow, EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow

HEALTH: Final = {
    "pfail": "fail?",
    EventKind.FAIL_DECIDED: "fail",
    EventKind.FAIL_LEARNED: "fail",
    EventKind.FAIL_CLEARED: "noflags",
}
STATES: Final = (EventKind.STATE_OK, EventKind.STATE_FAIL)
EVENTS: Final = (
    EventKind.FAIL_DECIDED,
    EventKind.FAIL_LEARNED,
    EventKind.VOTE,
    *STATES,
    EventKind.VOTE_REFUSED,
    *ATTEMPTS,
)
REPORTS: Final = (EventKind.REPORT_ADDED, EventKind.REPORT_REMOVED)
KINDS: Final = (
    *HEALTH,
    *EVENTS,
    *REPORTS,
    EventKind.ELECTION_STARTED,
    EventKind.ELECTION_WON,
    EventKind.BECAME_REPLICA,
    EventKind.STARTED,
)
"""Kinds of log lines that matter here."""
_REPORTER: Final = re.compile(r"Node ([0-9a-f]{40})\b")
BEFORE_NS: Final = 1_000_000_000
"""What a process held before its log's first line is taken to have held for this long."""


class LoggedLine(NamedTuple):
    """A line of the log of *observer*, which listens at *ip* and *port* (0 if not known)."""

    observer: str
    ip: str
    port: int
    ts_ns: int
    kind: EventKind
    subject: str
    epoch: int
    text: str


def with_logs(rows: Iterable[ReplayRow], lines: Iterable[LoggedLine]) -> list[ReplayRow]:
    """The *rows*, and what logs tell of processes without any belief among them; of the others when they held the
    cluster for down, which headers miss if it is short (R107).
    """
    given = list(rows)
    known = {row.observer for row in given if isinstance(row, NodeViewRow)}
    in_order = sorted(lines, key=lambda line: line.ts_ns)
    told = [line for line in in_order if line.observer not in known]
    given += [
        EventRow(line.observer, line.ts_ns, line.kind, "", 0, "", -1)
        for line in in_order
        if line.observer in known and line.kind in STATES
    ]
    if not told:
        return given
    named = {line.observer for line in told}
    kept = [row for row in given if not _is_told_again(row, named)]
    return kept + list(_Logs(told).rows())


def _is_told_again(row: ReplayRow, named: set[str]) -> bool:
    if isinstance(row, EventRow):
        return row.observer in named
    return (isinstance(row, VoteRow) and row.voter in named) or (isinstance(row, EpochRow) and row.node_id in named)


class _Logs:
    """The lines of all logs in order of time."""

    def __init__(self, lines: list[LoggedLine]) -> None:
        self._lines = lines
        self._first_ns = lines[0].ts_ns - BEFORE_NS

    def rows(self) -> Iterator[ReplayRow]:
        """Beliefs, events, votes, epochs."""
        yield from self._doubts()
        yield from self._reports()
        epochs: dict[str, int] = {}
        for line in self._lines:
            if line.kind == EventKind.ELECTION_STARTED:
                epochs[line.observer] = line.epoch
                old = self._old_master(line)
                yield EventRow(line.observer, line.ts_ns, line.kind, old, line.epoch, "", -1)
            elif line.kind in EVENTS:
                yield EventRow(line.observer, line.ts_ns, line.kind, line.subject, line.epoch, line.text, -1)
            elif line.kind == EventKind.ELECTION_WON and line.observer in epochs:
                epoch = epochs.pop(line.observer)
                yield EventRow(line.observer, line.ts_ns, line.kind, line.observer, epoch, "", -1)
                yield EpochRow(line.observer, epoch, line.ts_ns, Mechanism.ELECTION, -1)
            if line.kind == EventKind.VOTE:
                yield VoteRow(line.observer, line.subject, line.epoch, line.ts_ns, line.ts_ns, True, Refusal.NONE, -1)

    def _reports(self) -> Iterator[FailureReportRow]:
        """Failure reports, as far as the logs' level tells them."""
        open_ns: dict[tuple[str, str, str], int] = {}
        for line in self._lines:
            reporter = _REPORTER.search(line.text) if line.kind in REPORTS else None
            if reporter is None:
                continue
            key = (line.observer, reporter[1], line.subject)
            if line.kind == EventKind.REPORT_ADDED:
                open_ns.setdefault(key, line.ts_ns)
            elif key in open_ns:
                yield FailureReportRow(*key, open_ns.pop(key), line.ts_ns, ReportEnd.LOG, -1)
        for key, from_ns in open_ns.items():
            yield FailureReportRow(*key, from_ns, None, ReportEnd.NONE, -1)

    def _old_master(self, election: LoggedLine) -> str:
        """Whose place an election is for: the failing node that follows the candidate afterwards, or the only one."""
        failing = {
            subject
            for observer, subject, flags, from_ns, to_ns in self._spells()
            if flags == "fail" and from_ns <= election.ts_ns and (to_ns is None or election.ts_ns < to_ns)
        }
        followers = [
            line.observer
            for line in self._lines
            if line.kind == EventKind.BECAME_REPLICA
            and line.subject == election.observer
            and line.ts_ns > election.ts_ns
        ]
        old = next((node for node in followers if node in failing), "")
        return old or (next(iter(failing)) if len(failing) == 1 else "")

    def _spells(self) -> list[tuple[str, str, str, int, int | None]]:
        """Observer, subject, flags, from, to: what each held of each, one after the other."""
        changes: dict[tuple[str, str], list[tuple[int, str]]] = {}
        spoke: dict[str, list[int]] = {}
        for line in self._lines:
            spoke.setdefault(line.observer, []).append(line.ts_ns)
            if line.kind in HEALTH and line.subject:
                changes.setdefault((line.observer, line.subject), []).append((line.ts_ns, HEALTH[line.kind]))
            elif line.kind == EventKind.STARTED:
                for (observer, _), told in changes.items():
                    if observer == line.observer:
                        told.append((line.ts_ns, "noflags"))
        spells: list[tuple[str, str, str, int, int | None]] = []
        for (observer, subject), told in changes.items():
            ends: list[int | None] = [ts_ns for ts_ns, _ in told[1:]]
            spells.append((observer, subject, "noflags", self._first_ns, told[0][0]))
            for (from_ns, flags), to_ns in zip(told, [*ends, None], strict=True):
                if flags == "fail?" and to_ns is None:  # no log says when a doubt ends: with a word of the subject
                    back = next((ts_ns for ts_ns in spoke.get(subject, []) if ts_ns > from_ns), None)
                    if back is not None:
                        spells.append((observer, subject, flags, from_ns, back))
                        from_ns, flags = back, "noflags"
                if to_ns is None or to_ns > from_ns:
                    spells.append((observer, subject, flags, from_ns, to_ns))
        return spells

    def _doubts(self) -> Iterator[NodeViewRow]:
        at = {line.observer: (line.ip, line.port) for line in self._lines if line.port}
        for node, (ip, port) in at.items():
            yield from self._own_rows(node, ip, port)
        for observer, subject, flags, from_ns, to_ns in self._spells():
            ip, port = at.get(subject, ("", 0))
            yield NodeViewRow(
                observer, subject, ip, port, 0, "", flags, "", 0, "", bool(ip), from_ns, to_ns, Cause.LOG, -1
            )

    def _own_rows(self, node: str, ip: str, port: int) -> Iterator[NodeViewRow]:
        """A replica of the master that it replaces, until it wins."""
        from_ns, flags, master = self._first_ns, "myself", ""
        elections = [line for line in self._lines if line.observer == node and line.kind == EventKind.ELECTION_STARTED]
        for line in self._lines:
            if line.observer != node or line.kind != EventKind.ELECTION_WON:
                continue
            mine = [election for election in elections if from_ns <= election.ts_ns <= line.ts_ns]
            master = self._old_master(mine[-1]) if mine else ""
            yield NodeViewRow(
                node, node, ip, port, 0, "", "myself,slave", master, 0, "", True, from_ns, line.ts_ns, Cause.LOG, -1
            )
            from_ns, flags = line.ts_ns, "myself,master"
        yield NodeViewRow(node, node, ip, port, 0, "", flags, "", 0, "", True, from_ns, None, Cause.LOG, -1)
