"""Recorded sentinels: what was captured, logged and answered, and small pieces of evidence to build histories from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from cluster_core.sentinel.instance import Address
from cluster_core.sentinel_history.evidence import (
    COMMAND,
    PUBSUB,
    Answered,
    Evidence,
    Heard,
    Linked,
    Listened,
    Sent,
    Told,
)
from cluster_core.sentinel_history.history import SentinelHistory, fold_history
from slotscope.sources.bus.files import find_captures, survey
from slotscope.sources.resp.rows import BadRecords
from slotscope.sources.sentinel.evidence import SentinelEvidence, SentinelFiles, read_evidence

RECORDINGS = Path(__file__).parents[1] / "data" / "sentinel"
NAMES = ("redis-7.0", "valkey-9.1", "redis-7.0-no-quorum")
S_NS = 1_000_000_000
MS_NS = 1_000_000
ME, OTHER, THIRD = ("a" * 40, "b" * 40, "c" * 40)
MASTER, REPLICA, PEER = Address("10.0.0.1", 6379), Address("10.0.0.2", 6379), Address("10.0.0.12", 26379)


@cache
def evidence_of(name: str) -> SentinelEvidence:
    """Everything that a recording holds, by sentinel."""
    path = RECORDINGS / name
    logs = tuple(str(log) for log in sorted(path.glob("logs/*.log*")))
    files = SentinelFiles(
        tuple(survey(find_captures([str(path / "resp.pcap.gz")]))), logs, (str(path / "truth.jsonl.gz"),)
    )
    return read_evidence(files, BadRecords(strict=True))


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


def without_events(captured: dict[str, list[Evidence]]) -> dict[str, list[Evidence]]:
    """The same packets as if nobody had subscribed to the sentinels' events."""
    return {
        runid: [item for item in items if not isinstance(item, Told | Listened)] for runid, items in captured.items()
    }


@cache
def history_of(name: str, *, logs: bool = False) -> SentinelHistory:
    """Its capture, folded; with its logs if they are wanted."""
    found = evidence_of(name)
    return fold_history(found.captured, found.logged if logs else {})


def hello(
    runid: str = ME, *, epoch: int = 0, master: Address = MASTER, config_epoch: int = 0, ip: str = "10.0.0.11"
) -> str:
    """The text of a hello message."""
    return f"{ip},26379,{runid},{epoch},mymaster,{master.ip},{master.port},{config_epoch}"


def info(*, role: str = "master", runid: str = "1" * 40, replicas: Sequence[Address] = (), more: str = "") -> bytes:
    """A reply to INFO."""
    lines = [f"run_id:{runid}", f"role:{role}"]
    lines += [f"slave{n}:ip={one.ip},port={one.port},state=online" for n, one in enumerate(replicas)]
    return "\r\n".join([*lines, more, ""]).encode()


def link(at_ms: int, number: int, target: Address) -> list[Evidence]:
    """Both connections of a link, *number* and the next one."""
    return [
        Linked(at_ms * MS_NS, number, target, COMMAND),
        Linked(at_ms * MS_NS, number + 1, target, PUBSUB),
    ]


def ping(at_ms: int, number: int, target: Address) -> list[Evidence]:
    """A PING and its PONG."""
    return [
        Sent(at_ms * MS_NS, number, target, (b"PING",)),
        Answered(at_ms * MS_NS, number, target, (b"PING",), "simple", (b"PONG",)),
    ]


def answered_info(at_ms: int, number: int, target: Address, text: bytes) -> Answered:
    """A reply to INFO on a connection."""
    return Answered(at_ms * MS_NS, number, target, (b"INFO",), "bulk", (text,))


def own_hello(at_ms: int, number: int, text: str) -> Sent:
    """The sentinel publishes a hello message."""
    return Sent(at_ms * MS_NS, number, MASTER, (b"PUBLISH", b"__sentinel__:hello", text.encode()))


def heard(at_ms: int, text: str) -> Heard:
    """A hello message comes in."""
    return Heard(at_ms * MS_NS, text)


def watched(until_ms: int = 3000) -> list[Evidence]:
    """A sentinel that watches a master with one replica and knows another sentinel, and pings them once a second."""
    items = [*link(0, 1, MASTER), answered_info(1, 1, MASTER, info(replicas=[REPLICA]))]
    items += [*link(60, 3, REPLICA), answered_info(61, 3, REPLICA, info(role="slave", runid="2" * 40))]
    items += [own_hello(70, 1, hello()), heard(80, hello(OTHER, ip=PEER.ip))]
    items += [Linked(130 * MS_NS, 5, PEER, COMMAND)]
    for at_ms in range(200, until_ms, 1000):
        for number, target in ((1, MASTER), (3, REPLICA), (5, PEER)):
            items += ping(at_ms, number, target)
    return items


def fold(items: Sequence[Evidence], **options: int) -> SentinelHistory:
    """The history that *items* of `ME` make."""
    return fold_history({ME: sorted(items, key=lambda item: item.ts_ns)}, {}, **options)


def flags(history: SentinelHistory, name: str, at_ms: int) -> str | None:
    """The flags that `ME` shows of an instance at a time; None if it is not known then."""
    for span in history.spans:
        ends = span.to_ns is None or at_ms * MS_NS < span.to_ns
        if span.belief.name == name and span.from_ns <= at_ms * MS_NS and ends:
            return span.belief.flags
    return None
