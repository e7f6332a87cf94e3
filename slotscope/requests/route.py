"""What ``route`` is asked."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Parameter

from slotscope.requests.options import Common, Flag


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Request(Common):
    """Which node is asked, when and by which client."""

    observer: str
    """Which node is asked: a node id, the beginning of one, or host:port."""
    at: str
    """When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970."""
    snapshot: str = "current"
    """Name of the snapshot that bus-replay wrote."""
    server: str = "valkey-9.1"
    """Whose rules and commands: redis-7.0 or valkey-9.1."""
    readonly: Flag = False
    """The client has sent READONLY."""
    partial_coverage: Flag = False
    """The node has cluster-require-full-coverage no."""
