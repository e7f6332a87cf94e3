"""Explain failovers by Sentinel from logs and polls.

Reads sentinels' logs, and answers to SENTINEL MASTERS, REPLICAS and SENTINELS, together or alone; writes
silver/sentinel_views, silver/sentinel_events, silver/sentinel_votes, gold/incidents, gold/incident_steps and
bronze/bad_records, and the report of a cluster's incidents.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from slotscope.options import SHARED, Html, NewCluster, NewSnapshot, Paths, TableOptions, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import plural, printable

if TYPE_CHECKING:
    from slotscope.pipelines.sentinel_replay import Outcome


SHOWN_MAX = 200
"""Incidents and views that are shown; the tables hold all."""


@options
class Request(TableOptions):
    """Options of `slotscope lab sentinel-replay`."""

    log: Annotated[Paths, Parameter(alias="--logs")] = ()
    """Logs of sentinels; others are skipped"""
    polls: Paths = ()
    """Answers to SENTINEL MASTERS, REPLICAS and SENTINELS as JSON lines"""
    snapshot: NewSnapshot = None
    cluster: NewCluster = None
    log_zone: str = "UTC"
    """Time zone of logs without one, as Europe/Berlin or +01:00"""
    log_node: Paths = ()
    """Owner of a log as FILE=NODE: path or file name, and id, id prefix, ip:port or port. Default: detected"""
    mode: Annotated[Literal["strict", "permissive"], SHARED] = "strict"
    """Bad input: strict stops at the first record; permissive records it in bronze/bad_records and continues (exit code 3)"""
    html: Html = None


def command(request: Request = Request()) -> int | None:
    """Reconstruct views, votes and failovers with their causes from logs and polls of sentinels."""
    from slotscope.pipelines.sentinel_replay import find_files, replay_sentinels
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history
    from slotscope.reports.records import print_records, summaries

    root, permissive = request.root, request.mode == "permissive"
    if request.snapshot == "":
        raise InputError("the snapshot needs a name")
    files = find_files(log=request.log, polls=request.polls, log_zone=request.log_zone, log_node=request.log_node)
    outcome = replay_sentinels(
        files, root=root, snapshot=request.snapshot, cluster=request.cluster, permissive=permissive
    )
    snapshot = outcome.snapshot
    incidents, views = load_sentinels(root, snapshot)
    path = deliver(load_history(root, snapshot), root=root, html=request.html, stream=None)
    runs = summaries(root, [snapshot]) if request.json else []
    result = {"page": path, "runs": runs, "replay": outcome, "incidents": incidents, "views": views}
    lines = [
        *sentinel_lines(incidents, views, outcome.first_ns, _summary(outcome)),
        *(
            printable(f"warning: {stranger} belongs to no sentinel that is known; name it with --log-node")
            for stranger in outcome.strangers
        ),
        f"report: {path}",
        *([f"{outcome.bad_records} bad records: see bronze/bad_records"] if outcome.bad_records else []),
    ]
    print_records(result, lambda: lines, as_json=request.json, stream=sys.stdout)
    return cli.PARTIAL if outcome.bad_records and permissive else None


def load_sentinels(root: str, snapshot: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows of gold/incidents, in order, and the last view of every sentinel."""
    from schemas.incidents import INCIDENTS
    from schemas.sentinel import SENTINEL_VIEWS
    from slotscope.runtime.storage.delta_files import read_rows

    order = "master, observer, kind, name"
    return (
        read_rows(root, INCIDENTS, order_by="incident", limit=SHOWN_MAX, snapshot_id=snapshot),
        read_rows(
            root, SENTINEL_VIEWS, where="valid_to_ns IS NULL", order_by=order, limit=10 * SHOWN_MAX, snapshot_id=snapshot
        ),
    )  # fmt: skip


def sentinel_lines(
    incidents: Sequence[dict[str, Any]], views: Sequence[dict[str, Any]], first_ns: int, summary: str
) -> list[str]:
    """Return *summary*, a line per incident with its time, and the masters that the sentinels know at the end."""
    lines = [summary]
    for row in incidents:
        since = (row["started_ns"] - first_ns) / 1e9
        lines.append(f"{since:>10.3f} s  {row['incident']:>3}  {row['summary']}")
    if not incidents:
        lines.append("nothing happened to the masters")
    lines += ["", "at the end:", *(_last_lines(views) or ["  no sentinel runs"])]
    return [printable(line, 400) for line in lines[: 3 * SHOWN_MAX]]


def _last_lines(views: Sequence[dict[str, Any]]) -> Iterable[str]:
    masters = [row for row in views if row["kind"] == "master"]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in masters:
        key = (row["master"], f"{row['ip']}:{row['port']}", f"{row['flags']}, epoch {row['config_epoch']}")
        groups.setdefault(key, []).append(row["observer"])
    return [
        f"  {name} is {address} ({state}) for {plural(len(observers), 'sentinel')}: "
        + ", ".join(observer[:8] for observer in observers)
        for (name, address, state), observers in groups.items()
    ]


def _summary(outcome: Outcome) -> str:
    return (
        f"{outcome.sentinels} sentinels, {outcome.events} events, "
        f"from {outcome.lines} log lines and {outcome.answers} answers"
    )


if __name__ == "__main__":
    cli.main(command)
