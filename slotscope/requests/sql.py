"""What ``sql`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Flag, Plain, options


@options
class Request(Plain):
    """Of which tables, and how to answer."""

    root: str
    """Folder of the tables."""
    json: Flag = False
    """Write a line of JSON for each row."""
