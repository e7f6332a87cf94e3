"""Convert server logs to rows of a replay: events, votes, and views of nodes without other evidence.

An event also shown by packets at a similar time counts once. Logs show only some roles and slots.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cluster_core.gossip.causes import Cause, Refusal, ReportEnd
from cluster_core.history.promotions import old_master
from cluster_core.history.statements import LINE_NS, Lines
from cluster_core.kinds import EventKind, Source
from cluster_core.replay.rows import EventRow, FailureReportRow, NodeViewRow, ReplayRow, VoteRow

HEALTH: Final = {
    EventKind.PFAIL: "fail?",
    EventKind.FAIL_DECIDED: "fail",
    EventKind.FAIL_LEARNED: "fail",
    EventKind.FAIL_CLEARED: "noflags",
}
EVENTS: Final = (
    EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED, EventKind.VOTE, EventKind.VOTE_REFUSED, EventKind.STATE_OK,
    EventKind.STATE_FAIL, EventKind.ELECTION_STARTED, EventKind.ELECTION_SCHEDULED, EventKind.ELECTION_STALLED,
    EventKind.ELECTION_RESET, EventKind.MANUAL_FAILOVER_REQUESTED, EventKind.MANUAL_FAILOVER_FORCED,
    EventKind.MANUAL_FAILOVER_MFSTART, EventKind.MANUAL_FAILOVER_PAUSED, EventKind.MANUAL_FAILOVER_TIMED_OUT,
)  # fmt: skip
"""Log lines that are events of their node."""
REPORTS: Final = (EventKind.REPORT_ADDED, EventKind.REPORT_REMOVED)
SAME_NS: Final = 1_500_000_000
"""Maximum distance of an event in packets and its log line, with equal clocks."""
WITH_EPOCH: Final = (EventKind.VOTE, EventKind.ELECTION_STARTED)
"""Events identified by epoch, independent of clocks."""
STATES: Final = (EventKind.STATE_FAIL, EventKind.STATE_OK)
"""Events that headers show late and logs to the ms."""
WITH_SUBJECT: Final = (EventKind.FAIL_DECIDED, EventKind.FAIL_LEARNED)
"""Events identified by their subject."""
BEFORE_NS: Final = 1_000_000_000
"""Assumed duration of a process's view before the first line of its log."""
ANY_ADDRESS: Final = "*"
"""Address of a master that a line names by its id."""
_REPORTER: Final = re.compile(r"Node ([0-9a-f]{40})\b")


def with_logs(rows: Iterable[ReplayRow], lines: Lines) -> list[ReplayRow]:
    """Return *rows* of packets and polls with events, votes and reports of *lines*."""
    given = list(rows)
    if not lines.all:
        return given
    given = _without_logged_states(given, lines)
    known = _KnownEvents(given)
    fresh = list(known.fresh(_events(lines)))
    named = {_key(row) for row in fresh if isinstance(row, EventRow | VoteRow)}
    kept = [row for row in given if not (_is_nameless(row) and _key(row) in named)]
    return [*kept, *fresh, *_reports(lines, known)]


# -- events -----------------------------------------------------------------------------------------------------------


def _without_logged_states(rows: Iterable[ReplayRow], lines: Lines) -> list[ReplayRow]:
    """Return *rows* without cluster state changes of nodes covered by a log, which dates them better than headers."""
    covered = {node: (mine[0].ts_ns, mine[-1].ts_ns + SAME_NS) for node, mine in lines.of_node.items()}

    def is_logged(row: ReplayRow) -> bool:
        if not isinstance(row, EventRow) or row.kind not in STATES or row.observer not in covered:
            return False
        first_ns, last_ns = covered[row.observer]
        return first_ns <= row.ts_ns <= last_ns

    return [row for row in rows if not is_logged(row)]


class _KnownEvents:
    """Events known from other evidence."""

    def __init__(self, rows: Sequence[ReplayRow]) -> None:
        self._events: dict[tuple[str, str, str, int], list[int]] = {}
        self.reporters = {row.observer for row in rows if isinstance(row, FailureReportRow)}
        self._votes = {_key(row) for row in rows if isinstance(row, VoteRow) and row.granted and not _is_nameless(row)}
        for row in rows:
            if isinstance(row, EventRow) and row.kind not in STATES and not _is_nameless(row):
                self._events.setdefault(_key(row), []).append(row.ts_ns)
        for times in self._events.values():
            times.sort()

    def fresh(self, rows: Iterable[ReplayRow]) -> Iterator[ReplayRow]:
        """Yield the *rows* that are new."""
        for row in rows:
            if isinstance(row, VoteRow):
                if _key(row) not in self._votes:
                    yield row
            elif not isinstance(row, EventRow) or not self._has(row):
                yield row

    def _has(self, row: EventRow) -> bool:
        times = self._events.get(_key(row), [])
        if row.kind in WITH_EPOCH:
            return bool(times)
        at = bisect_left(times, row.ts_ns - SAME_NS)
        return at < len(times) and times[at] <= row.ts_ns + SAME_NS


