"""What happened to the cluster?  Reads gold/incidents and gold/findings, which bus-replay wrote; writes an HTML report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotscope.runtime import cli
from slotscope.runtime.cli import Common

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slotscope.reports.history.report import HistoryReport, IncidentLine


def run(spark: SparkSession, *, root: str, snapshot: str = "current") -> HistoryReport:
    """Return what the tables say of a replay; raises InputError if there is none."""
    from slotscope.reports.history.tables import load_history

    return load_history(spark, root, snapshot)


def run_one(spark: SparkSession, *, root: str, number: int, snapshot: str = "current") -> IncidentLine:
    """Return one incident with its steps; raises InputError if it is not there."""
    from slotscope.reports.history.tables import load_incidents

    return load_incidents(spark, root, snapshot, number)[0]


def command(*, snapshot: str = "current", html: str | None = None, common: Common) -> None:
    """List what happened to a cluster, and write the report with timelines and stories.

    Parameters
    ----------
    snapshot
        Name of the snapshot that bus-replay wrote.
    html
        Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-history.html.
    """
    from rich.console import Console

    from slotscope.reports.delivery import Page, report_path
    from slotscope.reports.history.html import render_history
    from slotscope.reports.history.terminal import print_incidents
    from slotscope.sources.files import write_text

    report = run(common.session("incidents"), root=common.root, snapshot=snapshot)
    path = html or report_path(common.root, snapshot, page=Page.HISTORY)
    write_text(path, render_history(report))
    print_incidents(report.incidents, report.troubles, Console(file=sys.stdout), html_path=path)


def story_command(number: int, *, snapshot: str = "current", common: Common) -> None:
    """Tell one incident step by step, with times relative to its start.

    Parameters
    ----------
    number
        Number of the incident, as the list shows it.
    snapshot
        Name of the snapshot that bus-replay wrote.
    """
    from rich.console import Console

    from slotscope.reports.history.terminal import print_story

    incident = run_one(common.session("incident"), root=common.root, number=number, snapshot=snapshot)
    print_story(incident, Console(file=sys.stdout))


def main(argv: Sequence[str] | None = None) -> None:
    """What spark-submit calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
