"""What ``bus-replay`` is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to read and how; see `jobs.bus_replay.command` for the words."""

    root: str
    snapshot: str = "current"
    pcap: Sequence[str] = ()
    nodes: Sequence[str] = ()
    log: Sequence[str] = ()
    log_zone: str = "UTC"
    log_node: Sequence[str] = ()
    node_timeout_ms: int | None = None
    profile: str | None = None
    gossip: bool = False
    restart: bool = False
    permissive: bool = False
