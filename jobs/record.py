"""Record bus and polls of the nodes on this host into finished files for `history`."""

from __future__ import annotations

import json
import math
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

from cyclopts import Parameter

from cluster_core.formats.landing import Kind
from slotscope.options import NO_OPTIONS, SHARED, AccessOptions, Duration, Flag, Interval, Paths, options
from slotscope.recording.bus import CaptureOptions
from slotscope.recording.point import Bounds, Point, checked_name
from slotscope.recording.recorder import Recorder, RecorderSettings, Status
from slotscope.recording.series import Rotation
from slotscope.recording.upload import Uploader
from slotscope.runtime import cli, stores
from slotscope.runtime.errors import InputError
from slotscope.runtime.failure import printable
from slotscope.runtime.signals import caught_signals
from slotscope.servers.cluster import Schedule, parse_address

RecordedKind = Literal["bus", "polls", "slot-stats"]
SPOOL = "/var/spool/slotscope"
Kinds = Annotated[tuple[RecordedKind, ...], Parameter(consume_multiple=1, show_default=lambda kinds: " ".join(kinds))]


@options
class Request:
    """Options of `record`."""

    landing: str = field(kw_only=False)
    """Folder of recordings or s3://BUCKET/FOLDER: LANDING/CLUSTER/POINT"""
    cluster: str
    """Name of the cluster"""
    point: str | None = None
    """Name of this capture point. Default: host name"""
    node: Paths = ("127.0.0.1:6379",)
    """HOST:PORT of nodes on this host; others with an address of this host are found. Default: 127.0.0.1:6379"""
    kinds: Kinds = get_args(RecordedKind)
    """Kinds of recordings; log shippers and Prometheus write logs and metrics"""
    spool: str = SPOOL
    """Folder for files that wait for the store, up to --keep-bytes"""
    every: Interval = timedelta(seconds=20)
    """Rotation interval of files, as 20s or 5m"""
    file_bytes: int = 64 << 20
    """Rotation size in compressed bytes"""
    keep_bytes: int = 10 << 30
    """Size limit in bytes; the oldest files are deleted first"""
    keep_hours: float | None = None
    """Age limit in hours. Default: none"""
    interface: str = "any"
    """Network interface"""
    tcpdump: str = "tcpdump"
    """Path of tcpdump"""
    interval: float = 1.0
    """Interval of CLUSTER NODES and CLUSTER INFO per node, in seconds"""
    info_every: Interval = timedelta(seconds=10)
    """Interval of INFO and the settings save and cluster-node-timeout"""
    slot_stats_every: Interval = timedelta(seconds=60)
    """Interval of CLUSTER SLOT-STATS (Valkey 8, Redis 8.2), 1 to 2 MB per answer"""
    duration: Duration = None
    json: Annotated[Flag, SHARED] = False
    """Status as JSON lines"""
    metrics: Annotated[str | None, SHARED] = None
    """PORT for Prometheus to scrape, or NAME.prom file for its textfile collector: counts of the status, after each rotation"""
    access: AccessOptions = NO_OPTIONS
    quiet: Annotated[Flag, SHARED] = False
    """Print nothing but errors."""
    debug: Annotated[Flag, SHARED] = False
    """Show the trace of an error."""

    def point_name(self) -> str:
        """The name of the point."""
        return socket.gethostname() if self.point is None else self.point


INTERVAL_S_MIN = 0.05
FILE_BYTES_MIN = 4096


