"""What ``forget`` and ``maintain`` are asked."""

from __future__ import annotations

from slotscope.requests.options import Flag, Paths, TableOptions, options

ABANDONED_H = 48
RETENTION_H = 168
"""Hours after which Delta itself lets replaced files go."""


@options
class ForgetRequest(TableOptions):
    """Which snapshots, and whether to do it."""

    snapshot: Paths = ()
    """Names of the snapshots to remove."""
    older_than: str | None = None
    """Also those whose data is older than this: 90d, 12h, 30m."""
    apply: Flag = False
    """Do it. Default: say what would go."""


@options
class MaintainRequest(TableOptions):
    """How long replaced files stay."""

    retention_hours: int = RETENTION_H
    """Hours for which files that no table holds any more stay, for who still reads an older version."""
    abandoned_hours: int = ABANDONED_H
    """Hours after which a run that has not ended is taken for dead: what it wrote goes."""
