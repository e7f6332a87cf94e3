"""What does every node of a live cluster believe, second by second?  Asks with read-only commands and writes JSON lines, which
``bus-replay --nodes`` reads.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from slotscope.runtime import cli
from slotscope.runtime.access import NO_OPTIONS, AccessOptions
from slotscope.runtime.cli import Flag
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.signals import caught_signals

INTERVAL_S_MIN = 0.05


def command(
    address: str,
    *,
    out: str,
    interval: float = 1.0,
    duration: float | None = None,
    slot_stats: Flag = False,
    persistence: Flag = False,
    access: AccessOptions = NO_OPTIONS,
    debug: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
) -> None:
    """Ask every node of a live cluster what it believes, again and again, and append the answers to a file.

    Sends CLUSTER NODES, CLUSTER INFO and, when asked, CLUSTER SLOT-STATS, INFO and CONFIG GET, never a command that writes.  Ctrl-C ends it; what was answered until then is
    in the file.

    Parameters
    ----------
    address
        HOST:PORT of one node; the others are found from its answer.
    out
        File of JSON lines, which is added to.
    interval
        Seconds between two questions to a node; a node that does not answer is asked less and less often.
    duration
        Seconds after which to end. Default: until Ctrl-C.
    slot_stats
        Also ask CLUSTER SLOT-STATS (Valkey 8, Redis 8.2 and newer), which rebalance-plan --slot-stats reads: a megabyte or two
        an answer, so take an --interval of a minute or more.
    persistence
        Also ask INFO and CONFIG GET save, from which key-slots --info tells what a crash would lose.
    debug
        Show the trace of an error.
    """
    from slotscope.servers.cluster import Collection, LineFile, collect, parse_address

    if not INTERVAL_S_MIN <= interval < math.inf or (duration is not None and not 0 < duration < math.inf):
        raise InputError(f"--interval must be {INTERVAL_S_MIN} or more, --duration more than 0")
    first = parse_address(address)
    collection = Collection(access.with_password(access.password()), interval, slot_stats, persistence)
    file = LineFile(out)
    try:
        with caught_signals(lambda _: collection.stop.set()):
            collection.start(first)
            _tell(f"asking {len(collection.nodes)} nodes every {interval:g} s; Ctrl-C ends")
            until_s = math.inf if duration is None else time.monotonic() + duration
            answers, failures = collect(collection, file, until_s=until_s, tell=_tell)
    finally:
        collection.finish()
        file.close()
    _tell(f"{answers} answers in {out}, {failures} questions without one")


def _tell(line: str) -> None:
    sys.stderr.write(f"slotscope: {printable(line)}\n")


def main(argv: Sequence[str] | None = None) -> None:
    """What ``python -m jobs.collect`` calls."""
    cli.main(command, argv)


if __name__ == "__main__":
    main()
