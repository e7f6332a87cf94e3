"""What ``route`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Flag, Recorded, options


@options
class Request(Recorded):
    """Which node is asked, when and by which client."""

    observer: str
    """Which node is asked: a node id, the beginning of one, host:port or port."""
    at: str | None = None
    """When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970. Default: the last evidence."""
    server: str = "valkey-9.1"
    """Whose rules and commands: redis-7.0 or valkey-9.1."""
    readonly: Flag = False
    """The client has sent READONLY."""
    partial_coverage: Flag = False
    """The node has cluster-require-full-coverage no."""
