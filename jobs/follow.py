"""Reconstruct history from recordings as they arrive in a landing: the tables of history, one snapshot per cluster."""

from __future__ import annotations

import os
import sys
import threading

from slotscope.pipelines.bus.options import FollowOptions as Request
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.signals import caught_signals
from slotscope.runtime.text import printable

KEEP_MIN_S = 3600


def command(request: Request) -> None:
    """Write new recordings of record to the tables of history, one snapshot a cluster, named after it.

    The same command resumes a killed follower without loss or repetition.
    """
    from slotscope.pipelines.bus.following import ClusterBatch, Follower
    from slotscope.pipelines.bus.incident_news import Hooks
    from slotscope.reports.records import print_records
    from slotscope.runtime.spark.session import CONNECT

    if "://" not in request.landing and not os.path.isdir(request.landing):
        raise InputError(f"{request.landing}: no such folder; name the landing that record writes to with --landing")
    if request.every.total_seconds() <= 0 or request.lateness.total_seconds() < 0:
        raise InputError("--every must be more than 0, --lateness not negative")
    if request.keep.total_seconds() < KEEP_MIN_S:
        raise InputError("--keep must be 1h or more: batches read the latest messages and polls again")

    def tell(followed: ClusterBatch) -> None:
        lines = (printable(followed.line()),)
        print_records(followed, lambda: lines, as_json=request.json, stream=sys.stdout)
        sys.stdout.flush()

    if (request.master or "").startswith(CONNECT):
        raise InputError(f"--master {CONNECT}…: follow needs a classic Spark session, not Spark Connect")
    Hooks.of(request).check()
    stop = threading.Event()
    follower = Follower(request.session("follow"), request, tell)
    with caught_signals(lambda _: stop.set()):
        follower.run(stop)


if __name__ == "__main__":
    cli.main(command)
