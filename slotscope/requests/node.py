"""What ``node`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which cluster to join, and as what."""

    join: str | None = None
    """HOST:PORT of a node of the cluster, by its client port. Default: wait to be met."""
    port: int = 7777
    """Port for clients."""
    bus_port: int = 0
    """Port for the bus. Default: port + 10000."""
    bind: str = "127.0.0.1"
    """Address to listen on."""
    profile: str | None = None
    """Whose rules to follow: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: the cluster's;
    valkey-9.1 as long as nothing is known of it.
    """
    node_timeout: int | None = None
    """cluster-node-timeout in milliseconds. Default: the cluster's; 15000 as long as nothing is known of it."""
    folder: str | None = None
    """Where nodes.conf is kept, and read at the start. Default: it is not kept."""
    duration: float | None = None
    """Seconds after which to end. Default: until Ctrl-C."""
    user: str | None = None
    """ACL user for INFO, CONFIG GET and, at the end, CLUSTER FORGET. Default: the default user."""
    password_env: str = "SLOTSCOPE_PASSWORD"
    """Environment variable that holds its password; not set: no password."""
    debug: Flag = False
    """Show the trace of an error."""


DEFAULTS = Request()
"""What holds where the user says nothing."""
