"""Explain failovers by Sentinel from captures, logs and polls.

Reads captures of the ports of sentinels, masters and replicas, sentinels' logs, and answers to SENTINEL MASTERS, REPLICAS
and SENTINELS, together or alone; writes silver/sentinel_views, silver/sentinel_events, silver/sentinel_votes,
gold/incidents, gold/incident_steps and bronze/bad_records, and the report that tells of a cluster's incidents, too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from slotscope.options import Html, LogOptions, NewCluster, NewSnapshot, Paths, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError

if TYPE_CHECKING:
    from slotscope.pipelines.sentinel_replay import Outcome


@options
class Request(LogOptions):
    """Options of `slotscope lab sentinel-replay`."""

    pcap: Annotated[Paths, Parameter(alias="--captures")] = ()
    """Captures of the ports of sentinels, masters, replicas: pcap or pcapng; files, globs, folders, URIs, gzip, zstd"""
    log: Annotated[Paths, Parameter(alias="--logs")] = ()
    """Logs of sentinels; others are skipped"""
    polls: Paths = ()
    """Answers to SENTINEL MASTERS, REPLICAS and SENTINELS as JSON lines"""
    snapshot: NewSnapshot = None
    cluster: NewCluster = None
    down_after_ms: int | None = None
    """down-after-milliseconds. Default: from events or polls, else estimated"""
    quorum: int | None = None
    """Quorum of the masters. Default: from events or polls, else a majority"""
    html: Html = None


def command(request: Request = Request()) -> int | None:
    """Replay what sentinels said, logged and answered: beliefs, votes, failovers with their causes."""
    from slotscope.pipelines.sentinel_replay import read_options, replay_sentinels
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history
    from slotscope.reports.records import print_records
    from slotscope.reports.run_summary import summaries
    from slotscope.reports.sentinel_text import load_sentinels, sentinel_lines
    from slotscope.runtime.text import printable

    root = request.root
    if request.snapshot == "":
        raise InputError("the snapshot needs a name")
    options = read_options(
        pcap=request.pcap,
        log=request.log,
        polls=request.polls,
        log_zone=request.log_zone,
        log_node=request.log_node,
        down_after_ms=request.down_after_ms,
        quorum=request.quorum,
        permissive=request.permissive,
    )
    spark = request.session("sentinel-replay")
    outcome = replay_sentinels(spark, options, root=root, snapshot=request.snapshot, cluster=request.cluster)
    snapshot = outcome.snapshot
    incidents, views = load_sentinels(root, snapshot)
    path = deliver(load_history(root, snapshot), root=root, html=request.html, stream=None)
    runs = summaries(root, [snapshot]) if request.json else []
    told = {"page": path, "runs": runs, "replay": outcome, "incidents": incidents, "views": views}
    lines = [
        *sentinel_lines(incidents, views, outcome.first_ns, _summary(outcome)),
        *(
            printable(f"warning: {stranger} belongs to no sentinel that is known; name it with --log-node")
            for stranger in outcome.strangers
        ),
        f"report: {path}",
        *([f"{outcome.bad_records} bad records: see bronze/bad_records"] if outcome.bad_records else []),
    ]
    print_records(told, lambda: lines, as_json=request.json, stream=sys.stdout)
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


def _summary(outcome: Outcome) -> str:
    """What was read, and of whom it tells."""
    return (
        f"{outcome.sentinels} sentinels, {outcome.events} events, from {outcome.values} captured values, "
        f"{outcome.lines} log lines and {outcome.answers} answers"
    )


if __name__ == "__main__":
    cli.main(command)
