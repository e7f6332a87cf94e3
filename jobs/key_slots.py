"""Measure keys and memory per slot and node from dumps.

Reads RDB dumps, append-only logs and key lists; writes silver/slot_load, silver/sources, silver/snapshots, gold/node_load, gold/big_keys,
gold/hash_tags, gold/key_prefixes, gold/key_types, gold/key_sizes, gold/ttl_buckets, gold/key_use, bronze/bad_records and, when asked, bronze/keys; for logs also silver/write_load,
gold/command_load, gold/write_keys and gold/uncertain_keys; prints a summary and writes an HTML report.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from slotscope.pipelines.keys.options import KeyOptions as Request
from slotscope.runtime import cli, stores
from slotscope.runtime.text import plural, printable, size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.reports.keyspace.report import KeyspaceReport


def run(spark: SparkSession, request: Request, *, now_ms: int | None = None) -> KeyspaceReport:
    """Read the inputs of *request*, replace its snapshot in all tables, and return the report.

    With *now_ms* the report says how old the dumps are.
    """
    from slotscope.pipelines.keys.snapshot import count_keys
    from slotscope.reports.keyspace.report import load_report

    return load_report(request.root, count_keys(spark, request), now_ms)


def command(request: Request = Request()) -> int | None:
    """Show where the load of a cluster is: keys and bytes per slot, node, key, hash tag and prefix."""
    from slotscope.pipelines.keys.inputs import check_request
    from slotscope.reports.delivery import deliver

    if request.manifest is not None:
        return count_fleet(request)
    check_request(request)
    report = run(request.session("key-slots"), request, now_ms=time.time_ns() // 1_000_000)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return cli.PARTIAL if report.bad_records else None


def count_fleet(request: Request) -> int:
    """Take a snapshot of each cluster of a manifest, with a page each, and report the outcome, one line a cluster."""
    from slotscope.pipelines.keys.snapshot import (
        COLUMNS,
        COLUMNS_SHOWN,
        SnapshotOutcome,
        count_clusters,
        exit_code,
        requests_of,
    )
    from slotscope.reports.answer import deliver_answer
    from slotscope.reports.delivery import deliver
    from slotscope.reports.fleet.report import load_fleet
    from slotscope.runtime.answer import Answer

    asked = requests_of(request, lambda arguments: cli.read_options(Request, arguments))
    clusters: list[SnapshotOutcome] = []
    for counted in count_clusters(request.session("key-slots"), asked):
        clusters.append(counted)
        if counted.failure is not None:
            sys.stderr.write(f"slotscope: {printable(counted.cluster)}: {stores.hide(counted.failure.line)}\n")
    rows, shown = sorted(counted.row for counted in clusters), None if request.json else COLUMNS_SHOWN
    answer = Answer(COLUMNS[:shown], [row[:shown] for row in rows])
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)
    page = deliver(load_fleet(request.root, time.time_ns() // 1_000_000), root=request.root, html=None, stream=None)
    if not request.json:
        read = size(sum(counted.input_bytes or 0 for counted in clusters))
        sys.stdout.write(f"{plural(len(clusters), 'cluster')}, {read} read; side by side: {page}\n")
    return exit_code(clusters)


if __name__ == "__main__":
    cli.main(command)
