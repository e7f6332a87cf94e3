"""A day of server logs of a hundred nodes: how long until its history?

Lines that say nothing of the cluster are made, at loglevel verbose; every shard's replica is promoted and falls back once a day, as in a
rolling restart, so that there is a history to find.  The reader alone is compared with `wc -l` over the same bytes.
"""

from __future__ import annotations

import gzip
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import tree_cpu_seconds
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from jobs import history as history_job
from jobs.history import Request
from slotscope.runtime.spark.session import spark_session
from slotscope.sources.bus.polls_and_logs import PollsAndLogs, read_polls_and_logs

NODES, LINES_PER_NODE = 100, 50_000
DAY_S = 86_400
BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
NOISE = (
    "DB 0: {} keys (0 volatile) in 8192 slots HT.",
    "{} clients connected (1 replicas), 1234567 bytes in use",
    "Accepted 10.0.0.1:{}",
    "Client closed connection id={} addr=10.0.0.1:5 laddr=10.0.0.2:7000 fd=9 name= age=0 idle=0",
    "Background saving terminated with success, {} bytes",
)
WRAPPERS = {
    "plain, gzip": "{}",
    "kubectl logs --prefix --timestamps, gzip": "[pod/redis-0/redis] 2026-11-21T10:11:13.000000001Z {}",
}


class Measured(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float


def run(options: Options) -> Result:
    """Make the logs, read them, and make their history."""
    nodes, lines = (10, 2000) if options.quick else (NODES, LINES_PER_NODE)
    folder = Path(tempfile.mkdtemp(prefix="logs-"))
    try:
        return _measured(folder, nodes, lines)
    finally:
        shutil.rmtree(folder)


def _measured(folder: Path, nodes: int, lines: int) -> Result:
    count = nodes * lines
    rows: list[dict[str, Cell]] = []
    for name, wrapper in WRAPPERS.items():
        paths = [str(_write(folder / name.partition(",")[0], node, nodes, lines, wrapper)) for node in range(nodes)]
        read = _timed(lambda paths=paths: read_polls_and_logs(PollsAndLogs(logs=tuple(paths)), permissive=False))
        rows.append(_row(f"read: {name}", count, read))
    newlines = _timed(lambda: [gzip.decompress(Path(path).read_bytes()).count(b"\n") for path in paths])
    rows.append(_row("decompress and count lines", count, newlines))
    spark = spark_session("benchmark", master="local[2]")
    root = str(folder / "root")
    story = _timed(
        lambda: history_job.run(spark, Request(root=root, snapshot="day", log=(str(folder / "plain" / "*"),)))
    )
    rows.append(_row("history: plain, gzip", count, story))
    return Result(
        "logs",
        "A day of server logs",
        f"{nodes} nodes, {count:,} lines at loglevel verbose, a failover in every shard, on two cores.",
        [Table("Lines to history", rows)],
        [
            Bar("history of 5 million lines", 60, story.wall_s if count == NODES * LINES_PER_NODE else None, "s"),
            Bar("reading lines, of decompressing them", 10, float(rows[0]["CPU s"] or 0) / newlines.cpu_s, "×"),
        ],
    )  # fmt: skip


def _row(what: str, lines: int, taken: Measured) -> dict[str, Cell]:
    return {"what": what, "s": taken.wall_s, "CPU s": taken.cpu_s, "CPU µs a line": 1e6 * taken.cpu_s / lines}


def _timed(what: Callable[[], object]) -> Measured:
    wall, cpu = time.perf_counter(), tree_cpu_seconds()
    what()
    return Measured(time.perf_counter() - wall, tree_cpu_seconds() - cpu)


def _write(folder: Path, node: int, nodes: int, lines: int, wrapper: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{7000 + node}.log.gz"
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(wrapper.format(line) + "\n" for line in _lines(node, nodes, lines))
    return path


def _lines(node: int, nodes: int, count: int) -> Iterator[str]:
    """The log of one node: masters are even, the replica of each is the node behind it; shards fail one after another."""
    draw = random.Random(node)
    ids = [random.Random(number).randbytes(20).hex() for number in range(nodes)]
    step_s = DAY_S / count
    pid = 1000 + node
    role = "S" if node % 2 else "M"

    def line(second: float, mark: str, text: str) -> str:
        at = BEGIN + timedelta(seconds=second)
        return f"{pid}:{role} {at:%d %b %Y %H:%M:%S}.{at.microsecond // 1000:03d} {mark} {text}"

    yield line(0, "*", "Redis version=7.0.15, bits=64, commit=00000000, modified=0, pid=1, just started")
    yield line(0, "*", f"Running mode=cluster, port={7000 + node}.")
    yield line(0, "*", f"Node configuration loaded, I'm {ids[node]}")
    yield line(1, "*", "Cluster state changed: ok")
    shards = nodes // 2
    events = [event for shard in range(shards) for event in _failover(ids, node, shard, shards)]
    events.sort(reverse=True)
    for number in range(4, count):
        second = number * step_s
        while events and events[-1][0] <= second:
            at, text = events.pop()
            yield line(at, "#", text)
        yield line(second, "-", draw.choice(NOISE).format(draw.randrange(100_000)))


def _failover(ids: list[str], node: int, shard: int, shards: int) -> Iterator[tuple[float, str]]:
    """What *node* writes of the failover of a shard."""
    begin, epoch = DAY_S * (shard + 1) / (shards + 1), 1000 + shard
    old, new = 2 * shard, 2 * shard + 1
    if node == new:
        yield begin + 15.0, f"FAIL message received from {ids[(old + 2) % len(ids)]} about {ids[old]}"
        yield begin + 15.6, f"Starting a failover election for epoch {epoch}."
        yield begin + 15.7, "Failover election won: I'm the new master."
        yield begin + 15.7, f"configEpoch set to {epoch} after successful failover"
    elif node == old:
        yield begin + 40.0, "Configuration change detected. Reconfiguring myself as a replica of " + ids[new]
    elif node % 2 == 0:
        yield begin + 15.0, f"FAIL message received from {ids[(old + 2) % len(ids)]} about {ids[old]}"
        yield begin + 15.6, f"Failover auth granted to {ids[new]} for epoch {epoch}"
        yield begin + 40.0, f"Clear FAIL state for node {ids[old]}: master without slots is reachable again."