def _is_nameless(row: ReplayRow) -> bool:
    """Return whether an election or vote has no subject because its message was truncated."""
    if isinstance(row, VoteRow):
        return not row.candidate
    return isinstance(row, EventRow) and row.kind in WITH_EPOCH and not row.subject


def _key(row: ReplayRow) -> tuple[str, str, str, int]:
    """Return the key shared by two rows about one event."""
    if isinstance(row, VoteRow):
        return row.voter, "", "", row.epoch
    assert isinstance(row, EventRow)
    subject = row.subject if row.kind in WITH_SUBJECT else ""
    return row.observer, row.kind, subject, row.epoch if row.kind in WITH_EPOCH else 0


def _events(lines: Lines) -> Iterator[ReplayRow]:
    """Yield the events and votes of all logs."""
    for line in lines.all:
        if line.kind not in EVENTS:
            continue
        subject, detail = line.subject, line.text
        if line.kind == EventKind.ELECTION_STARTED:
            subject, detail = old_master(lines, line.observer, line.ts_ns), ""
        elif line.kind == EventKind.MANUAL_FAILOVER_PAUSED:
            detail = line.detail
        yield EventRow(line.observer, line.ts_ns, line.kind, subject, line.epoch, detail, -1)
        if line.kind == EventKind.VOTE:
            yield VoteRow(line.observer, subject, line.epoch, line.ts_ns, line.ts_ns, True, Refusal.NONE, -1)


def _reports(lines: Lines, known: _KnownEvents) -> Iterator[FailureReportRow]:
    """Yield failure reports from logs, as far as the log level shows them, for nodes without other evidence."""
    open_ns: dict[tuple[str, str, str], int] = {}
    for line in lines.of_kinds(0, 1 << 62, *REPORTS):
        reporter = line.peer or next(iter(_REPORTER.findall(line.text)), "")
        if not reporter or line.observer in known.reporters:
            continue
        key = (line.observer, reporter, line.subject)
        if line.kind == EventKind.REPORT_ADDED:
            open_ns.setdefault(key, line.ts_ns)
        elif key in open_ns:
            yield FailureReportRow(*key, open_ns.pop(key), line.ts_ns, ReportEnd.LOG, -1)
    for key, from_ns in open_ns.items():
        yield FailureReportRow(*key, from_ns, None, ReportEnd.NONE, -1)


# -- views ------------------------------------------------------------------------------------------------------------


def logged_views(rows: Iterable[NodeViewRow], lines: Lines) -> Iterator[NodeViewRow]:
    """Yield each node's views by its log until *rows* of other evidence show them; slots are unknown (empty)."""
    if not lines.all:
        return
    first_ns: dict[str, int] = {}
    own_ns: dict[str, int] = {}
    for row in rows:
        own_ns[row.observer] = min(row.valid_from_ns, own_ns.get(row.observer, row.valid_from_ns))
        if row.evidence is not Source.METRICS:  # metrics show a node's own state only
            first_ns[row.observer] = min(row.valid_from_ns, first_ns.get(row.observer, row.valid_from_ns))
    at = {line.observer: (line.ip, line.port) for line in lines.all if line.port}
    begin_ns = lines.all[0].ts_ns - BEFORE_NS
    for node in lines.of_node:
        ip, port = at.get(node, ("", 0))
        for row in _own_rows(lines, node, ip, port, begin_ns):
            yield from _until(row, own_ns.get(node))
    for observer, subject, flags, from_ns, to_ns in _spells(lines, begin_ns):
        ip, port = at.get(subject, ("", 0))
        row = NodeViewRow(
            observer, subject, ip, port, 0, "", flags, "", 0, "", bool(ip), from_ns, to_ns, Cause.LOG, -1, from_ns, Source.LOG
        )  # fmt: skip
        yield from _until(row, first_ns.get(observer))


