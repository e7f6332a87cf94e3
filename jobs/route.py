"""Print the redirection that a node would have answered at a time.  Reads silver/node_views."""

from __future__ import annotations

import sys

from slotscope.options import At, Flag, Recorded, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError


@options
class Request(Recorded):
    """Options of `slotscope lab route`."""

    observer: str
    """Node: id, id prefix, host:port or port"""
    at: At = None
    server: str = "valkey-9.1"
    """Rules and commands of the server: redis-7.0 or valkey-9.1"""
    readonly: Flag = False
    """Client after READONLY"""
    partial_coverage: Flag = False
    """Node with cluster-require-full-coverage no"""


def command(*words: str, request: Request) -> None:
    """Print the answer of a node to a command at a time: a redirection, an error, or that it serves the command.

    The tables have no open slots or key locations, so the answer is never ASK or TRYAGAIN.

    Parameters
    ----------
    words
        Command to route, after --
    """
    from slotscope.pipelines.bus.past_views import past_answer
    from slotscope.reports.records import print_records
    from slotscope.runtime.text import printable

    if not words:
        raise InputError("no command: write it after --, as in: -- GET user:1")
    answer = past_answer(
        words,
        root=request.root,
        snapshot=request.name,
        observer=request.observer,
        at=request.at,
        server=request.server,
        readonly=request.readonly,
        partial_coverage=request.partial_coverage,
    )
    print_records(answer, lambda: [printable(answer.text)], as_json=request.json, stream=sys.stdout)


if __name__ == "__main__":
    cli.main(command)
