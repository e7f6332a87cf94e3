"""What does every node of a live cluster believe, second by second?  Asks with read-only commands and writes JSON lines, which
``history --polls`` reads.
"""

from __future__ import annotations

import math
import sys
import time

from slotscope.requests.collect import Request
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.signals import caught_signals

INTERVAL_S_MIN = 0.05


def command(request: Request) -> None:
    """Ask every node of a live cluster what it believes, again and again, and append the answers to a file.

    Sends CLUSTER NODES, CLUSTER INFO and, when asked, CLUSTER SLOT-STATS, INFO and CONFIG GET, never a command that writes.  Ctrl-C ends it; what was answered until then is
    in the file.
    """
    from slotscope.servers.cluster import Schedule, parse_address
    from slotscope.servers.collection import Collection, LineFile, collect

    if not INTERVAL_S_MIN <= request.interval < math.inf or (
        request.duration is not None and not 0 < request.duration < math.inf
    ):
        raise InputError(f"--interval must be {INTERVAL_S_MIN} or more, --duration more than 0")
    first = parse_address(request.address)
    collection = Collection(
        request.access.with_password(request.access.password()),
        Schedule(request.interval, 0.0 if request.slot_stats else None, 0.0 if request.persistence else None),
    )
    file = LineFile(request.out)
    try:
        with caught_signals(lambda _: collection.stop.set()):
            collection.start(first)
            _tell(f"asking {len(collection.nodes)} nodes every {request.interval:g} s; Ctrl-C ends")
            until_s = math.inf if request.duration is None else time.monotonic() + request.duration
            answers, failures = collect(collection, file, until_s=until_s, tell=_tell)
    finally:
        collection.finish()
        file.close()
    _tell(f"{answers} answers in {request.out}, {failures} questions without one")


def _tell(line: str) -> None:
    sys.stderr.write(f"slotscope: {printable(line)}\n")


if __name__ == "__main__":
    cli.main(command)
