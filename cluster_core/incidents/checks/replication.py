"""Findings on replication: replicas that fell far behind their master, by offsets in polls and metrics (P3)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from cluster_core.incidents.history import History
from cluster_core.incidents.incident import Finding, short
from cluster_core.kinds import FindingCode, Severity, Source

LAG_BYTES_MAX: Final = 10 << 20
"""Minimum replication lag to report, in bytes; a busy master writes this in seconds."""


class Lag(NamedTuple):
    """*replica* was at least *lag_bytes* behind *master* at *ts_ns*."""

    replica: str
    master: str
    ts_ns: int
    lag_bytes: int


def check_replication(history: History) -> list[Finding]:
    """Return the replicas that were behind by more than `LAG_BYTES_MAX`, each with its largest lag."""
    by_replica: dict[str, list[Lag]] = {}
    for node, source in history.samples:
        for one in lags(history, node, source):
            if one.lag_bytes > LAG_BYTES_MAX:
                by_replica.setdefault(node, []).append(one)
    return [_finding(found) for _, found in sorted(by_replica.items())]


def lags(history: History, node: str, source: Source) -> Iterator[Lag]:
    """Yield the lag of *node* at each sample of *source* in which it was a replica.

    The master's offset is that of its last sample before, so the true lag may be larger.  Its next sample must go on from there: a
    restarted master counts anew.
    """
    for sample in history.samples[node, source]:
        own = history.view_at(node, node, sample.ts_ns)
        if sample.role != "slave" or sample.replica_offset is None or own is None:
            continue
        masters = history.samples.get((own.master_id, source), [])
        at = bisect_right(masters, sample.ts_min_ns, key=lambda one: one.ts_ns)
        around = [one.master_offset for one in masters[max(at - 1, 0) : at + 1] if one.role == "master"]
        if at and len(around) == 2 and around[0] is not None and around[1] is not None and around[0] <= around[1]:
            yield Lag(node, own.master_id, sample.ts_ns, around[0] - sample.replica_offset)


def _finding(found: list[Lag]) -> Finding:
    most = max(found, key=lambda one: one.lag_bytes)
    text = f"replica {short(most.replica)} was at least {most.lag_bytes:,} bytes behind its master {short(most.master)}"
    times_ns = [one.ts_ns for one in found]
    return Finding(
        Severity.WARNING, FindingCode.REPLICATION_LAG, most.replica, most.master, min(times_ns), max(times_ns), len(found),
        most.lag_bytes, text,
    )  # fmt: skip
