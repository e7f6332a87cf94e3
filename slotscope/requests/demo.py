"""What ``demo`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Plain, options


@options
class Request(Plain):
    """Where the tables and pages of the demonstration go."""

    root: str = "slotscope-demo"
    """Folder of the tables and pages."""
