"""What grew between two snapshots, per node, slot, prefix and hash tag?  Reads the tables that key-slots wrote; writes none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.cli import Common

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.reports.keyspace.comparison import ComparisonReport


def run(spark: SparkSession, *, root: str, before: str, after: str) -> ComparisonReport:
    """Return what changed from snapshot *before* to snapshot *after*; raises InputError if one is not there."""
    from slotscope.reports.keyspace.comparison import compare_reports
    from slotscope.reports.keyspace.tables import load_report

    return compare_reports(load_report(spark, root, before), load_report(spark, root, after))


def command(
    *,
    before: Annotated[str, Parameter(name="--from")],
    after: Annotated[str, Parameter(name="--to")],
    html: str | None = None,
    common: Common,
) -> int | None:
    """Show what grew between two snapshots: per node, slot, prefix and hash tag.  Ends with 3 if one of them is partial.

    Parameters
    ----------
    before
        Name of the earlier snapshot.
    after
        Name of the later snapshot.
    html
        Where the HTML report goes. Default: ROOT/reports/FROM-to-TO.html.
    """
    from slotscope.reports.delivery import deliver_comparison

    report = run(common.session("compare"), root=common.root, before=before, after=after)
    deliver_comparison(report, root=common.root, html=html, stream=sys.stdout)
    return cli.PARTIAL if report.partial_words else None


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
