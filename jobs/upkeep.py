"""Maintain the tables: list snapshots, ``forget`` removes them, ``maintain`` compacts files, ``migrate`` upgrades older tables."""

from __future__ import annotations

import sys

from slotscope.options import Flag, Paths, TableOptions, options

ABANDONED_H = 48


@options
class ForgetRequest(TableOptions):
    """Options of `slotscope tables forget`."""

    snapshot: Paths = ()
    """Names of the snapshots"""
    older_than: str | None = None
    """Age of the data, as 90d, 12h or 30m"""
    apply: Flag = False
    """Apply the removal. Default: dry run"""


@options
class MaintainRequest(TableOptions):
    """Options of `slotscope tables maintain`."""

    retention_hours: int | None = None
    """Retention of replaced files in hours, for readers of older versions. Default: that of each table, 6 hours or 30 days"""
    log_retention_days: int | None = None
    """History of the tables in days (delta.logRetentionDuration). Default: unchanged; new tables keep 6 hours or 30 days"""
    abandoned_hours: int = ABANDONED_H
    """Age in hours after which an unfinished run counts as failed"""


def snapshots_command(request: TableOptions = TableOptions()) -> None:
    """List the snapshots in the tables: job, time, inputs and state."""
    from slotscope.pipelines.upkeep import list_snapshots
    from slotscope.reports.answer import deliver_answer

    deliver_answer(list_snapshots(request.root), stream=sys.stdout, as_json=request.json)


def forget_command(request: ForgetRequest = ForgetRequest()) -> None:
    """Remove snapshots from every table, by name or age; a dry run unless --apply is given.

    The files stay until ``maintain`` removes them.
    """
    from slotscope.pipelines.upkeep import forget
    from slotscope.reports.answer import deliver_answer

    answer = forget(root=request.root, snapshot=request.snapshot, older_than=request.older_than, apply=request.apply)
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)


def maintain_command(request: MaintainRequest = MaintainRequest()) -> None:
    """Join small files of every table, remove replaced files, and list unfinished snapshots."""
    from slotscope.pipelines.upkeep import maintain
    from slotscope.reports.answer import deliver_answer

    answer = maintain(
        root=request.root,
        retention_hours=request.retention_hours,
        log_retention_days=request.log_retention_days,
        abandoned_hours=request.abandoned_hours,
    )
    deliver_answer(answer, stream=sys.stdout, as_json=request.json)


def migrate_command(request: TableOptions = TableOptions()) -> None:
    """Bring the tables of a root that an older version wrote to the current form.

    Stop jobs and followers of the root first. A migration that was interrupted is resumed; until it is complete the older version
    still reads the root.
    """
    from slotscope.pipelines.upkeep import migrate
    from slotscope.reports.answer import deliver_answer

    deliver_answer(migrate(request.root), stream=sys.stdout, as_json=request.json)
