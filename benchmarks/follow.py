"""A landing that is followed: how much faster than the cluster lives, how long until a minute's story, and does it grow with the hours?

Every node of a quiet cluster has a capture point of its own, which ends a file each minute; so each packet is in two files.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks.bus_data import START_NS, bus_packets
from benchmarks.measure import tree_cpu_seconds
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.formats.landing import RecordedFile
from jobs import history as history_job
from jobs.follow import Request
from jobs.history import Request as Replay
from slotscope.pipelines.bus.following import Follower
from slotscope.runtime.spark.session import spark_session

NODES, MINUTES = 100, 10
MESSAGES_PER_NODE_S = 27
"""T = 15 s: a node of a hundred pings every other one each 7.5 s, is pinged by it, and answers."""
FEW_NODES, HOURS, FEW_MESSAGES_PER_NODE_S = 10, 4, 3
"""Growth is measured with fewer nodes, whose traffic per node is less (T = 15 s as well), in batches of a quarter of an hour."""
QUARTER_MINUTES = 15
CLUSTER = "bench"
_SECOND = 1_000_000_000
_MINUTE = 60 * _SECOND


class Measured(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float


def run(options: Options) -> Result:
    """Measure many minutes at once, one more, and each quarter of some hours."""
    nodes, minutes, hours = (10, 2, 1) if options.quick else (NODES, MINUTES, HOURS)
    folder = Path(tempfile.mkdtemp(prefix="follow-"))
    try:
        return _measured(folder, nodes, minutes, hours)
    finally:
        shutil.rmtree(folder)


def _measured(folder: Path, nodes: int, minutes: int, hours: int) -> Result:
    spark = spark_session("benchmark", master="local[2]")
    landing, root = folder / "landing", folder / "root"
    per_s = nodes * MESSAGES_PER_NODE_S
    files = _files(landing, nodes, minutes + 1, per_s)
    rest = _put(files, minutes)
    pcap = (f"{landing}/*/*/bus/*",)
    at_once = _timed(lambda: history_job.run(spark, Replay(root=f"{folder}/once", snapshot=CLUSTER, pcap=pcap)))
    followed = _followed(spark, root, landing)
    _put(iter(rest), minutes + 1)
    _put(files, minutes + 1)
    minute = _followed(spark, root, landing)
    growth = list(_growth(spark, folder / "hours", hours))
    first, last = (sum(taken.cpu_s for taken in part) for part in (growth[:4], growth[-4:]))
    messages = per_s * 60
    rows: list[dict[str, Cell]] = [
        _row(f"{minutes} minutes there, followed in one batch", minutes, messages * minutes, followed),
        _row("the same files, history", minutes, messages * minutes, at_once),
        _row("one more minute, followed", 1, messages, minute),
    ]
    return Result(
        "follow",
        "A landing that is followed",
        f"{nodes} nodes, a capture point each, quiet traffic with a node timeout of 15 s, on two cores.",
        [
            Table("Files to tables", rows),
            Table(
                f"Growth: {FEW_NODES} nodes, a batch for each quarter of an hour",
                [
                    {"hour": hour + 1, "CPU s": sum(taken.cpu_s for taken in growth[4 * hour : 4 * hour + 4])}
                    for hour in range(hours)
                ],
            ),
        ],
        [
            Bar("followed, faster than the cluster lives", 8, 60 * minutes / followed.wall_s, "×", at_most=False),
            Bar("a minute of files to its story", 60, minute.wall_s, "s"),
            Bar("the last hour, of the first", 1.2, last / first, "×"),
        ],
    )


def _row(what: str, minutes: int, messages: int, taken: Measured) -> dict[str, Cell]:
    return {
        "what": what,
        "s": taken.wall_s,
        "CPU s": taken.cpu_s,
        "CPU µs a message": 1e6 * taken.cpu_s / messages,
        "× real time": 60 * minutes / taken.wall_s,
    }


def _growth(spark: SparkSession, folder: Path, hours: int) -> Iterator[Measured]:
    landing, root = folder / "landing", folder / "root"
    files = _files(landing, FEW_NODES, 60 * hours, FEW_NODES * FEW_MESSAGES_PER_NODE_S)
    rest: list[tuple[int, Path, bytes]] = []
    for quarter in range(1, 4 * hours + 1):
        _put(iter(rest), quarter * QUARTER_MINUTES)
        rest = _put(files, quarter * QUARTER_MINUTES)
        yield _followed(spark, root, landing)


def _followed(spark: SparkSession, root: Path, landing: Path) -> Measured:
    request = Request(root=str(root), landing=str(landing), once=True)
    return _timed(lambda: Follower(spark, request, lambda batch: None).run(threading.Event()))


def _timed(what: Callable[[], object]) -> Measured:
    wall, cpu = time.perf_counter(), tree_cpu_seconds()
    what()
    return Measured(time.perf_counter() - wall, tree_cpu_seconds() - cpu)


def _put(files: Iterator[tuple[int, Path, bytes]], minutes: int) -> list[tuple[int, Path, bytes]]:
    """Write the files that ended within so many minutes; return the first one that did not."""
    for end_ns, path, raw in files:
        if end_ns > START_NS + minutes * _MINUTE:
            return [(end_ns, path, raw)]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return []


def _files(landing: Path, nodes: int, minutes: int, messages_per_s: int) -> Iterator[tuple[int, Path, bytes]]:
    """When each file ended, its path and bytes, minute by minute."""
    messages = messages_per_s * 60 * minutes
    packets = nodes * (nodes - 1) * 3 + 2 * messages  # most messages lie in one segment
    step_ns = 60 * minutes * _SECOND // packets
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    records: list[list[bytes]] = [[] for _ in range(nodes)]
    minute = 0
    for number, packet in enumerate(bus_packets(messages, nodes, 60 * minutes * _SECOND // messages)):
        at_ns = number * step_ns
        while at_ns >= (minute + 1) * _MINUTE:
            yield from _minute_files(landing, head, records, minute)
            minute += 1
        record = struct.pack("<IIII", *divmod(START_NS + at_ns, _SECOND), len(packet), len(packet)) + packet
        for node in (packet[29] - 1, packet[33] - 1):
            records[node].append(record)
    yield from _minute_files(landing, head, records, minute)


def _minute_files(
    landing: Path, head: bytes, records: list[list[bytes]], minute: int
) -> Iterator[tuple[int, Path, bytes]]:
    start_ns = START_NS + minute * _MINUTE
    name = RecordedFile("", start_ns, start_ns + _MINUTE, "pcap").name
    for node, chunks in enumerate(records):
        raw = gzip.compress(head + b"".join(chunks), 1)
        chunks.clear()
        yield start_ns + _MINUTE, landing / CLUSTER / f"host-{node:03d}" / "bus" / name, raw
