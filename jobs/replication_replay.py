"""Explain resyncs of replicas from captures of client ports.

Writes silver/replication_links, silver/replication_offsets, gold/resyncs and
bronze/bad_records; tells every resync in one sentence, and draws them on a page.
"""

from __future__ import annotations

import sys

from slotscope.options import Html, Paths, SnapshotOptions, options
from slotscope.runtime import cli


@options
class Request(SnapshotOptions):
    """Options of `slotscope lab replication-replay`."""

    pcap: Paths = ()
    """Captures of client ports: pcap or pcapng; files, globs, folders, URIs, gzip, zstd. Rotated files are joined; simultaneous captures are merged"""
    backlog_size: Paths = ()
    """repl-backlog-size as SIZE, or ADDRESS:PORT=SIZE. Default: from INFO or CONFIG SET, else that of the version"""
    html: Html = None


def command(request: Request = Request()) -> int | None:
    """Replay captured replication traffic: links, offsets, and why each replica went on or was sent everything."""
    from slotscope.pipelines.replication import find_inputs, replay_replication
    from slotscope.reports.delivery import deliver
    from slotscope.reports.replication.report import load_replication

    inputs = find_inputs(request.pcap, request.backlog_size, request.snapshot)
    spark = request.session("replication-replay")
    outcome = replay_replication(
        spark,
        inputs,
        root=request.root,
        snapshot=request.snapshot,
        cluster=request.cluster,
        permissive=request.permissive,
    )
    report = load_replication(request.root, outcome.snapshot)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    if outcome.bad_records and not request.json:
        sys.stdout.write(f"{outcome.bad_records} bad records: see bronze/bad_records\n")
    return cli.PARTIAL if outcome.bad_records and request.permissive else None


if __name__ == "__main__":
    cli.main(command)
