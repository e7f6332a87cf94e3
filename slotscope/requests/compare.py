"""What ``compare`` is asked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.options import TableOptions, options


@options
class Request(TableOptions):
    """Which snapshots to compare."""

    before: Annotated[str, Parameter(name="--from")]
    """Name of the earlier snapshot."""
    after: Annotated[str, Parameter(name="--to")]
    """Name of the later snapshot."""
    html: str | None = None
    """Where the HTML report goes. Default: ROOT/reports/FROM-to-TO.html."""
