"""What grew between two snapshots, per node, slot, prefix and hash tag?  Reads the tables that key-slots wrote; writes none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slotscope.requests.compare import Request
from slotscope.runtime import cli

if TYPE_CHECKING:
    from slotscope.reports.keyspace.comparison import ComparisonReport


def run(*, root: str, before: str, after: str) -> ComparisonReport:
    """Return what changed from snapshot *before* to snapshot *after*; raises InputError if one is not there."""
    from slotscope.reports.keyspace.comparison import compare_reports
    from slotscope.reports.keyspace.tables import load_report
    from slotscope.reports.keyspace.trend import load_trend

    return compare_reports(load_report(root, before), load_report(root, after), load_trend(root))


def command(request: Request) -> int | None:
    """Show what grew between two snapshots: per node, slot, prefix and hash tag.  Ends with 3 if one of them is partial."""
    from slotscope.reports.delivery import deliver

    report = run(root=request.root, before=request.before, after=request.after)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)
    return cli.PARTIAL if report.partial_words else None


if __name__ == "__main__":
    cli.main(command)
