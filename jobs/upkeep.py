"""Upkeep of a root: ``forget`` removes snapshots, ``maintain`` joins small files and removes old ones, ``migrate`` upgrades tables."""

from __future__ import annotations

import sys

from slotscope.requests.upkeep import ForgetRequest, MaintainRequest, MigrateRequest


def forget_command(request: ForgetRequest = ForgetRequest()) -> None:
    """Remove snapshots from every table, by name or age; a dry run unless --apply is given.

    The files stay until ``maintain`` removes them.
    """
    from slotscope.pipelines.upkeep import forget
    from slotscope.reports.answer import deliver_answer

    deliver_answer(forget(request), stream=sys.stdout, as_json=request.json)


def maintain_command(request: MaintainRequest = MaintainRequest()) -> None:
    """Join small files of every table, remove replaced files, and list unfinished snapshots."""
    from slotscope.pipelines.upkeep import maintain
    from slotscope.reports.answer import deliver_answer

    deliver_answer(maintain(request), stream=sys.stdout, as_json=request.json)


def migrate_command(request: MigrateRequest = MigrateRequest()) -> None:
    """Bring the tables of a root that an older version wrote to the current form.

    Stop jobs and followers of the root first. A migration that was interrupted is resumed; until it is complete the older version
    still reads the root.
    """
    from slotscope.pipelines.migration import migrate
    from slotscope.reports.answer import deliver_answer

    deliver_answer(migrate(request.root), stream=sys.stdout, as_json=request.json)
