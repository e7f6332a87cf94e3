"""Explain failovers by Sentinel from logs and polls.

Reads sentinels' logs, and replies to SENTINEL MASTERS and SENTINELS, together or alone; writes
silver/sentinel_views, silver/sentinel_events, silver/sentinel_votes, gold/incidents, gold/incident_steps and
bronze/bad_records, and the report of a cluster's incidents.
"""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from slotscope.options import Html, LogNode, LogZone, ModeOptions, NewCluster, NewSnapshot, Paths, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError


@options
class Request(ModeOptions):
    """Options of `slotscope lab sentinel-replay`."""

    log: Annotated[Paths, Parameter(alias="--logs")] = ()
    """Logs of sentinels; others are skipped"""
    polls: Paths = ()
    """Replies to SENTINEL MASTERS and SENTINELS as JSON lines"""
    snapshot: NewSnapshot = None
    cluster: NewCluster = None
    log_zone: LogZone = "UTC"
    log_node: LogNode = ()
    html: Html = None


def command(request: Request = Request()) -> int | None:
    """Reconstruct views, votes and failovers with their causes from logs and polls of sentinels."""
    from slotscope.pipelines.sentinel_replay import find_files, replay_sentinels
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history

    if request.snapshot == "":
        raise InputError("--snapshot: must not be empty")
    files = find_files(log=request.log, polls=request.polls, log_zone=request.log_zone, log_node=request.log_node)
    outcome = replay_sentinels(
        files, root=request.root, snapshot=request.snapshot, cluster=request.cluster, permissive=request.permissive
    )
    if not request.json:
        sys.stdout.write(f"{outcome.line}\n")
    report = load_history(request.root, outcome.snapshot)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


if __name__ == "__main__":
    cli.main(command)
