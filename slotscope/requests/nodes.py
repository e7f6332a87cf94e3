"""What ``nodes`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Recorded, options

EVERYBODY = "all"


@options
class Request(Recorded):
    """Whose answer, and when."""

    observer: str | None = None
    """Whose answer: a node id, the beginning of one, host:port, port, or all. Default: the answer that most nodes gave, and what the
    others saw differently.
    """
    at: str | None = None
    """When: ISO 8601 (UTC unless it says otherwise), or s, ms, µs or ns since 1970. Default: the last evidence."""
    diff: str | None = None
    """Another time: print what is different then."""
    versus: str | None = None
    """Another observer: print what it sees differently."""

    @property
    def is_headed(self) -> bool:
        """Whether to say before each answer whose it is."""
        return self.observer in (None, EVERYBODY) or self.diff is not None or self.versus is not None
