"""What ``sentinel-replay`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Common, Paths


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Common):
    """What to read and how."""

    captures: Paths = ()
    """Captures of the ports of sentinels, masters and replicas: pcap or pcapng files; globs, folders or URIs; gzip and zstd are recognised."""
    logs: Paths = ()
    """Logs of sentinels; those of other servers are passed over."""
    polls: Paths = ()
    """Answers to SENTINEL MASTERS, REPLICAS and SENTINELS as JSON lines."""
    snapshot: str = "current"
    """Name of the snapshot; what the tables hold of its sentinels is replaced."""
    log_zone: str = "UTC"
    """Time zone of the sentinels whose logs do not name it: Europe/Berlin, +01:00."""
    log_node: Paths = ()
    """FILE=NODE: whose log FILE (a path or its last part) is; NODE is an id, ip:port or port. Default: seen from its lines or name."""
    down_after_ms: int | None = None
    """down-after-milliseconds. Default: told by events or polls, else estimated from the first silence that was held for down."""
    quorum: int | None = None
    """Quorum of the masters. Default: told by events or polls, else a majority."""
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-history.html, the report of `incidents`."""
