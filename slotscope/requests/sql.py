"""What ``sql`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Flag, TableOptions, options


@options
class Request(TableOptions):
    """Of which tables, and how to answer."""

    json: Flag = False
    """Write a line of JSON for each row."""
