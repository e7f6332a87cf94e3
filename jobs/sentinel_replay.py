"""What did every sentinel believe, whom did it vote for, and why was there a failover, or none?

Reads captures of the ports of sentinels, masters and replicas, sentinels' logs, and answers to SENTINEL MASTERS, REPLICAS
and SENTINELS, together or alone; writes silver/sentinel_views, silver/sentinel_events, silver/sentinel_votes,
gold/incidents, gold/incident_steps and bronze/bad_records, and the report that tells of a cluster's incidents, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.pipelines.sentinel_replay import Outcome
    from slotscope.sources.sentinel.task import SentinelOptions

DOWN_AFTER_MS_MAX = 86_400_000
QUORUM_MAX = 1_000


def run(spark: SparkSession, *, root: str, options: SentinelOptions, snapshot: str = "current") -> Outcome:
    """Replay what *options* name into the tables of *snapshot*."""
    from slotscope.pipelines.sentinel_replay import replay_sentinels

    return replay_sentinels(spark, options, root=root, snapshot=snapshot)


def read_options(
    captures: Sequence[str],
    logs: Sequence[str],
    polls: Sequence[str],
    *,
    log_zone: str = "UTC",
    log_node: Sequence[str] = (),
    down_after_ms: int | None = None,
    quorum: int | None = None,
    permissive: bool = False,
) -> SentinelOptions:
    """Find the files and check the numbers; raises InputError and DecodeError for what cannot work."""
    from slotscope.runtime.errors import InputError
    from slotscope.sources.bus.files import find_captures, survey
    from slotscope.sources.files import expand
    from slotscope.sources.sentinel.evidence import SentinelFiles
    from slotscope.sources.sentinel.task import SentinelOptions
    from slotscope.sources.server_logs import find_logs, zone_of

    if not (captures or logs or polls):
        raise InputError("nothing to read: name captures with --captures, logs with --logs, or polls with --polls")
    if down_after_ms is not None and not 1 <= down_after_ms <= DOWN_AFTER_MS_MAX:
        raise InputError(f"--down-after-ms is {down_after_ms}; it must be from 1 to {DOWN_AFTER_MS_MAX}")
    if quorum is not None and not 1 <= quorum <= QUORUM_MAX:
        raise InputError(f"--quorum is {quorum}; it must be from 1 to {QUORUM_MAX}")
    zone_of(log_zone)
    files = SentinelFiles(
        tuple(survey(find_captures(captures))) if captures else (),
        tuple(file.path for file in find_logs(logs, log_node)) if logs or log_node else (),
        tuple(file.path for file in expand(list(polls))) if polls else (),
        log_zone,
        tuple(log_node),
    )
    return SentinelOptions(files, down_after_ms, quorum, permissive)


def command(
    *,
    captures: Paths = (),
    logs: Paths = (),
    polls: Paths = (),
    snapshot: str = "current",
    log_zone: str = "UTC",
    log_node: Paths = (),
    down_after_ms: int | None = None,
    quorum: int | None = None,
    html: str | None = None,
    common: Common,
) -> int | None:
    """Replay what sentinels said, logged and answered: beliefs, votes, failovers with their causes.

    Parameters
    ----------
    captures
        Captures of the ports of sentinels, masters and replicas: pcap or pcapng files; globs, folders or URIs; gzip and zstd are recognised.
    logs
        Logs of sentinels; those of other servers are passed over.
    polls
        Answers to SENTINEL MASTERS, REPLICAS and SENTINELS as JSON lines.
    snapshot
        Name of the snapshot; what the tables hold of its sentinels is replaced.
    log_zone
        Time zone of the sentinels whose logs do not name it: Europe/Berlin, +01:00.
    log_node
        FILE=NODE: whose log FILE (a path or its last part) is; NODE is an id, ip:port or port. Default: seen from its lines or name.
    down_after_ms
        down-after-milliseconds. Default: told by events or polls, else estimated from the first silence that was held for down.
    quorum
        Quorum of the masters. Default: told by events or polls, else a majority.
    html
        Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-history.html, the report of `incidents`.
    """
    from slotscope.reports.delivery import Page, report_path
    from slotscope.reports.history.html import render_history
    from slotscope.reports.history.tables import load_history
    from slotscope.reports.sentinel_text import load_sentinels, sentinel_lines
    from slotscope.reports.text import printable
    from slotscope.runtime.errors import InputError
    from slotscope.sources.files import write_text

    if not snapshot:
        raise InputError("the snapshot needs a name")
    permissive = common.mode == "permissive"
    options = read_options(
        captures, logs, polls, log_zone=log_zone, log_node=log_node, down_after_ms=down_after_ms, quorum=quorum,
        permissive=permissive,
    )  # fmt: skip
    spark = common.session("sentinel-replay")
    outcome = run(spark, root=common.root, options=options, snapshot=snapshot)
    incidents, views = load_sentinels(spark, common.root, snapshot)
    for line in sentinel_lines(incidents, views, outcome.first_ns, _summary(outcome)):
        sys.stdout.write(line + "\n")
    for stranger in outcome.strangers:
        sys.stdout.write(
            printable(f"warning: {stranger} belongs to no sentinel that is known; name it with --log-node\n")
        )
    path = html or report_path(common.root, snapshot, page=Page.HISTORY)
    write_text(path, render_history(load_history(spark, common.root, snapshot)))
    sys.stdout.write(f"report: {path}\n")
    if outcome.bad_records:
        sys.stdout.write(f"{outcome.bad_records} bad records: see bronze/bad_records\n")
    return cli.PARTIAL if outcome.bad_records and permissive else None


def _summary(outcome: Outcome) -> str:
    """What was read, and of whom it tells."""
    return (
        f"{outcome.sentinels} sentinels, {outcome.events} events, from {outcome.values} captured values, "
        f"{outcome.lines} log lines and {outcome.answers} answers"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
