"""List or explain the incidents of a history.  Reads gold/incidents and gold/findings; writes an HTML report."""

from __future__ import annotations

import sys

from slotscope.options import Flag, Html, Recorded, options
from slotscope.runtime import cli


@options
class Request(Recorded):
    """Options of `slotscope incidents`."""

    html: Html = None


def command(request: Request = Request()) -> None:
    """List the incidents of a cluster and write the report with timelines."""
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history

    report = load_history(request.root, request.name)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)


def story_command(number: int | None = None, *, parts: Flag = False, request: Recorded = Recorded()) -> None:
    """Tell one incident step by step, with times relative to its start.

    Parameters
    ----------
    number
        Number of the incident in the list. Default: the longest outage
    parts
        Each node of steps that many nodes took
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
