"""A landing that is followed, minute by minute, and replayed at once: how much faster than the cluster lives, and does it grow?

Every node of a quiet cluster has a capture point of its own, which ends a file each half minute; so each packet is in two files.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.bus_data import START_NS, bus_packets
from benchmarks.measure import tree_cpu_seconds
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.formats.landing import RecordedFile
from jobs import bus_replay
from slotscope.pipelines.following import Followed, Follower
from slotscope.requests.bus_replay import Request as Replay
from slotscope.requests.follow import Request
from slotscope.runtime.session import spark_session

NODES, MINUTES = 100, 3
MESSAGES_PER_NODE_S = 27
"""T = 15 s: a node pings every other one each 7.5 s, is pinged by it, and answers."""
FILE_S = 30
CLUSTER = "bench"
_SECOND = 1_000_000_000


def run(options: Options) -> Result:
    """Measure each minute and the whole."""
    nodes, minutes = (10, 2) if options.quick else (NODES, MINUTES)
    folder = Path(tempfile.mkdtemp(prefix="follow-"))
    try:
        return _measured(folder, nodes, minutes)
    finally:
        shutil.rmtree(folder)


def _measured(folder: Path, nodes: int, minutes: int) -> Result:
    landing, root = folder / "landing", folder / "root"
    landing.mkdir()
    spark = spark_session("benchmark", master="local[2]")
    waiting = deque(_files(landing, nodes, minutes))
    rows: list[dict[str, Cell]] = []
    before = 0
    for minute in range(1, minutes + 1):
        count = 0
        while waiting and waiting[0][0] <= START_NS + minute * 60 * _SECOND:
            _, path, raw = waiting.popleft()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(raw)
            count += 1
        followed, wall_s, cpu_s = _followed(spark, root, landing)
        messages = followed.outcome.messages
        rows.append(
            {
                "minute": minute,
                "files": count,
                "new messages": messages - before,
                "s": wall_s,
                "CPU s": cpu_s,
                "× real time": 60 / wall_s,
            }
        )
        before = messages
    wall, cpu = time.perf_counter(), tree_cpu_seconds()
    bus_replay.run(spark, Replay(root=str(folder / "at-once"), snapshot=CLUSTER, pcap=(f"{landing}/*/*/bus/*",)))
    at_once_s, cpu_s = time.perf_counter() - wall, tree_cpu_seconds() - cpu
    last = float(rows[-1]["s"] or 0)
    return Result(
        "follow",
        "A landing that is followed",
        f"{nodes} nodes, a capture point each, {minutes} minutes of quiet traffic, on two cores.",
        [
            Table("Minute by minute, each a batch of its own", rows),
            Table(
                "All files at once (bus-replay)",
                [{"minutes": minutes, "s": at_once_s, "CPU s": cpu_s, "× real time": 60 * minutes / at_once_s}],
            ),
        ],
        [
            Bar("all files at once, faster than the cluster lives", 20, 60 * minutes / at_once_s, "×", at_most=False),
            Bar("a minute of files to its story", 60, last, "s"),
        ],
    )


def _followed(spark: SparkSession, root: Path, landing: Path) -> tuple[Followed, float, float]:
    told: list[Followed] = []
    wall, cpu = time.perf_counter(), tree_cpu_seconds()
    Follower(spark, Request(root=str(root), landing=str(landing), once=True), told.append).run(threading.Event())
    return told[-1], time.perf_counter() - wall, tree_cpu_seconds() - cpu


def _files(landing: Path, nodes: int, minutes: int) -> list[tuple[int, Path, bytes]]:
    """When each file ended, its path and bytes, in order of that; each point ends its files at its own moments."""
    messages = nodes * MESSAGES_PER_NODE_S * 60 * minutes
    packets = nodes * (nodes - 1) * 3 + 2 * messages  # most messages lie in one segment
    step_ns = 60 * minutes * _SECOND // packets
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    parts: list[dict[int, list[bytes]]] = [{} for _ in range(nodes)]
    for number, packet in enumerate(bus_packets(messages, nodes)):
        at_ns = number * step_ns
        record = struct.pack("<IIII", *divmod(START_NS + at_ns, _SECOND), len(packet), len(packet)) + packet
        for node in (packet[29] - 1, packet[33] - 1):
            parts[node].setdefault((at_ns + _shift_ns(node, nodes)) // (FILE_S * _SECOND), []).append(record)
    found = []
    for node, files in enumerate(parts):
        for number, records in files.items():
            end_ns = START_NS + (number + 1) * FILE_S * _SECOND - _shift_ns(node, nodes)
            name = RecordedFile("", max(START_NS, end_ns - FILE_S * _SECOND), end_ns, "pcap").name
            raw = gzip.compress(head + b"".join(records), 1)
            found.append((end_ns, landing / CLUSTER / f"host-{node:03d}" / "bus" / name, raw))
    return sorted(found, key=lambda one: (one[0], one[1]))


def _shift_ns(node: int, nodes: int) -> int:
    return node * FILE_S * _SECOND // nodes
