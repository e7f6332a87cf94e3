"""What did every node believe, when, and why?

Reads captures of the cluster bus, CLUSTER NODES polls and server logs, together or alone; writes bronze/bus_messages,
bronze/slot_bitmaps, bronze/bad_records, when given bronze/node_polls and bronze/log_events, when asked
bronze/gossip_entries, and silver/node_views, disagreements, failure_reports, votes, epochs, events, slot_owners, links,
memberships, ignored_inputs, replay_state and replays.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotscope.requests.bus_replay import Request
from slotscope.runtime import cli
from slotscope.runtime.cli import Common, Flag, Paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.pipelines.bus_history import Outcome


def run(spark: SparkSession, request: Request) -> Outcome:
    """Replay what *request* names into the tables of its snapshot."""
    from slotscope.pipelines.bus_history import HistoryReplay

    return HistoryReplay(spark, request).run()


def check_request(request: Request) -> None:
    """Refuse what cannot work before Spark starts; raises InputError and DecodeError."""
    from cluster_core.gossip.profile import PROFILES
    from slotscope.pipelines.bus_history import find_inputs
    from slotscope.runtime.errors import InputError
    from slotscope.sources.server_logs import zone_of

    if not (request.pcap or request.nodes or request.log):
        raise InputError("nothing to read: name captures with --pcap, polls with --nodes, or logs with --log")
    if not request.snapshot:
        raise InputError("the snapshot needs a name")
    if request.profile is not None and request.profile not in PROFILES:
        raise InputError(f"no profile {request.profile!r}; there are {', '.join(PROFILES)}")
    if request.node_timeout_ms is not None and not 10 <= request.node_timeout_ms <= 86_400_000:
        raise InputError(f"--node-timeout-ms is {request.node_timeout_ms}; it must be from 10 to 86400000")
    zone_of(request.log_zone)
    find_inputs(request)


def command(
    *,
    pcap: Paths = (),
    nodes: Paths = (),
    log: Paths = (),
    snapshot: str = "current",
    log_zone: str = "UTC",
    log_node: Paths = (),
    node_timeout_ms: int | None = None,
    profile: str | None = None,
    gossip: Flag = False,
    restart: Flag = False,
    common: Common,
) -> int | None:
    """Replay captured cluster-bus traffic: what every node believed over time, and why.

    New files of a series are folded in without reading the old ones again: name them all, or by the same glob.

    Parameters
    ----------
    pcap
        Captures of the bus ports: pcap or pcapng files, or JSON lines of bus-dump; globs, folders or URIs; gzip and zstd are recognised.
        Rotated files are one stream, captures of one time made in several places are merged.
    nodes
        CLUSTER NODES polls, as collect writes them.
    log
        Server logs.
    snapshot
        Name of the snapshot; what the tables hold of it is continued, or replaced when other files or options are given.
    log_zone
        Time zone of the servers whose logs do not name it: Europe/Berlin, +01:00.
    log_node
        FILE=NODE: whose log FILE (a path or its last part) is; NODE is an id, ip:port or port. Default: seen from its lines or name.
    node_timeout_ms
        cluster-node-timeout of the servers. Default: read off the traffic.
    profile
        Rules of the servers: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: by what each node
        sends and its log says.
    gossip
        Also write every gossip entry to bronze/gossip_entries.
    restart
        Read all files from the start, whatever was folded in before.
    """
    request = Request(
        root=common.root, snapshot=snapshot, pcap=pcap, nodes=nodes, log=log, log_zone=log_zone, log_node=log_node,
        node_timeout_ms=node_timeout_ms, profile=profile, gossip=gossip, restart=restart,
        permissive=common.mode == "permissive",
    )  # fmt: skip
    check_request(request)
    outcome = run(common.session("bus-replay"), request)
    from slotscope.reports.text import printable

    for line in summary_lines(outcome):
        sys.stdout.write(printable(line) + "\n")
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


def summary_lines(outcome: Outcome) -> list[str]:
    """What is said at the end."""
    files = f"{outcome.new_files} new files" + (f", {outcome.known_files} known" if outcome.known_files else "")
    lines = [
        f"{outcome.messages} messages, {outcome.observers} processes, node timeout {outcome.node_timeout_ms} ms ({files})"
    ]
    if outcome.bad_records:
        lines.append(f"{outcome.bad_records} bad records: see bronze/bad_records")
    return [*lines, *(f"{severity}: {text}" for severity, _, text in (w.split("|", 2) for w in outcome.warnings))]


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
