"""Rank changes that save memory.

Reads the dumps of a snapshot again, or with --rdb takes the snapshot in the same pass; writes gold/savings, gold/saving_curves and
gold/memory_conditions; prints the changes ranked, and puts them on the snapshot's page.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from slotscope.pipelines.keys.options import AdviceOptions as Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.reports.keyspace.report import KeyspaceReport


def run(spark: SparkSession, request: Request, *, now_ms: int | None = None) -> KeyspaceReport:
    """Measure the snapshot of *request*, taking it first if dumps are given, and return the report of its tables."""
    from slotscope.pipelines.keys.advice import advise
    from slotscope.reports.keyspace.report import load_report

    return load_report(request.root, advise(spark, request), now_ms)


def command(request: Request = Request()) -> int | None:
    """Rank changes that save memory: server versions, allocators, limits of packed values.

    Reads the dumps of --snapshot again; with --rdb it takes that snapshot in the same pass, also from live servers.
    """
    from rich.console import Console

    from slotscope.pipelines.keys.inputs import check_request
    from slotscope.reports.delivery import deliver
    from slotscope.reports.keyspace.parts import savings_document
    from slotscope.reports.records import write_json
    from slotscope.reports.terminal import print_document

    if request.rdb or request.keys or request.aof:
        check_request(request)
    report = run(request.session("advise"), request, now_ms=time.time_ns() // 1_000_000)
    page = deliver(report, root=request.root, html=request.html, stream=None)
    if request.json:
        write_json({"page": page, "savings": report.savings}, sys.stdout)
    else:
        print_document(savings_document(report.snapshot_id, report.savings), Console(file=sys.stdout), html_path=page)
    return cli.PARTIAL if report.bad_records else None


if __name__ == "__main__":
    cli.main(command)
