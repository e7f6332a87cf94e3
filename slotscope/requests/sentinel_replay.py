"""What ``sentinel-replay`` is asked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import LogOptions, Paths, options


@options
class Request(LogOptions):
    """What to read and how."""

    pcap: Annotated[Paths, Parameter(alias="--captures")] = ()
    """Captures of the ports of sentinels, masters and replicas: pcap or pcapng files; globs, folders or URIs; gzip and zstd are recognised."""
    log: Annotated[Paths, Parameter(alias="--logs")] = ()
    """Logs of sentinels; those of other servers are passed over."""
    polls: Paths = ()
    """Answers to SENTINEL MASTERS, REPLICAS and SENTINELS as JSON lines."""
    snapshot: str | None = None
    """Name of the snapshot; what the tables hold of its sentinels is replaced. Default: the time, 2026-11-23T020000Z, and the cluster's name."""
    cluster: str | None = None
    """Name of the cluster. Default: the one that a node was seen in before, else one made of a node's id."""
    down_after_ms: int | None = None
    """down-after-milliseconds. Default: told by events or polls, else estimated from the first silence that was held for down."""
    quorum: int | None = None
    """Quorum of the masters. Default: told by events or polls, else a majority."""
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-history.html, the report of `incidents`."""
