"""List or explain the incidents of a history.  Reads gold/incidents and gold/findings; writes an HTML report."""

from __future__ import annotations

import sys
from typing import Literal

from slotscope.options import Html, Recorded, options
from slotscope.runtime import cli


@options
class Request(Recorded):
    """Options of `slotscope incidents`."""

    html: Html = None


def command(number: int | Literal["longest"] | None = None, request: Request = Request()) -> None:
    """List the incidents of a cluster and write the report with timelines, or explain one incident step by step.

    Parameters
    ----------
    number
        Number of an incident in the list, or longest. Default: list all
    """
    from slotscope.reports.delivery import deliver
    from slotscope.reports.history.tables import load_history

    if number is not None:
        _tell(number, request)
        return
    report = load_history(request.root, request.name)
    deliver(report, root=request.root, html=request.html, stream=sys.stdout, as_json=request.json)


def _tell(number: int | str, request: Request) -> None:
    from rich.console import Console

    from slotscope.reports.history.report import gravest_of
    from slotscope.reports.history.tables import load_incidents
    from slotscope.reports.history.terminal import print_story
    from slotscope.reports.records import write_json
    from slotscope.runtime.errors import InputError

    name = request.name
    if isinstance(number, str):
        gravest = gravest_of(load_incidents(request.root, name))
        if gravest is None:
            raise InputError(f"{request.root}: no incident in snapshot {name!r}")
        number = gravest.number
    incident = load_incidents(request.root, name, number)[0]
    if request.json:
        write_json(incident, sys.stdout)
        return
    print_story(incident, Console(file=sys.stdout))


if __name__ == "__main__":
    cli.main(command)
