"""Print CLUSTER NODES as a node would have answered at a time.  Reads silver/node_views."""

from __future__ import annotations

import sys

from slotscope.options import At, Recorded, options
from slotscope.runtime import cli


@options
class Request(Recorded):
    """Options of `slotscope nodes`."""

    observer: str | None = None
    """Node: id, id prefix, host:port, port or all. Default: the answer of most nodes, and deviations"""
    at: At = None
    diff: str | None = None
    """Second time; output of the differences"""

    @property
    def is_headed(self) -> bool:
        """Whether each answer has a heading with its node."""
        return self.observer in (None, "all") or self.diff is not None


def command(request: Request = Request()) -> None:
    """Print CLUSTER NODES as a node answered at a time.

    Ping and pong times are 0: the tables do not hold them.
    """
    from slotscope.pipelines.bus.past_views import past_views
    from slotscope.reports.records import print_records

    views = past_views(
        root=request.root, snapshot=request.name, observer=request.observer, at=request.at, diff=request.diff
    )
    print_records(
        [view.record() for view in views],
        lambda: (line for view in views for line in view.lines(headed=request.is_headed)),
        as_json=request.json,
        stream=sys.stdout,
    )


if __name__ == "__main__":
    cli.main(command)
