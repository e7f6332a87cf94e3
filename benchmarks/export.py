"""Writing the values of a dump, against other tools that do, and in two threads."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import cluster_dump, redis_dump
from benchmarks.measure import RunError, run_json
from benchmarks.old_dump import cut_version_9
from benchmarks.options import Options
from benchmarks.peers import find_peers, rdbtools
from benchmarks.rdb import Contestant, figures_of, programs_side_by_side, take_turns
from benchmarks.result import Bar, Result, Table

NAME = "export"
HDT = "SLOTSCOPE_HDT"
"""Environment variable with the path of HDT3213/rdb's program where it cannot be installed."""
OLD_KEYS = 400_000
TIMES_HDT, TIMES_RDBTOOLS, TIMES_TWO_THREADS = 3, 10, 1.8


def run(options: Options) -> Result:
    """Write a dump as JSON and as commands, one core; a cluster dump with one thread and with two."""
    rounds, scale = (1, 0.05) if options.quick else (3, 1.0)
    found = Result(
        NAME,
        "Writing the values of a dump",
        f"CPU seconds are user and system time of the whole program from start to end, compiled code at hand, the least of {rounds} rounds in which"
        " all take turns; the page cache is warm. The others check no CRC, so neither do we.",
        tables=[],
    )
    with tempfile.TemporaryDirectory(prefix="slotscope-export-") as name:
        folder = Path(name)
        dump = options.redis_dump or redis_dump(scale)
        if dump is None:
            found.skipped.append("the Redis dump: redis-server is not installed")
        else:
            _beside_hdt(found, dump, folder, rounds)
            _beside_rdbtools(found, dump, folder)
        cluster = options.cluster_dump or cluster_dump(scale)
        if cluster is None:
            found.skipped.append("the cluster dump: no valkey-server is installed")
        for title, one in (("cluster dump, cut by slots", cluster), ("dump without slot info, cut by a guess", dump)):
            if one is not None:
                _two_threads(found, title, one, folder, rounds)
    return found


def _export(dump: Path, style: str, folder: Path, threads: int = 1) -> Contestant:
    words = [
        "--rdb",
        dump,
        "--to",
        style,
        "--out",
        folder / f"ours-{threads}",
        "--no-crc",
        "--parallelism",
        str(threads),
    ]

    def once() -> dict[str, Any]:
        return figures_of([sys.executable, "-m", "jobs.export", *map(str, words)], "")

    return Contestant(f"slotscope export --to {style}, {threads} at once", style, once)


def _hdt_program() -> str:
    """The path of HDT3213/rdb's program; RunError where it is not here and does not install."""
    given = os.environ.get(HDT)
    if given:
        return given
    peers, missing = find_peers()
    found = [peer.command[0] for peer in peers if peer.name.startswith("HDT3213")]
    if not found:
        raise RunError("; ".join(line for line in missing if line.startswith("HDT3213")))
    return found[0]


def _beside_hdt(found: Result, dump: Path, folder: Path, rounds: int) -> None:
    ours = {style: _export(dump, style, folder) for style in ("json", "resp")}
    others: dict[str, Contestant] = {}
    try:
        program = _hdt_program()
        for style, word in (("json", "json"), ("resp", "aof")):
            command = ["env", "GOMAXPROCS=1", program, "-c", word, "-o", str(folder / "hdt"), str(dump)]
            others[style] = Contestant(f"HDT3213/rdb -c {word}", style, partial(figures_of, command, ""))
    except RunError as error:
        found.skipped.append(str(error))
    contestants = [*ours.values(), *others.values()]
    take_turns(contestants, rounds)
    found.tables.append(
        Table("One core, dump of redis-server", programs_side_by_side(contestants, dump.stat().st_size))
    )
    for style, one in ours.items():
        other = others.get(style)
        known = other is not None and other.best and one.best
        times = other.best["cpu_s"] / one.best["cpu_s"] if known and other is not None else None
        found.bars.append(Bar(f"{style}: times HDT3213/rdb", TIMES_HDT, times, "×", at_most=False))
    found.skipped.extend(f"{one.name}: {one.failed}" for one in contestants if one.failed)


def _beside_rdbtools(found: Result, dump: Path, folder: Path) -> None:
    """rdbtools reads RDB 9 at most and takes minutes: it gets the first keys of the dump, in that version."""
    times = None
    try:
        tool = Path(rdbtools().command[0])
        old = folder / "old.rdb"
        cut_version_9(dump, old, OLD_KEYS)
        empty = folder / "empty.rdb"
        cut_version_9(dump, empty, 1)
        theirs, their_start = (
            Contestant(
                "rdbtools -c json", "json", partial(figures_of, [tool, "-c", "json", "-f", folder / "tools", path], "")
            )
            for path in (old, empty)
        )
        ours, our_start = _export(old, "json", folder), _export(empty, "json", folder)
        take_turns([theirs, ours, their_start, our_start], 2)
        found.tables.append(
            Table(f"One core, {OLD_KEYS:,} keys as RDB 9", programs_side_by_side([theirs, ours], old.stat().st_size))
        )
        if theirs.best and ours.best and their_start.best and our_start.best:
            their_s = theirs.best["cpu_s"] - their_start.best["cpu_s"]
            times = their_s / max(ours.best["cpu_s"] - our_start.best["cpu_s"], 1e-3)
    except RunError as error:
        found.skipped.append(str(error))
    found.bars.append(
        Bar("json: times rdbtools, the start of both programs apart", TIMES_RDBTOOLS, times, "×", at_most=False)
    )


def _two_threads(found: Result, title: str, dump: Path, folder: Path, rounds: int) -> None:
    contestants = [_export(dump, "json", folder, threads) for threads in (1, 2)]
    take_turns(contestants, rounds)
    found.tables.append(Table(title[0].upper() + title[1:], programs_side_by_side(contestants, dump.stat().st_size)))
    halves = [
        Contestant(title, "json", partial(run_json, "benchmarks.export_halves", dump, str(ranges), folder))
        for ranges in (1, 2)
    ]
    take_turns(halves, rounds)
    for clock, figure, pair in (
        ("wall time of the whole program", "wall_s", contestants),
        ("CPU time of the longer half, of finding the cut and of comparing keys", "critical_cpu_s", halves),
    ):
        one, two = (contestant.best.get(figure) for contestant in pair)
        times = one / two if one and two else None
        found.bars.append(
            Bar(f"{title}: two at once, times one, {clock}", TIMES_TWO_THREADS, times, "×", at_most=False)
        )
