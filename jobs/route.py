"""What would a node have answered to a command then?  Reads silver/node_views, which history wrote; writes none."""

from __future__ import annotations

import sys

from slotscope.requests.route import Request
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError


def command(*words: str, request: Request) -> None:
    """Print what a node would have answered to a command at some time: a redirection, an error, or that it serves it.

    The tables do not hold which slots were open and which keys were where, so ASK and TRYAGAIN are never answered.

    Parameters
    ----------
    words
        The command, after --: slotscope route --observer … --at … -- GET user:1
    """
    from slotscope.pipelines.bus.past_views import past_answer
    from slotscope.reports.records import print_records
    from slotscope.runtime.text import printable

    if not words:
        raise InputError("no command: write it after --, as in: -- GET user:1")
    answer = past_answer(words, request)
    print_records(answer, lambda: [printable(answer.text)], as_json=request.json, stream=sys.stdout)


if __name__ == "__main__":
    cli.main(command)
