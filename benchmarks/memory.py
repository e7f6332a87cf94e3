"""Sizes in memory from a dump: how near they are to the live server's own, and what they cost the skim."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import measured_dump, redis_server, valkey_server
from benchmarks.measure import run_json
from benchmarks.options import Options
from benchmarks.rdb import Contestant, take_turns
from benchmarks.result import Bar, Cell, Result, Table
from cluster_core.memory.model import UNMEASURED, MemorySettings
from cluster_core.rdb.grammar import KEY_TYPES
from cluster_core.rdb.skim import RdbSkimmer

NAME = "memory"
SLOWER_MAX = 1.25
FULL_SCALE = 0.25
"""The promises about slots and about time are judged at this scale only: a slot holds 32 keys, the skim takes a tenth of a second."""


def run(options: Options) -> Result:
    """Measure the model on a dump of each server that is installed."""
    scale, rounds = (0.02, 3) if options.quick else (FULL_SCALE, 8)
    result = Result(
        NAME,
        "Sizes in memory",
        "MEMORY USAGE with SAMPLES 0 of every key on the live server, and the model's size of the same key from the dump that the "
        "server then saved. Errors of single keys and of slots are absolute and relative.",
        tables=[],
    )
    for name, program in (("redis", redis_server()), ("valkey", valkey_server())):
        if program is None:
            result.skipped.append(f"{name}: no {name}-server is installed")
            continue
        dump, truth = measured_dump(program, name, scale)
        _add_errors(result, name, dump, truth)
        _add_cost(result, name, dump, rounds)
    if options.quick:
        result.bars[:] = [bar for bar in result.bars if "slots" not in bar.promise and "skim" not in bar.promise]
    return result


def _add_errors(result: Result, name: str, dump: Path, truth: Path) -> None:
    keys, server = _sizes(dump, truth)
    types, slots, estimated, true, unmeasured = (keys[column] for column in range(5))
    groups = [("all", np.ones(len(true), bool)), *((word, types == code) for code, word in enumerate(KEY_TYPES))]
    rows: list[dict[str, Cell]] = []
    for word, chosen in groups:
        if chosen.any():
            rows.append({"keys of type": word, **_errors(estimated[chosen], true[chosen])})
    result.tables.append(
        Table(
            f"Errors, {server}",
            rows,
            f"`{dump.name}`: {len(true):,} keys, {int(unmeasured.sum()):,} of unknown layout.",
        )
    )
    by_slot = [np.bincount(slots, weights, 16384) for weights in (estimated, true)]
    used = by_slot[1] > 0
    slot_p99 = float(np.quantile(np.abs(by_slot[0][used] / by_slot[1][used] - 1), 0.99))
    stream = next((row for row in rows if row["keys of type"] == "stream"), None)
    for promise, limit, measured in (
        ("total", 1.0, rows[0]["total %"]),
        ("median key", 1.0, rows[0]["median %"]),
        ("p90 of keys", 5.0, rows[0]["p90 %"]),
        ("streams, total", 5.0, stream["total %"] if stream else None),
        ("p99 of slots", 5.0, 100 * slot_p99),
    ):
        figure = None if measured is None else abs(float(measured))
        result.bars.append(Bar(f"{name}: error of the {promise}", limit, figure, "%"))


def _errors(estimated: NDArray[np.int64], true: NDArray[np.int64]) -> dict[str, Cell]:
    apart = np.abs(estimated - true) / true
    return {
        "keys": len(true),
        "true MB": float(true.sum()) / 1e6,
        "total %": 100 * (float(estimated.sum()) / float(true.sum()) - 1),
        "median %": 100 * float(np.median(apart)),
        "p90 %": 100 * float(np.quantile(apart, 0.9)),
        "p99 %": 100 * float(np.quantile(apart, 0.99)),
    }


def _sizes(dump: Path, truth: Path) -> tuple[NDArray[np.int64], str]:
    """Return int64[5, keys] of type, slot, estimated and true size, and whether nothing is known of the layout."""
    sizes: dict[bytes, int] = {}
    for line in truth.read_bytes().splitlines():
        key, size = line.split(b"\t")
        sizes[bytes.fromhex(key.decode())] = int(size)
    skimmer = RdbSkimmer(str(dump), memory=MemorySettings())
    rows = []
    with open(dump, "rb", buffering=0) as stream:
        while not skimmer.done:
            skimmer.filled(stream.readinto(skimmer.room()))
            for batch in skimmer.batches():
                assert batch.memory_bytes is not None
                true = [sizes[batch.key(index)] for index in range(len(batch))]
                rows.append(
                    np.stack([batch.type, batch.slot, batch.memory_bytes, true, batch.memory_bytes == UNMEASURED])
                )
    return np.concatenate(rows, axis=1).astype(np.int64), skimmer.head.server


def _add_cost(result: Result, name: str, dump: Path, rounds: int) -> None:
    contestants = [
        Contestant(f"skim{crc}{memory}", "", partial(run_json, "benchmarks.skim", dump, *crc.split(), *memory.split()))
        for crc in ("", " --crc")
        for memory in ("", " --memory")
    ]
    take_turns(contestants, rounds)
    rows: list[dict[str, Cell]] = [
        {"skim": contestant.name, "CPU s": contestant.best.get("cpu_s"), "wall s": contestant.best.get("wall_s")}
        for contestant in contestants
    ]
    result.tables.append(Table(f"What the model costs, dump of {name}", rows))
    for without, with_model, what in ((0, 1, "without the CRC"), (2, 3, "with the CRC")):
        costs = [contestants[place].best.get("cpu_s") for place in (without, with_model)]
        ratio = costs[1] / costs[0] if costs[0] and costs[1] else None
        result.bars.append(Bar(f"{name}: skim with the model against without, {what}", SLOWER_MAX, ratio, "×"))
