"""Reading a dump.

Ours with and without its checksum, other tools, a C loop and the machine's own limit, in turns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import DATA, cluster_dump, redis_dump
from benchmarks.measure import RunError, run_json, run_program
from benchmarks.native_code import compile_program
from benchmarks.old_dump import cut_version_9
from benchmarks.options import Options
from benchmarks.peers import Peer, find_peers, rdbtools
from benchmarks.result import Bar, Cell, Result, Table

NAME = "rdb"
PEER_TURNS = 3
FULL_KEYS = 2_000_000
"""The promises about seconds are about a dump of this size; smaller ones are not judged by them."""
OLD_KEYS = 50_000


@dataclass(slots=True)
class Contestant:
    """One reader of a dump and the least figures of its rounds; *failed* says why it has none."""

    name: str
    does: str
    run: Callable[[], dict[str, Any]]
    turns_max: int = 100
    """Takes part in so many rounds only: other programs take seconds."""
    best: dict[str, float] = field(default_factory=dict)
    failed: str = ""

    def take_turn(self) -> None:
        """Run once and keep the least of each figure."""
        if self.failed:
            return
        try:
            figures = self.run()
        except RunError as error:
            self.failed = str(error)
            return
        for name, value in figures.items():
            self.best[name] = min(value, self.best.get(name, value))


def run(options: Options) -> Result:
    """Measure every reader on a Redis dump and on a cluster dump of Valkey."""
    scale = 0.05 if options.quick else 1.0
    rounds = 2 if options.quick else 6
    result = Result(
        NAME,
        "Reading RDB dumps",
        "Key, slot, type, encoding, elements, size and expiry of every key. CPU seconds are user and system time of "
        f"one process, the least of {rounds} rounds ({min(rounds, PEER_TURNS)} for other tools) in which the readers "
        "take turns; the page cache is warm. Ours is timed over its read loop in a fresh process, machine code loaded; "
        "other programs from start to end (a few milliseconds).",
        tables=[],
    )
    peers, missing = find_peers()
    result.skipped.extend(missing)
    dump = options.redis_dump or redis_dump(scale)
    cluster = options.cluster_dump or cluster_dump(scale)
    if dump is None:
        result.skipped.append("the Redis dump: redis-server is not installed")
    else:
        _measure_redis_dump(result, dump, peers, rounds)
    if cluster is None:
        result.skipped.append("the cluster dump: no valkey-server is installed")
    else:
        _measure_cluster_dump(result, cluster, peers, rounds)
    return result


def _measure_redis_dump(result: Result, dump: Path, peers: list[Peer], rounds: int) -> None:
    ours = _ours("slotscope", "every key, all columns", dump)
    checked = _ours("slotscope, CRC checked", "every key, all columns, CRC", dump, "--crc")
    two = _ours("slotscope, two threads", "every key, all columns", dump, "--threads", "2")
    two_checked = _ours(
        "slotscope, two threads, CRC computed", "every key, all columns, CRC", dump, "--threads", "2", "--crc"
    )
    contestants = [ours, two, checked, two_checked, *_limits(dump), *_others(peers, dump)]
    take_turns(contestants, rounds)
    keys = int(ours.best.get("keys", 0))
    contestants.append(_measure_rdbtools(result, dump, keys))
    note = (
        f"`{dump.name}`: {dump.stat().st_size / 1e6:.1f} MB, {keys:,} keys. It holds no slot info: two threads read the halves before and "
        "after a guess of where a key begins, which holds if the first half ends there. Finding the guess is part of the time."
    )
    result.tables.append(Table("One core, dump of redis-server", _rows(contestants, ours, dump, keys), note))
    _note_failures(result, contestants, dump)
    memory = [reader.best.get("above_interpreter_bytes") for reader in (ours, checked)]
    if keys >= FULL_KEYS:
        result.bars.append(
            Bar("2.1 million keys, 474 MB, without the CRC, one core", 0.8, ours.best.get("cpu_s"), "CPU s")
        )
        result.bars.append(Bar("the same with the CRC", 1.5, checked.best.get("cpu_s"), "CPU s"))
    result.bars.append(
        Bar("memory above the interpreter", 150, max(filter(None, memory), default=0) / 1e6 or None, "MB")
    )
    result.bars.append(_fastest_peer_bar(ours, contestants))
    _judge_two(result, "dump without slot info", 1.7, (ours, two), (checked, two_checked))


def _measure_cluster_dump(result: Result, dump: Path, peers: list[Peer], rounds: int) -> None:
    ours = _ours("slotscope", "every key, all columns", dump)
    checked = _ours("slotscope, CRC checked", "every key, all columns, CRC", dump, "--crc")
    two = _ours("slotscope, two threads", "every key, all columns", dump, "--threads", "2")
    two_checked = _ours(
        "slotscope, two threads, CRC computed", "every key, all columns, CRC", dump, "--threads", "2", "--crc"
    )
    contestants = [ours, two, checked, two_checked, *_limits(dump), *_others(peers, dump)]
    take_turns(contestants, rounds)
    keys = int(ours.best.get("keys", 0))
    note = (
        f"`{dump.name}`: {dump.stat().st_size / 1e6:.1f} MB, {keys:,} keys; the file names the slot of the keys that "
        "follow, so it is cut at a slot boundary and both halves are read at once. Finding the cut is part of the time."
    )
    result.tables.append(Table("Cluster dump of a Valkey node", _rows(contestants, ours, dump, keys), note))
    _note_failures(result, contestants, dump)
    _judge_two(result, "cluster dump", 1.8, (ours, two), (checked, two_checked))


def _judge_two(result: Result, dump: str, times: float, *pairs: tuple[Contestant, Contestant]) -> None:
    """Compare two threads with one, without and with the CRC of each half computed."""
    for what, (single, both) in zip(
        (f"two cores against one, {dump}", "the same with the CRC of each half computed"), pairs, strict=True
    ):
        split = bool(single.best) and both.best.get("ranges") == 2
        for clock, figure in (
            ("wall time", "wall_s"),
            ("CPU time of the longer half, and of finding the cut", "critical_cpu_s"),
        ):
            ratio = single.best[figure] / both.best[figure] if split else None
            result.bars.append(Bar(f"{what}, {clock}", times, ratio, "×", at_most=False))


def _ours(name: str, does: str, dump: Path, *flags: str) -> Contestant:
    return Contestant(name, does, partial(run_json, "benchmarks.skim", dump, *flags))


def _limits(dump: Path) -> list[Contestant]:
    limits = []
    for program, name, does in (
        ("rdb_walk", "C loop, mapped file", "totals only, nothing checked, no CRC"),
        ("touch", "read and touch every byte", "nothing: the machine's limit"),
    ):
        path = compile_program(program)
        if path is not None:
            limits.append(Contestant(name, does, partial(figures_of, [path, dump], "")))
    return limits


def _others(peers: list[Peer], dump: Path) -> list[Contestant]:
    return [
        Contestant(
            peer.name,
            peer.does,
            partial(figures_of, [*peer.command, dump, *peer.after], peer.refuses),
            turns_max=PEER_TURNS,
        )
        for peer in peers
    ]


def figures_of(command: list[str | Path], refuses: str) -> dict[str, Any]:
    """Run *command* once; raises RunError when it fails, or prints the words *refuses*."""
    timing = run_program(command, 1, accept=lambda answer: not refuses or refuses not in answer)
    return {"cpu_s": timing.cpu_s, "wall_s": timing.wall_s, "peak_bytes": timing.peak_bytes}


def take_turns(contestants: list[Contestant], rounds: int) -> None:
    """Let all run, one after the other, *rounds* times."""
    for number in range(rounds):
        for contestant in contestants:
            if number < contestant.turns_max:
                contestant.take_turn()


def _measure_rdbtools(result: Result, dump: Path, keys: int) -> Contestant:
    """Time rdbtools, which ends at version 9 and takes minutes, on a sample and take that to all keys."""
    contestant = Contestant("rdbtools", "each key's type, size, expiry", dict)
    try:
        peer = rdbtools()
        sample = DATA / "version-9.rdb"
        DATA.mkdir(parents=True, exist_ok=True)
        taken = cut_version_9(dump, sample, OLD_KEYS)
        contestant.name = f"{peer.name} (RDB 9 only: {taken:,} keys, nearly all strings, scaled)"
        contestant.best = figures_of([*peer.command, sample], "") | {"scale": keys / max(taken, 1)}
    except RunError as error:
        contestant.failed = str(error)
    return contestant


def programs_side_by_side(contestants: list[Contestant], size: int) -> list[dict[str, Cell]]:
    """What whole programs take that read a dump of *size* bytes."""
    return [
        {
            "program": contestant.name,
            "makes": contestant.does,
            "CPU s": contestant.best["cpu_s"],
            "wall s": contestant.best["wall_s"],
            "MB/s of dump": size / max(contestant.best["cpu_s"], 1e-3) / 1e6,
            "memory MB": contestant.best["peak_bytes"] / 1e6,
        }
        for contestant in contestants
        if contestant.best
    ]


def _rows(contestants: list[Contestant], ours: Contestant, dump: Path, keys: int) -> list[dict[str, Cell]]:
    size = dump.stat().st_size
    rows: list[dict[str, Cell]] = []
    for contestant in sorted(contestants, key=lambda peer: peer.best.get("cpu_s", 0) * peer.best.get("scale", 1)):
        best = contestant.best
        if not best:
            continue
        scale = best.get("scale", 1.0)
        cpu = max(best["cpu_s"] * scale, 1e-3)
        memory = best.get("peak_bytes", best.get("above_interpreter_bytes"))
        rows.append(
            {
                "reader": contestant.name,
                "reports": contestant.does,
                "CPU s": cpu,
                "wall s": best["wall_s"] * scale,
                "million keys/s": keys / cpu / 1e6,
                "MB/s": size / cpu / 1e6,
                "memory MB": memory / 1e6 if memory is not None else None,
                "× ours": cpu / ours.best["cpu_s"] if ours.best else None,
            }
        )
    return rows


def _note_failures(result: Result, contestants: list[Contestant], dump: Path) -> None:
    result.skipped.extend(
        f"{contestant.name} on `{dump.name}`: cannot read it ({contestant.failed.replace(str(dump), dump.name)})"
        for contestant in contestants
        if contestant.failed
    )


def _fastest_peer_bar(ours: Contestant, contestants: list[Contestant]) -> Bar:
    """Compare with the fastest other tool that reads the whole dump, whatever it reports."""
    peer_times = [
        contestant
        for contestant in contestants
        if contestant.best and not contestant.name.startswith(("slotscope", "C loop", "read and"))
    ]
    fastest = min(peer_times, key=lambda peer: peer.best["cpu_s"] * peer.best.get("scale", 1), default=None)
    if fastest is None or not ours.best:
        return Bar("against the fastest other tool", 1.0, None, "×", at_most=False)
    return Bar(
        f"against the fastest other tool ({fastest.name})",
        1.0,
        fastest.best["cpu_s"] / ours.best["cpu_s"],
        "×",
        at_most=False,
    )
