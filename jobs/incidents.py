"""What happened to the cluster?  Reads gold/incidents and gold/findings, which history wrote; writes an HTML report."""

from __future__ import annotations

import sys

from slotscope.requests.incidents import Request
from slotscope.requests.options import Recorded
from slotscope.runtime import cli


def command(request: Request = Request()) -> None:
    """List what happened to a cluster, and write the report with timelines and stories."""
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history

    report = load_history(request.root, request.name)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)


def story_command(number: int | None = None, *, parts: bool = False, request: Recorded = Recorded()) -> None:
    """Tell one incident step by step, with times relative to its start.

    Parameters
    ----------
    number
        Number of the incident, as the list shows it. Default: the one with the longest time out of service.
    parts
        Also list each node of the steps that many did.
    """
    from rich.console import Console

    from slotscope.reports.history.report import gravest_of
    from slotscope.reports.history.tables import load_incidents
    from slotscope.reports.history.terminal import print_story
    from slotscope.reports.records import write_json
    from slotscope.runtime.errors import InputError

    name = request.name
    if number is None:
        gravest = gravest_of(load_incidents(request.root, name))
        if gravest is None:
            raise InputError(f"{request.root}: nothing happened in snapshot {name!r}")
        number = gravest.number
    incident = load_incidents(request.root, name, number)[0]
    if request.json:
        write_json(incident, sys.stdout)
        return
    print_story(incident, Console(file=sys.stdout), parts=parts)


if __name__ == "__main__":
    cli.main(command)
