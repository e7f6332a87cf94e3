"""What a read and a write cost in a root of few snapshots and in one of very many."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table
from schemas.gold import NODE_LOAD
from schemas.runs import FORMAT, RUNS
from slotscope.runtime.storage.delta_files import append_rows, compact, read_rows
from slotscope.runtime.storage.runs import running

NAME = "root_growth"
FEW, MANY = 20, 20_000
RUNS_REAL = 20
"""The youngest snapshots of each root are written one by one, as jobs do it, the older ones many at a time."""
AT_A_TIME = 1_000
MASTERS = 3
ROUNDS = 15


def run(options: Options) -> Result:
    """Fill two roots, then read a snapshot of and write one to each in turns."""
    many = 2_000 if options.quick else MANY
    with tempfile.TemporaryDirectory(prefix="slotscope-growth-") as folder:
        roots = {count: f"{folder}/{count}" for count in (FEW, many)}
        for count, root in roots.items():
            _fill(root, count)
        least = {(count, what): float("inf") for count in roots for what in ("read", "write")}
        for turn in range(3 if options.quick else ROUNDS):
            for count, root in roots.items():
                name = f"snapshot-{turn * 7 % FEW:05d}"
                read = _cpu_s(lambda root=root, name=name: read_rows(root, NODE_LOAD, snapshot_id=name))
                write = _cpu_s(lambda root=root, turn=turn: _write(root, f"new-{turn}"))
                for what, spent in (("read", read), ("write", write)):
                    least[count, what] = min(least[count, what], spent)
    rows: list[dict[str, Cell]] = [
        {"snapshots": count, "read, CPU ms": least[count, "read"] * 1000, "write, CPU ms": least[count, "write"] * 1000}
        for count in roots
    ]
    bars = [
        Bar(f"{what} with {many:,} snapshots against {FEW}", 1.5, least[many, what] / least[FEW, what], "×")
        for what in ("read", "write")
    ]
    about = (
        f"One snapshot of gold/node_load ({MASTERS} rows) is read and one is written as a run of a job does it, the least CPU time of {ROUNDS} rounds "
        f"in which both roots take turns, within one process. The youngest {RUNS_REAL} snapshots were written one by one, the others "
        f"{AT_A_TIME:,} a commit, as joining leaves them."
    )
    return Result(NAME, "Growth of a root", about, [Table("A root of few snapshots and one of many", rows)], bars)


def _fill(root: str, count: int) -> None:
    names = [f"snapshot-{number:05d}" for number in range(count)]
    older = names[: max(0, count - RUNS_REAL)]
    for start in range(0, len(older), AT_A_TIME):
        part = older[start : start + AT_A_TIME]
        append_rows(root, NODE_LOAD, [{**row, "snapshot_id": name, "run_id": name} for name in part for row in _rows()])
        append_rows(root, RUNS, map(_run_row, part))
    for name in names[len(older) :]:
        _write(root, name)
    if older:
        compact(root, NODE_LOAD)
        compact(root, RUNS)


def _rows() -> list[dict[str, Any]]:
    return [{"node_id": f"{number:040x}", "slots": 5461, "keys": 1000 + number} for number in range(MASTERS)]


def _run_row(name: str) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "snapshot_id": name, "run_id": name, "job": "key-slots", "state": "complete", "version": "1", "started_at": now,
        "ended_at": now, "inputs": [(f"/dumps/{name}/{number}.rdb", 1 << 30) for number in range(MASTERS)],
        "rows": [(NODE_LOAD.name, MASTERS)], "checks": [], "format": FORMAT,
    }  # fmt: skip


def _write(root: str, name: str) -> None:
    with running(root, "key-slots", name) as job:
        job.append(NODE_LOAD, _rows())


def _cpu_s(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
