"""What ``node`` is asked."""

from __future__ import annotations

from slotscope.requests.options import LiveOptions, options


@options
class Request(LiveOptions):
    """Which cluster to join, and as what."""

    join: str | None = None
    """HOST:PORT of a node of the cluster, by its client port. Default: wait to be met."""
    port: int = 7777
    """Port for clients."""
    bus_port: int = 0
    """Port for the bus. Default: port + 10000."""
    profile: str | None = None
    """Whose rules to follow: redis-6.2, -7.0, -7.2, -7.4, -8, valkey-7.2, -8.0, -8.1, -9.0, -9.1. Default: the cluster's;
    valkey-9.1 as long as nothing is known of it.
    """
    node_timeout: int | None = None
    """cluster-node-timeout in milliseconds. Default: the cluster's; 15000 as long as nothing is known of it."""
    folder: str | None = None
    """Where nodes.conf is kept, and read at the start. Default: it is not kept."""
    user: str | None = None
    """ACL user for INFO, CONFIG GET and, at the end, CLUSTER FORGET. Default: the default user."""
