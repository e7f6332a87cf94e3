"""List the snapshots in the tables."""

from __future__ import annotations

import sys

from slotscope.options import TableOptions as Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> None:
    """List the snapshots in the tables: job, time, inputs and state."""
    from slotscope.pipelines.stored_snapshots import list_snapshots
    from slotscope.reports.answer import deliver_answer

    answer = list_snapshots(request.root)
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)


if __name__ == "__main__":
    cli.main(command)