def _until(row: NodeViewRow, limit_ns: int | None) -> Iterator[NodeViewRow]:
    """Yield the part of a view before *limit_ns*."""
    if limit_ns is None:
        yield row
    elif row.valid_from_ns < limit_ns:
        end_ns = limit_ns if row.valid_to_ns is None else min(row.valid_to_ns, limit_ns)
        yield row._replace(valid_to_ns=end_ns)


def _spells(lines: Lines, begin_ns: int) -> Iterator[tuple[str, str, str, int, int | None]]:
    """Yield observer, subject, flags, from, to: consecutive views of each node by each other."""
    changes: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for line in lines.all:
        if line.kind in HEALTH and line.subject:
            changes.setdefault((line.observer, line.subject), []).append((line.ts_ns, HEALTH[line.kind]))
        elif line.kind == EventKind.STARTED:
            for (observer, _), subjects in changes.items():
                if observer == line.observer:
                    subjects.append((line.ts_ns, "noflags"))
    for (observer, subject), subjects in changes.items():
        ends: list[int | None] = [ts_ns for ts_ns, _ in subjects[1:]]
        yield observer, subject, "noflags", begin_ns, subjects[0][0]
        following = [*(flags for _, flags in subjects[1:]), ""]
        for (from_ns, flags), to_ns, after in zip(subjects, [*ends, None], following, strict=True):
            is_marked_again = flags == after == "fail?"  # healthy in between
            if flags == "fail?":  # no log shows the end of PFAIL: use a line of the subject
                spoke = lines.of_node.get(subject, [])
                back = next((line.ts_ns for line in spoke if line.ts_ns > from_ns), None)
                if is_marked_again:
                    back = min(back or from_ns + LINE_NS, from_ns + LINE_NS)
                if back is not None and (to_ns is None or back < to_ns):
                    yield observer, subject, flags, from_ns, back
                    from_ns, flags = back, "noflags"
            if to_ns is None or to_ns > from_ns:
                yield observer, subject, flags, from_ns, to_ns


def _own_rows(lines: Lines, node: str, ip: str, port: int, begin_ns: int) -> Iterator[NodeViewRow]:
    """Yield the roles of a node from its log: followed masters, promotions, epochs."""

    def row(flags: str, master: str, epoch: int, from_ns: int, to_ns: int | None) -> NodeViewRow:
        flag_text = f"myself,{flags}" if flags else "myself"
        return NodeViewRow(
            node, node, ip, port, 0, "", flag_text, master, epoch, "", True, from_ns, to_ns, Cause.LOG, -1, from_ns, Source.LOG
        )  # fmt: skip

    steps = list(_role_steps(lines, node))
    from_ns, flags, master, epoch = begin_ns, _first_role(lines, node, steps), "", 0
    if steps and steps[0][1] == "master":
        flags, master = "slave", old_master(lines, node, steps[0][0])
    for ts_ns, new_flags, new_master, new_epoch in steps:
        if (new_flags, new_master) == (flags, master):
            continue
        if ts_ns > from_ns:
            yield row(flags, master, epoch, from_ns, ts_ns)
        from_ns, flags, master, epoch = ts_ns, new_flags, new_master, new_epoch
    yield row(flags, master, epoch, from_ns, None)


def _first_role(lines: Lines, node: str, steps: Sequence[tuple[int, str, str, int]]) -> str:
    """Return a node's role before its first change, from the role in its lines; empty if unknown."""
    until_ns = steps[0][0] if steps else 1 << 62
    for line in lines.of_node[node]:
        if line.ts_ns >= until_ns:
            break
        if line.role in ("M", "S"):
            return "master" if line.role == "M" else "slave"
    return ""


def _role_steps(lines: Lines, node: str) -> Iterator[tuple[int, str, str, int]]:
    """Yield role changes in a node's log: time, role, master (empty at an unknown address), epoch."""
    address = ""
    for line in lines.of_node[node]:
        if line.kind in (EventKind.ELECTION_WON, EventKind.TAKEOVER):
            named = lines.between(node, line.ts_ns, line.ts_ns + SAME_NS, EventKind.CONFIG_EPOCH)
            yield line.ts_ns, "master", "", named[0].epoch if named else 0
        elif line.kind == EventKind.BECAME_REPLICA and line.subject:
            address = ANY_ADDRESS
            yield line.ts_ns, "slave", line.subject, 0
        elif line.kind == EventKind.MASTER_CONNECTING and line.role == "S":
            master = lines.node_at(line.detail, line.ts_ns)
            if master != node and (master or address not in (ANY_ADDRESS, line.detail)):
                yield line.ts_ns, "slave", master, 0
            address = line.detail