def command(request: Request) -> None:
    """Record bus traffic and polls of the nodes on this host into LANDING/CLUSTER/POINT, until Ctrl-C or SIGTERM.

    Finished files are compressed and named by their times in UTC; gaps.jsonl lists the gaps.  The same command resumes a stopped or
    killed recorder.  Sends only CLUSTER NODES, CLUSTER INFO, CLUSTER SLOT-STATS, INFO, and CONFIG GET of save and
    cluster-node-timeout.  Only tcpdump needs CAP_NET_RAW.
    """
    _check(request)
    if Kind.BUS in request.kinds and shutil.which(request.tcpdump) is None:
        raise InputError(
            f"{request.tcpdump} is not installed: install tcpdump, give its path with --tcpdump, or record without the bus: --kinds polls slot-stats"
        )
    cluster = checked_name(request.cluster, "--cluster")
    name = checked_name(request.point_name(), "--point")
    age_ns = None if request.keep_hours is None else int(request.keep_hours * 3600e9)
    landing = stores.plain(stores.folder_of(request.landing))
    is_remote = "://" in landing
    point = Point(
        Path(request.spool if is_remote else landing) / cluster / name,
        Rotation(int(request.every.total_seconds() * 1e9), request.file_bytes),
        Bounds(request.keep_bytes, age_ns),
        _tell if not request.quiet else _be_quiet,
        is_spool=is_remote,
    )
    uploader = Uploader(point, f"{landing}/{cluster}/{name}") if is_remote else None
    if uploader is not None:
        uploader.check()

    publish = _published(request, cluster, name)

    def report(status: Status) -> None:
        publish(status._asdict() | {"timestamp_seconds": time.time()})
        if request.json:
            sys.stdout.write(json.dumps({"cluster": cluster, "point": name, **status._asdict()}) + "\n")
            sys.stdout.flush()
        else:
            point.tell(f"{cluster}/{name}: {status.line()}")

    stop = threading.Event()
    wanted = _wanted(request)
    point.open(time.time_ns())
    try:
        with caught_signals(lambda _: stop.set()):
            by_way = f" by way of {point.folder}" if uploader else ""
            point.tell(
                f"recording to {f'{landing}/{cluster}/{name}' if uploader else point.folder}{by_way}; Ctrl-C ends"
            )
            if uploader is not None:
                uploader.start()
            until_s = math.inf if request.duration is None else time.monotonic() + request.duration
            status = Recorder(point, wanted, stop, report).run(until_s)
    finally:
        point.gaps.end_all(time.time_ns())
        if uploader is not None:
            uploader.close()
        point.close(time.time_ns())
    report(status)


def _published(request: Request, cluster: str, point: str) -> Callable[[Mapping[str, float]], None]:
    """Return a function that publishes the counts of a status."""
    if request.metrics is None:
        return lambda status: None
    from slotscope.runtime.run_metrics import status_writer

    return status_writer(request.metrics, "slotscope_record", {"cluster": cluster, "point": point})


def _wanted(request: Request) -> RecorderSettings:
    kinds = frozenset(map(Kind, request.kinds))
    slot_stats_s = request.slot_stats_every.total_seconds() if Kind.SLOT_STATS in kinds else None
    return RecorderSettings(
        kinds,
        [parse_address(address) for address in request.node],
        request.access.with_password(request.access.password()),
        Schedule(request.interval, slot_stats_s, request.info_every.total_seconds()),
        CaptureOptions(request.tcpdump, request.interface),
    )


def _check(request: Request) -> None:
    """Raise InputError for numbers that make no sense."""
    if not INTERVAL_S_MIN <= request.interval < math.inf or (
        request.duration is not None and not 0 < request.duration < math.inf
    ):
        raise InputError(f"--interval must be {INTERVAL_S_MIN} or more, --duration more than 0")
    if request.every.total_seconds() < 1 or request.file_bytes < FILE_BYTES_MIN:
        raise InputError(f"--every must be 1s or more, --file-bytes {FILE_BYTES_MIN} or more")
    if request.keep_bytes < request.file_bytes or not (request.keep_hours is None or 0 < request.keep_hours < 1e6):
        raise InputError("--keep-bytes must be at least --file-bytes, --keep-hours more than 0")
    if min(request.info_every, request.slot_stats_every).total_seconds() < 0:
        raise InputError("--info-every and --slot-stats-every must not be negative")


def _tell(line: str) -> None:
    sys.stderr.write(f"slotscope: {printable(line)}\n")


def _be_quiet(line: str) -> None:
    """Say nothing."""


if __name__ == "__main__":
    cli.main(command)
