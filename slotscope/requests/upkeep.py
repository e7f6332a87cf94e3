"""Options of ``forget``, ``maintain`` and ``migrate``."""

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
    """How long replaced files and logs stay."""

    retention_hours: int = RETENTION_H
    """Hours for which replaced files stay, for readers of older versions."""
    log_retention_days: int | None = None
    """Days of history that the tables keep (delta.logRetentionDuration; new tables: 30)."""
    abandoned_hours: int = ABANDONED_H
    """Hours after which a run that did not end is marked as failed."""


@options
class MigrateRequest(TableOptions):
    """The root whose tables are brought to the current form."""
