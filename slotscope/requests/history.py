"""Options of ``slotscope history``."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import Flag, LogOptions, Paths, Text, options


@options
class Request(LogOptions):
    """What to read and how."""

    pcap: Paths = ()
    """Captures of the bus ports: pcap or pcapng files, or JSON lines of bus-dump; globs, folders or URIs; gzip and zstd are recognised.
    Rotated files are one stream, captures of one time made in several places are merged.
    """
    polls: Annotated[Paths, Parameter(alias="--nodes")] = ()
    """Answers to CLUSTER NODES as JSON lines, as collect and record write them."""
    log: Paths = ()
    """Server logs."""
    prometheus: Paths = ()
    """Metrics of redis_exporter: saved answers of Prometheus (/api/v1/query_range, or /api/v1/query with a range)."""
    prometheus_url: str | None = None
    """Prometheus to ask for these metrics, as http://HOST:9090; the answers are kept in ROOT/evidence. Needs --from and --to.
    Credentials: environment variables SLOTSCOPE_PROMETHEUS_TOKEN, or SLOTSCOPE_PROMETHEUS_USER and SLOTSCOPE_PROMETHEUS_PASSWORD.
    """
    prometheus_match: Text = ""
    """Labels that select the cluster's series: namespace="prod",job="redis"."""
    from_: Annotated[str | None, Parameter(name="--from")] = None
    """Begin of the time to ask Prometheus for, as 2026-11-23T02:00:00Z."""
    to: str | None = None
    """End of that time; at most 7 days later."""
    node_timeout_ms: int | None = None
    """cluster-node-timeout of the servers. Default: read off the traffic."""
    profile: str | None = None
    """Rules of the servers: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: by what each node
    sends and its log says.
    """
    gossip: Flag = False
    """Also write every gossip entry to bronze/gossip_entries."""
    snapshot: str | None = None
    """Name of the snapshot; what the tables hold of it is continued, or replaced when other files or options are given. Default: the latest
    one, if the files that it holds are the first of those given now, else the time, 2026-11-23T020000Z, and the cluster's name.
    """
    cluster: str | None = None
    """Name of the cluster. Default: as in its landing, or the one that a node was seen in before, else one made of a node's id."""
    restart: Flag = False
    """Read all files from the start, whatever was folded in before."""
