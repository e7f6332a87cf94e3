"""What happened to the cluster?  Reads gold/incidents and gold/findings, which bus-replay wrote; writes an HTML report."""

from __future__ import annotations

import sys

from slotscope.requests.incidents import Request
from slotscope.requests.options import Recorded
from slotscope.runtime import cli


def command(request: Request) -> None:
    """List what happened to a cluster, and write the report with timelines and stories."""
    from rich.console import Console

    from slotscope.reports.delivery import Page, report_path
    from slotscope.reports.history.html import render_history
    from slotscope.reports.history.tables import load_history
    from slotscope.reports.history.terminal import print_incidents
    from slotscope.sources.files import write_text

    report = load_history(request.session("incidents"), request.root, request.snapshot)
    path = request.html or report_path(request.root, request.snapshot, page=Page.HISTORY)
    write_text(path, render_history(report))
    print_incidents(report.incidents, report.troubles, Console(file=sys.stdout), html_path=path)


def story_command(number: int, *, request: Recorded) -> None:
    """Tell one incident step by step, with times relative to its start.

    Parameters
    ----------
    number
        Number of the incident, as the list shows it.
    """
    from rich.console import Console

    from slotscope.reports.history.tables import load_incidents
    from slotscope.reports.history.terminal import print_story

    incident = load_incidents(request.session("incident"), request.root, request.snapshot, number)[0]
    print_story(incident, Console(file=sys.stdout))


if __name__ == "__main__":
    cli.main(command)
