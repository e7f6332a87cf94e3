"""Reads what a sentinel wants to know of a reply to INFO; tolerant, and bounded by what came (sentinelRefreshInstanceInfo)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cluster_core.sentinel.instance import Flag
from cluster_core.sentinel.numbers import leading_number

RUNID_CHARS: Final = 40


class InfoReport(NamedTuple):
    """What the reply said; None for what it did not say.  *role* is `MASTER`, `REPLICA` or 0."""

    role: int = 0
    runid: str | None = None
    replicas: tuple[tuple[str, int], ...] = ()
    """Address and port of each replica that a master names."""
    link_down_ms: int = 0
    master_host: str | None = None
    master_port: int | None = None
    is_master_link_up: bool | None = None
    priority: int | None = None
    offset: int | None = None
    is_announced: bool | None = None


def read_info(text: str) -> InfoReport:
    """Return what *text* says; lines that make no sense are passed over, as the server does.

    What concerns a replica counts only below the line that says that it is one.
    """
    found: dict[str, object] = {}
    replicas: list[tuple[str, int]] = []
    role = 0
    for line in text.split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon:
            continue
        if name == "run_id" and len(value) >= RUNID_CHARS:
            found["runid"] = value[:RUNID_CHARS]
        elif name == "role":
            role = Flag.MASTER if value.startswith("master") else Flag.REPLICA if value.startswith("slave") else role
        elif name == "master_link_down_since_seconds":
            found["link_down_ms"] = _bounded(value) * 1000
        elif name.startswith("slave") and name[5:6].isdigit():
            replicas += _replica(value)
        elif role == Flag.REPLICA and name in _OF_REPLICAS:
            field, read = _OF_REPLICAS[name]
            found[field] = read(value)
    return InfoReport(role=role, replicas=tuple(replicas), **found)  # type: ignore[arg-type]  # fields by their readers


def _replica(value: str) -> list[tuple[str, int]]:
    """``ip=1.2.3.4,port=6379,…``, or ``1.2.3.4,6379,online`` of old servers."""
    words = value.split(",")
    if "ip=" in value:
        fields = dict(word.partition("=")[::2] for word in words)
        return [(fields["ip"], leading_number(fields["port"]))] if {"ip", "port"} <= fields.keys() else []
    return [(words[0], leading_number(words[1]))] if len(words) > 2 else []


def _bounded(value: str) -> int:
    """Seconds that a lying peer cannot make endless; -1 (never connected) stays."""
    return max(-1, min(leading_number(value), 10**9))


_OF_REPLICAS: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "master_host": ("master_host", str),
    "master_port": ("master_port", leading_number),
    "master_link_status": ("is_master_link_up", lambda value: value.lower() == "up"),
    "slave_priority": ("priority", leading_number),
    "slave_repl_offset": ("offset", lambda value: max(leading_number(value), 0)),
    "replica_announced": ("is_announced", lambda value: leading_number(value) != 0),
}
