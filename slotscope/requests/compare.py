"""What ``compare`` is asked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import TableOptions, options
from slotscope.runtime.program import LATEST


@options
class Request(TableOptions):
    """Which snapshots to compare."""

    before: Annotated[str | None, Parameter(name="--from")] = None
    """Name of the earlier snapshot. Default: the one before the later, of the same cluster."""
    after: Annotated[str, Parameter(name="--to")] = LATEST
    """Name of the later snapshot, or latest."""
    cluster: str | None = None
    """Cluster whose latest snapshots are meant, where there are several."""
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/FROM-to-TO.html."""
