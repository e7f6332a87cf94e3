"""What would a node have answered to CLUSTER NODES then?  Reads silver/node_views, which history wrote; writes none."""

from __future__ import annotations

import sys

from slotscope.requests.nodes import Request
from slotscope.runtime import cli


def command(request: Request = Request()) -> None:
    """Print CLUSTER NODES as a node would have answered it at some time.

    Ping and pong times are 0: the tables do not hold them.
    """
    from slotscope.pipelines.bus.past_views import past_views
    from slotscope.reports.records import print_records

    views = past_views(request)
    print_records(
        [view.record() for view in views],
        lambda: (line for view in views for line in view.lines(headed=request.is_headed)),
        as_json=request.json,
        stream=sys.stdout,
    )


if __name__ == "__main__":
    cli.main(command)
