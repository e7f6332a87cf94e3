"""Poll every node of a live cluster with read-only commands, over one connection per node.

The answers are finished files of a landing; `slotscope history --polls` and `follow` read them.
"""

from __future__ import annotations

import math
import shlex
import sys
import threading
import time
from dataclasses import field
from datetime import timedelta
from pathlib import Path

from slotscope.options import NO_OPTIONS, AccessOptions, Duration, Flag, Interval, options
from slotscope.runtime import cli
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.program import ROOT
from slotscope.runtime.signals import caught_signals
from slotscope.runtime.text import plural, size

LANDING = f"{ROOT}/landing"


@options
class Request:
    """Options of `collect`."""

    address: str = field(kw_only=False)
    """HOST:PORT of one node; it names the others"""
    landing: str = LANDING
    """Folder of recordings: LANDING/CLUSTER/POINT, for history --polls and follow"""
    cluster: str | None = None
    """Name of the cluster in the landing. Default: the address"""
    point: str = "collect"
    """Name of this collector; unique per cluster"""
    interval: float = 1.0
    """Poll interval per node in seconds, jittered by 10 %; longer for nodes that do not answer"""
    info_every: Interval = timedelta(seconds=60)
    """Interval of INFO and the settings save and cluster-node-timeout; 0: none"""
    every: Interval = timedelta(minutes=5)
    """Rotation interval of files"""
    keep_bytes: int = 10 << 30
    """Size limit in bytes; the oldest files are deleted first"""
    duration: Duration = None
    slot_stats: Flag = False
    """CLUSTER SLOT-STATS too (Valkey 8, Redis 8.2), 1 to 2 MB per answer; set --interval to a minute or more"""
    access: AccessOptions = NO_OPTIONS
    debug: Flag = False
    """Show the trace of an error."""


INTERVAL_S_MIN = 0.05
FILE_BYTES = 64 << 20
"""Compressed bytes after which a file is finished."""


def command(request: Request) -> None:
    """Poll every node of a live cluster and keep the answers.

    Sends only CLUSTER NODES, CLUSTER INFO, INFO, CONFIG GET of save and cluster-node-timeout, and, with --slot-stats,
    CLUSTER SLOT-STATS.  Ctrl-C ends it and keeps all answers.
    """
    from cluster_core.formats.landing import Kind, source_of
    from slotscope.recording.bus import CaptureOptions
    from slotscope.recording.point import Bounds, Point, checked_name
    from slotscope.recording.recorder import Recorder, RecorderSettings
    from slotscope.recording.series import Rotation
    from slotscope.servers.cluster import NodePoll, Refused, Schedule, parse_address

    if not INTERVAL_S_MIN <= request.interval < math.inf or (
        request.duration is not None and not 0 < request.duration < math.inf
    ):
        raise InputError(f"--interval must be {INTERVAL_S_MIN} or more, --duration more than 0")
    if request.every.total_seconds() < 1 or request.info_every.total_seconds() < 0 or request.keep_bytes < FILE_BYTES:
        raise InputError(f"--every must be 1s or more, --info-every 0s or more, --keep-bytes {FILE_BYTES} or more")
    first = parse_address(request.address)
    access = request.access.with_password(request.access.password())
    poll = NodePoll(first, access, Schedule(request.interval))
    answer = poll.ask()
    poll.close()
    if isinstance(answer, Refused):
        raise InputError(f"{first}: {answer.reason}")
    cluster = checked_name(request.cluster or source_of(str(first)), "--cluster")
    folder = Path(request.landing) / cluster / checked_name(request.point, "--point")
    rotation = Rotation(int(request.every.total_seconds() * 1e9), FILE_BYTES)
    point = Point(folder, rotation, Bounds(request.keep_bytes), _tell)
    info_s = request.info_every.total_seconds() or None
    kinds = frozenset((Kind.POLLS, Kind.SLOT_STATS) if request.slot_stats else (Kind.POLLS,))
    schedule = Schedule(request.interval, 0.0 if request.slot_stats else None, info_s)
    wanted = RecorderSettings(kinds, [first], access, schedule, CaptureOptions("", ""), whole_cluster=True)

    point.open(time.time_ns())
    stop = threading.Event()
    try:
        with caught_signals(lambda _: stop.set()):
            _tell(f"collecting to {folder}, every node each {request.interval:g} s; Ctrl-C ends")
            until_s = math.inf if request.duration is None else time.monotonic() + request.duration
            status = Recorder(point, wanted, stop, lambda status: None).run(until_s)
    finally:
        point.close(time.time_ns())
    _tell(f"{plural(status.answers, 'answer')}, {plural(status.files, 'file')}, {size(status.bytes_kept)} in {folder}")
    _tell(f"read them with: slotscope history --polls {shlex.quote(str(folder))}")


def _tell(line: str) -> None:
    sys.stderr.write(f"slotscope: {printable(line)}\n")


if __name__ == "__main__":
    cli.main(command)
