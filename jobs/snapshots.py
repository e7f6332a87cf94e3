"""Which snapshots are there?  Reads the logs of the tables, silver/snapshots, silver/sources and silver/replays; writes none."""

from __future__ import annotations

import sys

from slotscope.options import TableOptions as Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> None:
    """List what the tables hold: snapshots by the job that made them, when of, from what, and whether they are finished."""
    from slotscope.pipelines.stored_snapshots import list_snapshots
    from slotscope.reports.answer import deliver_answer

    answer = list_snapshots(request.root)
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)


if __name__ == "__main__":
    cli.main(command)
