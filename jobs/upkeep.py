"""Keeping a root small and quick: ``forget`` removes snapshots, ``maintain`` joins small files and removes those of no table any more."""

from __future__ import annotations

import sys

from slotscope.requests.upkeep import ForgetRequest, MaintainRequest


def forget_command(request: ForgetRequest = ForgetRequest()) -> None:
    """Remove snapshots from every table, by name or by age; a dry run unless --apply is given.

    Snapshots stop being shown first, and go from the other tables then: of a run that was killed in between, ``maintain`` removes the
    rest. It gives the space back, too.
    """
    from slotscope.pipelines.upkeep import forget
    from slotscope.reports.answer import deliver_answer

    deliver_answer(forget(request), stream=sys.stdout, as_json=request.json)


def maintain_command(request: MaintainRequest = MaintainRequest()) -> None:
    """Join the small files of every table, remove files that no table holds any more, and name snapshots that were never finished."""
    from slotscope.pipelines.upkeep import maintain
    from slotscope.reports.answer import deliver_answer

    deliver_answer(maintain(request), stream=sys.stdout, as_json=request.json)
