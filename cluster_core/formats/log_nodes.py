"""Split a log file by node: one file may hold several nodes, and several processes of each.

Lines are separated by shipper source and process number; a process logs its node id at start and after CLUSTER RESET
HARD. Two nodes with the same source and process number are separable only if their lines do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.formats.server_log import STEP_BACK_NS, LogRow
from cluster_core.kinds import EventKind

_ENDS: Final = (EventKind.STOPPED, EventKind.CRASHED)
_RESET: Final = "Node hard reset"
_CHILD: Final = "C"


@dataclass(slots=True)
class NodeLog:
    """One node's lines in a file; *ids* in time order, empty if not logged."""

    source: str
    ids: list[str] = field(default_factory=list)
    rows: list[LogRow] = field(default_factory=list)


class Conflict(NamedTuple):
    """Lines without an attributable node, starting with *row*."""

    row: LogRow
    reason: str


@dataclass(slots=True)
class _Process:
    """Lines of one process; *begins_file*: its first line is much older than the previous line and no server start.

    *follows_end*: the previous process with this number had ended, or is in another file.
    """

    source: str
    pid: int
    follows_end: bool
    begins_file: bool
    ids: list[str] = field(default_factory=list)
    rows: list[LogRow] = field(default_factory=list)


def split_nodes(rows: Sequence[LogRow]) -> tuple[list[NodeLog], list[Conflict]]:
    """Split the rows of one file, in file order, by node.

    Rows of a shipper source are sorted by time: exports are often newest first.
    """
    sources: dict[str, list[LogRow]] = {}
    for row in rows:
        sources.setdefault(row.source, []).append(row)
    logs: list[NodeLog] = []
    conflicts: list[Conflict] = []
    for source, lines in sources.items():
        if source:
            if lines[0].ts_ns > lines[-1].ts_ns:
                lines.reverse()
            lines.sort(key=lambda row: row.ts_ns)
        _divide(source, lines, logs, conflicts)
    return logs, conflicts


def _processes(source: str, rows: Iterable[LogRow]) -> Iterator[_Process]:
    """Yield the processes of one source, in order of their first lines."""
    current: dict[int, _Process] = {}
    last: _Process | None = None
    for row in rows:
        process = current.get(row.pid)
        if process is None and row.role == _CHILD and last is not None:
            process = last
        elif process is None or _begins(process, row):
            before = process.rows[-1] if process is not None else None
            is_older = before is not None and row.ts_ns < before.ts_ns
            has_ended = before is None or is_older or before.kind in _ENDS
            begins_file = is_older and row.kind not in (EventKind.STARTED, EventKind.IDENTITY)
            process = current[row.pid] = _Process(source, row.pid, has_ended, begins_file)
            yield process
        if row.kind is EventKind.IDENTITY and row.subject not in process.ids:
            process.ids.append(row.subject)
        process.rows.append(row)
        last = process


def _begins(process: _Process, row: LogRow) -> bool:
    """Return whether *row* starts a new process with the same number."""
    if row.kind is EventKind.STARTED:
        return True
    if row.kind is EventKind.IDENTITY and not row.text.startswith(_RESET):
        return bool(process.ids) and process.ids[-1] != row.subject
    return not process.source and row.ts_ns < process.rows[-1].ts_ns - STEP_BACK_NS


def _divide(source: str, rows: list[LogRow], logs: list[NodeLog], conflicts: list[Conflict]) -> None:
    """Group the processes of one source by node, or report a conflict."""
    processes = list(_processes(source, rows))
    named: list[NodeLog] = []
    by_id: dict[str, NodeLog] = {}
    latest: dict[int, NodeLog] = {}
    for process in processes:
        if not process.ids:
            continue
        log = next((by_id[node_id] for node_id in process.ids if node_id in by_id), None)
        if log is None:
            log = NodeLog(source)
            named.append(log)
        before = latest.get(process.pid)
        if before is not None and before is not log and not process.follows_end:
            nodes = f"{before.ids[-1][:8]} and {process.ids[0][:8]}" + (f" of {source}" if source else "")
            reason = (
                f"nodes {nodes} write as one process, {process.pid}: export the log with pod, container or host names"
            )
            conflicts.append(Conflict(process.rows[0], reason))
            return
        latest[process.pid] = log
        log.ids += [node_id for node_id in process.ids if node_id not in log.ids]
        by_id |= dict.fromkeys(process.ids, log)
        log.rows += process.rows
    nameless = [process for process in processes if not process.ids]
    strange = nameless if len(named) > 1 else [process for process in nameless if process.begins_file]
    for process in strange:
        reason = f"no line says which node process {process.pid} is: split the file, or name the node with --log-node"
        conflicts.append(Conflict(process.rows[0], reason))
    if len(named) <= 1 and len(strange) < len(processes):
        left_out = {row.line for process in strange for row in process.rows}
        ids = named[0].ids if named else []
        named = [NodeLog(source, ids, [row for row in rows if row.line not in left_out])]
    logs += named
