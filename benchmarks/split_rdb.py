"""Cutting a dump into the parts of its masters, against a copy of the file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.data import cluster_dump, redis_dump
from benchmarks.options import Options
from benchmarks.rdb import Contestant, figures_of, programs_side_by_side, take_turns
from benchmarks.result import Bar, Result, Table

NAME = "split_rdb"
MASTERS = (3, 30)
SLOTS = 16384


def run(options: Options) -> Result:
    """Cut a cluster dump and a dump without slot info after topologies of few and of many masters."""
    rounds, scale = (1, 0.05) if options.quick else (3, 1.0)
    dumps = {
        "Valkey, keys ordered by slot": options.cluster_dump or cluster_dump(scale),
        "Redis 7.0, keys in no order": options.redis_dump or redis_dump(scale),
    }
    found = Result(
        NAME,
        "Cutting a dump for a plan",
        f"CPU seconds are user and system time of the whole program from start to end, the least of {rounds} rounds in which all take "
        "turns; the page cache is warm. Each dump is read twice, its CRC checked, and each part gets its own.",
        tables=[],
    )
    with tempfile.TemporaryDirectory(prefix="slotscope-split-") as folder:
        for title, dump in dumps.items():
            if dump is None:
                found.skipped.append(f"{title}: the server is not installed")
                continue
            contestants = [_split(dump, masters, Path(folder)) for masters in MASTERS]
            contestants.append(Contestant("cp", "a copy", partial(figures_of, ["cp", dump, Path(folder) / "copy"], "")))
            take_turns(contestants, rounds)
            found.tables.append(Table(title, programs_side_by_side(contestants, dump.stat().st_size)))
            best = contestants[0].best.get("cpu_s")
            rate = dump.stat().st_size / best / 1e6 if best else None
            found.bars.append(Bar(f"{title}: cut for {MASTERS[0]} masters, one core", 50, rate, "MB/s", at_most=False))
            found.skipped.extend(f"{one.name}: {one.failed}" for one in contestants if one.failed)
    return found


def _split(dump: Path, masters: int, folder: Path) -> Contestant:
    topology = folder / f"nodes-{masters}.txt"
    bounds = [SLOTS * number // masters for number in range(masters + 1)]
    topology.write_text(
        "".join(
            f"{number:040x} 127.0.0.1:{7000 + number}@{17000 + number} master - 0 0 {number} connected {low}-{high - 1}\n"
            for number, (low, high) in enumerate(pairwise(bounds))
        )
    )
    out = folder / f"parts-{masters}"
    words = ["--root", folder, "--rdb", dump, "--topology", topology, "--out", out]

    def once() -> dict[str, Any]:
        shutil.rmtree(out, ignore_errors=True)
        return figures_of([sys.executable, "-m", "jobs.split_rdb", *words], "")

    return Contestant(f"split-rdb, {masters} masters", "a dump a master, sizes, slot info, functions", once)
