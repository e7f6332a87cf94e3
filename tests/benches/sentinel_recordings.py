"""Recorded logs and answers of sentinels, and small logs for histories."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cluster_core.sentinel.instance import Address
from cluster_core.sentinel_history.evidence import Evidence, LoggedEvent
from cluster_core.sentinel_history.history import SentinelHistory, fold_history
from cluster_core.sentinel_history.rows import SentinelViewRow
from slotscope.sources.sentinel import BadRecords, SentinelEvidence, SentinelFiles, read_evidence

RECORDINGS = Path(__file__).parents[1] / "data" / "sentinel"
NAMES = ("redis-7.0", "valkey-9.1", "redis-7.0-no-quorum")
MS_NS = 1_000_000
ME, OTHER, THIRD = ("a" * 40, "b" * 40, "c" * 40)
MASTER, REPLICA, PEER = Address("10.0.0.1", 6379), Address("10.0.0.2", 6379), Address("10.0.0.12", 26379)
OF_MASTER = "master mymaster 10.0.0.1 6379"
OF_REPLICA = f"slave {REPLICA} 10.0.0.2 6379 @ mymaster 10.0.0.1 6379"
OF_PEER = f"sentinel {OTHER} 10.0.0.12 26379 @ mymaster 10.0.0.1 6379"


@cache
def evidence_of(name: str) -> SentinelEvidence:
    path = RECORDINGS / name
    logs = tuple(str(log) for log in sorted(path.glob("logs/*.log*")))
    return read_evidence(SentinelFiles(logs, (str(path / "truth.jsonl.gz"),)), BadRecords(strict=True))


def announced_in(name: str) -> dict[str, list[tuple[str, str]]]:
    """Channel and text of every event that a subscriber of a recording got, by sentinel, in order."""
    events: dict[str, list[tuple[str, str]]] = {}
    for line in gzip.decompress((RECORDINGS / name / "events.jsonl.gz").read_bytes()).splitlines():
        row = json.loads(line)
        message = row["message"]
        runid = evidence_of(name).find(str(row["port"]))
        if len(message) >= 3 and message[0] in ("pmessage", "message") and runid:
            events.setdefault(runid, []).append((str(message[-2]), str(message[-1])))
    return events


@cache
def history_of(name: str) -> SentinelHistory:
    """Its logs, folded."""
    return fold_history(evidence_of(name).logged)


def line(at_ms: int, channel: str, text: str) -> LoggedEvent:
    """An event in the log of `ME`."""
    return LoggedEvent(at_ms * MS_NS, channel, text)


def watched() -> list[Evidence]:
    """A sentinel that watches a master with one replica and knows another sentinel."""
    return [
        line(0, "+monitor", f"{OF_MASTER} quorum 2"),
        line(60, "+slave", OF_REPLICA),
        line(80, "+sentinel", OF_PEER),
    ]


def fold(items: Sequence[Evidence]) -> SentinelHistory:
    """The history that *items* of `ME` make."""
    return fold_history({ME: sorted(items, key=lambda item: item.ts_ns)})


def shown(history: SentinelHistory, at_ms: int, observer: str = ME) -> dict[str, SentinelViewRow]:
    """The masters that a sentinel shows at a time."""
    ts_ns = at_ms * MS_NS
    return {
        row.master: row
        for row in history.views
        if row.observer == observer
        and row.valid_from_ns <= ts_ns
        and (row.valid_to_ns is None or ts_ns < row.valid_to_ns)
    }
