"""What ``fleet`` is asked."""

from __future__ import annotations

from slotscope.requests.options import TableOptions, options


@options
class Request(TableOptions):
    """Of which tables, and where the page goes."""

    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/fleet.html."""
