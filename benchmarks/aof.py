"""Reading an append-only log.

Ours with all statistics, the walk alone and the replay; the servers' check tools, a C loop and the machine's own
limit, in turns.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import command_log, valkey_server
from benchmarks.measure import run_json
from benchmarks.native_code import compile_program
from benchmarks.options import Options
from benchmarks.peers import PEERS
from benchmarks.rdb import Contestant, figures_of, take_turns
from benchmarks.result import Bar, Cell, Result, Table

NAME = "aof"
PEER_TURNS = 3
REPLAY_BYTES = 96 << 20


def run(options: Options) -> Result:
    """Measure every reader on one log of commands."""
    rounds = 2 if options.quick else 5
    log = command_log(0.05 if options.quick else 1.0)
    size = log.stat().st_size
    ours = Contestant(
        "slotscope, all statistics",
        "writes and bytes per slot, command, minute; keys and prefixes written most",
        partial(run_json, "benchmarks.aof_walk", log),
    )
    walk = Contestant(
        "slotscope, walk alone",
        "every command and key, slots, as columns",
        partial(run_json, "benchmarks.aof_walk", log, "--only-walk"),
    )
    parts = [
        _part("slotscope, replay", "type, count, expiry of every living key", log, "--replay", REPLAY_BYTES),
    ]
    peers, skipped = _peers(log)
    contestants = [ours, walk, *parts, *_limits(log), *peers]
    take_turns(contestants, rounds)
    for part in parts:
        if part.best:
            part.best["scale"] = size / part.best["bytes"]
            part.name += f" (first {part.best['bytes'] / 1e6:,.0f} MB, scaled)"
    commands = int(ours.best.get("commands", 0))
    table = Table(
        "One core, a log of commands",
        _rows(contestants, ours, size),
        f"`{log.name}`: {size / 1e6:.1f} MB, {commands:,} commands; the load of the dump benchmarks as it was sent.",
    )
    return Result(
        NAME,
        "Reading append-only logs",
        "CPU seconds are user and system time of one process, the least of "
        f"{rounds} rounds ({min(rounds, PEER_TURNS)} for other tools) in which the readers take turns; the page cache is warm. "
        "Ours is timed over its read loop in a fresh process, machine code loaded; other programs from start to end.",
        tables=[table],
        bars=_bars(ours, walk, peers, size),
        skipped=[
            *skipped,
            *(f"{contestant.name}: {contestant.failed}" for contestant in contestants if contestant.failed),
        ],
    )


def _part(name: str, does: str, log: Path, flag: str, bytes_max: int) -> Contestant:
    command = partial(run_json, "benchmarks.aof_walk", log, flag, "--bytes-max", str(bytes_max))
    return Contestant(name, does, command, turns_max=1)


def _limits(log: Path) -> list[Contestant]:
    contestants = []
    for program, name, does in (
        ("aof_walk", "C loop, mapped file", "slot and bytes of each command's first word, nothing checked"),
        ("touch", "read and touch every byte", "nothing: the machine's limit"),
    ):
        path = compile_program(program)
        if path is not None:
            contestants.append(Contestant(name, does, partial(figures_of, [path, log], "")))
    return contestants


def _peers(log: Path) -> tuple[list[Contestant], list[str]]:
    """The servers' own check tools, and one line for each that is not here."""
    contestants, missing = [], []
    for name, find in (("redis-check-aof", _redis_check), ("valkey-check-aof", _valkey_check)):
        program = find()
        if program is None:
            missing.append(f"{name}: is not installed")
        else:
            run_once = partial(figures_of, [program, log], "not valid")
            contestants.append(Contestant(name, "valid or not, no statistics", run_once, turns_max=PEER_TURNS))
    return contestants, missing


def _redis_check() -> str | None:
    return shutil.which("redis-check-aof")


def _valkey_check() -> str | None:
    """``valkey-check-aof``: the server's own program under the name that makes it check."""
    program = shutil.which("valkey-check-aof")
    server = valkey_server()
    if program or server is None:
        return program
    PEERS.mkdir(parents=True, exist_ok=True)
    link = PEERS / "valkey-check-aof"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(server).resolve())
    return str(link)


def _rows(contestants: list[Contestant], ours: Contestant, size: int) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    for contestant in sorted(
        contestants, key=lambda contestant: contestant.best.get("cpu_s", 0) * contestant.best.get("scale", 1)
    ):
        best: dict[str, Any] = contestant.best
        if not best:
            continue
        cpu = max(best["cpu_s"] * best.get("scale", 1.0), 1e-3)
        memory = best.get("peak_bytes", best.get("above_interpreter_bytes"))
        rows.append(
            {
                "reader": contestant.name,
                "reports": contestant.does,
                "CPU s": cpu,
                "wall s": best["wall_s"] * best.get("scale", 1.0),
                "MB/s": size / cpu / 1e6,
                "memory MB": memory / 1e6 if memory is not None else None,
                "× ours": cpu / ours.best["cpu_s"] if ours.best else None,
            }
        )
    return rows


def _bars(ours: Contestant, walk: Contestant, peers: list[Contestant], size: int) -> list[Bar]:
    def rate(contestant: Contestant) -> float | None:
        return size / contestant.best["cpu_s"] / 1e6 if contestant.best else None

    bars = [Bar("log of commands, all statistics, one core", 150, rate(ours), "MB/s", at_most=False)]
    bars.append(
        Bar(
            "log of commands, memory above the interpreter",
            150,
            ours.best.get("above_interpreter_bytes", 0) / 1e6 or None,
            "MB",
        )
    )
    for peer in peers:
        against = peer.best["cpu_s"] / ours.best["cpu_s"] if peer.best and ours.best else None
        bars.append(Bar(f"with statistics, against {peer.name} without any", 1.0, against, "×", at_most=False))
    return bars
