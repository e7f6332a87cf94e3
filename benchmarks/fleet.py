"""Many quiet clusters in one landing: time and commits of a second run and of a warm batch, cost and memory of the batches of a day."""

from __future__ import annotations

import gzip
import itertools
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from benchmarks.bus_data import START_NS, bus_packets
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from benchmarks.skim import memory_bytes
from cluster_core.formats.landing import RecordedFile
from jobs.follow import Request
from slotscope.pipelines.bus.following import Follower
from slotscope.runtime.spark.session import spark_session

NODES, SECONDS, MESSAGES_A_SECOND = 6, 10, 18
COLD, WARM = 60, 200
"""Clusters of the two runs."""
TAIL = 9
"""Files before the warm batches: more than the default --lateness, so each batch replays the whole of it."""
DAY, DAY_FILE_SECONDS, HOUR = 288, 300, 12
"""Files of a day, one a batch, the seconds of each, and the files of an hour."""
_SECOND = 1_000_000_000


def run(options: Options) -> Result:
    """Follow a landing of many clusters twice as a program, one of more clusters in one session, and one cluster for a day."""
    cold, warm, day = (6, 12, 3 * HOUR) if options.quick else (COLD, WARM, DAY)
    folder = Path(tempfile.mkdtemp(prefix="fleet-"))
    try:
        second = _second_run(folder / "cold", cold)
        batch = _warm_batch(folder / "warm", warm)
        memory, seconds = _day(folder / "day", day)
    finally:
        shutil.rmtree(folder)
    rows: list[dict[str, Cell]] = [
        {"what": f"{cold} clusters, second run, start included", "s": second[0], "commits": second[1]},
        {"what": f"{warm} clusters, a warm batch", "s": batch[0], "commits": batch[1]},
    ]
    hours = [sum(seconds[at : at + HOUR]) / HOUR for at in range(0, day, HOUR)]
    held: list[dict[str, Cell]] = [
        {"hour": at + 1, "s a batch": hours[at], "driver MB": memory[(at + 1) * HOUR - 1] >> 20}
        for at in (1, len(hours) // 2, len(hours) - 1)
    ]
    about = f"Clusters of {NODES} nodes, quiet, one file of {SECONDS} s each a batch, on two cores."
    bars = [
        Bar(f"{cold} clusters, second run", 25, second[0], "s"),
        Bar(f"{cold} clusters, commits", 60, second[1], ""),
        Bar(f"{warm} clusters, a warm batch", 30, batch[0], "s"),
        Bar("a batch of the last hour, of one of the second", 1.2, hours[-1] / hours[1], "×"),
        Bar("memory of the driver after a day, of that after a quarter", 1.1, memory[-1] / memory[day // 4], "×"),
    ]
    tables = [
        Table("A batch of all clusters", rows),
        Table(f"A day of batches, a file of {DAY_FILE_SECONDS} s each", held),
    ]
    return Result("fleet", "A fleet that is followed", about, tables, bars)


def _second_run(folder: Path, clusters: int) -> tuple[float, int]:
    """Seconds and commits of the second of two runs of the program."""
    landing, root = folder / "landing", folder / "root"
    command = [sys.executable, "-m", "jobs.main", "follow", "--once", "--root", str(root), "--landing", str(landing)]
    taken, before = 0.0, 0
    for name, raw in _files(2):
        _put(landing, clusters, name, raw)
        before, started = _commits(root), time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken = time.perf_counter() - started
    return taken, _commits(root) - before


def _warm_batch(folder: Path, clusters: int) -> tuple[float, int]:
    """Seconds and commits of the third batch of a session, with all of the lateness to replay."""
    landing, root = folder / "landing", folder / "root"
    spark = spark_session("benchmark", master="local[2]")
    request = Request(root=str(root), landing=str(landing), once=True)
    taken, before = 0.0, 0
    files = [*_files(TAIL + 2)]
    for new in (files[:TAIL], files[TAIL:-1], files[-1:]):
        for name, raw in new:
            _put(landing, clusters, name, raw)
        before, started = _commits(root), time.perf_counter()
        Follower(spark, request, lambda batch: None).run(threading.Event())
        taken = time.perf_counter() - started
    return taken, _commits(root) - before


def _day(folder: Path, batches: int) -> tuple[list[int], list[float]]:
    """Bytes that the driver holds after each batch of one cluster, and the seconds from its file to its end."""
    files, stop = _files(batches, DAY_FILE_SECONDS), threading.Event()
    memory, seconds, put = list[int](), list[float](), list[float]()

    def put_next(done: object = None) -> None:
        if done is not None:
            seconds.append(time.perf_counter() - put[-1])
            memory.append(memory_bytes("VmRSS"))
        file = next(files, None)
        if file is None:
            stop.set()
            return
        _put(folder / "landing", 1, *file)
        put.append(time.perf_counter())

    put_next()
    request = Request(root=str(folder / "root"), landing=str(folder / "landing"), every=timedelta(seconds=0.1))
    Follower(spark_session("benchmark", master="local[2]"), request, put_next).run(stop)
    return memory, seconds


def _commits(root: Path) -> int:
    return len(list(root.glob("*/*/_delta_log/*.json")))


def _put(landing: Path, clusters: int, name: str, raw: bytes) -> None:
    for number in range(clusters):
        place = landing / f"cluster-{number:03d}" / "host" / "bus" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(raw)


def _files(count: int, seconds: int = SECONDS) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each file of one cluster; packets after the last one are dropped."""
    messages, file_ns = MESSAGES_A_SECOND * seconds * count, seconds * _SECOND
    packets = NODES * (NODES - 1) * 3 + 2 * messages
    step_ns = file_ns * count // packets
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    packed = bus_packets(messages, NODES, file_ns * count // messages)
    timed = zip(itertools.count(START_NS, step_ns), packed, strict=False)
    for at, part in itertools.groupby(timed, lambda packet: (packet[0] - START_NS) // file_ns):
        if at == count:
            return
        records = (struct.pack("<IIII", *divmod(at_ns, _SECOND), len(raw), len(raw)) + raw for at_ns, raw in part)
        from_ns = START_NS + at * file_ns
        name = RecordedFile("", from_ns, from_ns + file_ns, "pcap").name
        yield name, gzip.compress(head + b"".join(records), 1)
