"""Compare estimated sizes with sizes reported by a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cluster_core.memory.model import ESTIMATES, MemorySettings
from tests.benches.servers import Server
from tests.builders.memory_workload import commands
from tests.builders.rdb_rows import Row, skim_all

KEY, SLOT, TYPE, ENCODING, MEMORY, ESTIMATE = 1, 2, 4, 5, 12, 13


class Errors(NamedTuple):
    """Of estimates: the total's, and of the absolute relative errors of single keys the median, p90 and the largest."""

    total: float
    median: float
    p90: float
    largest: float


def errors_of(estimated: Iterable[tuple[int, int]]) -> Errors:
    pairs = list(estimated)
    apart = sorted(abs(size - true) / true for size, true in pairs)
    total = sum(size for size, _ in pairs) / sum(true for _, true in pairs) - 1
    return Errors(abs(total), apart[len(apart) // 2], apart[len(apart) * 9 // 10], apart[-1])


def measured(
    dump: bytes,
    settings: MemorySettings,
) -> list[Row]:
    """Return the rows of a dump with their sizes in memory."""
    rows, _, error = skim_all(dump, memory=settings)
    assert error is None
    assert all(ESTIMATES[row[ESTIMATE]] == "model" for row in rows)
    return rows


def slot_p99(rows: Iterable[Row], truth: Mapping[bytes, int]) -> float:
    """Return the 99th percentile of the errors of the sums of slots."""
    sums: dict[int, tuple[int, int]] = {}
    for row in rows:
        size, true = sums.get(row[SLOT], (0, 0))
        sums[row[SLOT]] = size + row[MEMORY], true + truth[row[KEY]]
    apart = sorted(abs(size - true) / true for size, true in sums.values())
    return apart[len(apart) * 99 // 100]


def fill(server: Server, *, fields_expire: bool, reload: bool = False) -> tuple[bytes, dict[bytes, int]]:
    """Fill a server with the workload, and let it *reload* its keys; return its dump and MEMORY USAGE of every key."""
    server.ask(list(commands(fields_expire=fields_expire)))
    if reload:
        server.call("DEBUG", "RELOAD")
    keys = server.call("KEYS", "*")
    truth = dict(zip(keys, server.ask([("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys]), strict=True))
    server.call("SAVE")
    return (server.directory / "dump.rdb").read_bytes(), truth
