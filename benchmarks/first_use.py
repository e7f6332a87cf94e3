"""What a person waits for in the first ten minutes: every command on the recorded data, from the shell and back."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import RunError, run_program
from benchmarks.options import Options
from benchmarks.result import Bar, Cell, Result, Table

NAME = "first_use"
DATA = Path("tests/data")
TABLE_BAR_S = 1.5
JOB_BAR_S = 8.0
_TOPOLOGY = ["--topology", str(DATA / "valkey-9.1/topology/nodes.txt")]
_BUS = DATA / "bus-redis-7.0"
JOBS: dict[str, list[str]] = {
    "key-slots": ["--snapshot", "before", "--rdb", str(DATA / "valkey-9.1/before/*.rdb"), *_TOPOLOGY],
    "key-slots, again": ["--snapshot", "after", "--rdb", str(DATA / "valkey-9.1/after/*.rdb"), *_TOPOLOGY],
    "history": ["--pcap", str(_BUS / "bus.pcap.gz"), "--log", str(_BUS / "logs/*"), "--polls", str(_BUS / "polls.jsonl.gz")],
    "simulate": ["--fault", "crash", "--seeds", "5"],
}  # fmt: skip
READERS: dict[str, list[str]] = {
    "snapshots": [],
    "compare": ["--from", "before", "--to", "after"],
    "incidents": [],
    "incident": ["1"],
    "nodes": [],
}


def run(options: Options) -> Result:
    """Run every command in a process of its own, jobs first: the others read what they wrote."""
    rounds = 1 if options.quick else 3
    rows: list[dict[str, Cell]] = []
    found = Result(
        NAME,
        "The first ten minutes",
        "Every command from the shell and back, on the recordings of `tests/data`: the least wall time of "
        f"{rounds} rounds, beside a Python that imports Arrow and delta-rs and does nothing. "
        f"{_load()}",
        tables=[Table("Commands", rows)],
    )
    nothing = run_program([sys.executable, "-c", "import pyarrow, deltalake, pyspark.sql.types"], rounds).wall_s
    with tempfile.TemporaryDirectory(prefix="slotscope-first-use-") as root:
        for commands, limit_s in ((JOBS, JOB_BAR_S), (READERS, TABLE_BAR_S)):
            for name, words in commands.items():
                try:
                    asked = [name.partition(",")[0], "--root", root, *words]
                    total = run_program([sys.executable, "-m", "jobs.main", *asked], rounds).wall_s
                except RunError as error:
                    found.skipped.append(f"{name}: {error}")
                    continue
                rows.append({"command": name, "wall s": total, "× an idle Python": total / nothing})
                found.bars.append(Bar(name, limit_s, total, "s"))
    return found


def _load() -> str:
    return f"Load of the machine when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
