"""Compare all clusters of the tables, the most urgent first.  Reads silver/runs, silver/snapshots, gold/node_load and gold/incidents; writes an HTML report."""

from __future__ import annotations

import sys
import time

from slotscope.options import Html, TableOptions, options
from slotscope.runtime import cli


@options
class Request(TableOptions):
    """Options of `slotscope fleet`."""

    html: Html = None


def command(request: Request = Request()) -> None:
    """List the clusters of the tables, worst first: open incidents, failed runs, partial dumps, skew, age; write the fleet page."""
    from slotscope.reports.delivery import deliver
    from slotscope.reports.fleet.report import load_fleet

    report = load_fleet(request.root, time.time_ns() // 1_000_000)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)


if __name__ == "__main__":
    cli.main(command)
