"""What ``snapshots`` is asked."""

from __future__ import annotations

from slotscope.requests.options import TableOptions, options


@options
class Request(TableOptions):
    """Of which tables, and how to answer."""
