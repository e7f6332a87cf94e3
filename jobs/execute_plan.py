"""Apply, pause, resume or roll back a plan on a live cluster; a dry run without --apply."""

from __future__ import annotations

from slotscope.pipelines.rebalance.options import ExecuteOptions as Request
from slotscope.runtime import cli


def command(request: Request) -> int:
    """Carry a stored plan out on the live cluster that it was made for.

    Without --apply nothing is changed: checks, batches, exact commands and the estimated time are printed.  With it, every step is
    written into silver/plan_steps before it is done.  Ctrl-C pauses when what runs is done, a second one breaks it off; run again to go
    on.  Exit codes: 0 in place, 2 refused, 12 paused.
    """
    from slotscope.pipelines.rebalance.execution import execute_plan

    return execute_plan(request)


if __name__ == "__main__":
    cli.main(command)
