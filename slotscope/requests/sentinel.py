"""What ``sentinel`` is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from slotscope.requests.options import LiveOptions, options


@options
class Request(LiveOptions):
    """What to watch, beside whom, and how."""

    monitor: str | None = None
    """HOST:PORT of the master."""
    join: str | None = None
    """HOST:PORT of a sentinel that watches the master: where the master is, and options not given here, are asked of it."""
    name: str = "mymaster"
    """What the sentinels call the master."""
    quorum: int | None = None
    """How many sentinels must hold the master for down. Default: 2."""
    down_after: int | None = None
    """down-after-milliseconds. Default: 30000."""
    failover_timeout: int | None = None
    """failover-timeout in milliseconds. Default: 180000."""
    parallel_syncs: int | None = None
    """How many replicas at a time are sent to a new master. Default: 1."""
    port: int = 26380
    """Port to listen on."""
    profile: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1"
    """Whose commands and texts clients find."""
    folder: str | None = None
    """Where sentinel.conf is kept, and read at the start before any option here. Default: it is not kept."""
    forget: Annotated[bool, Parameter(negative=())] = False
    """At the end, have the other sentinels forget this one with SENTINEL RESET. They forget replicas and failovers with it, and
    find the replicas again within ten seconds.
    """
    user: str | None = None
    """ACL user of the master and its replicas. Default: the default user."""
