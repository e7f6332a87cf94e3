"""What ``incidents`` is asked."""

from __future__ import annotations

from slotscope.requests.options import Recorded, options


@options
class Request(Recorded):
    """Which replay to tell of."""

    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/SNAPSHOT-history.html."""
