"""What ``nodes`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Recorded, options


@options
class Request(Recorded):
    """Whose answer, and when."""

    observer: str = "all"
    """Whose answer: a node id, the beginning of one, host:port, or all."""
    at: str | None = None
    """When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970. Default: the last evidence."""
    diff: str | None = None
    """Another time: print what is different then."""
    versus: str | None = None
    """Another observer: print what it sees differently."""
