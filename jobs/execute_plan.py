"""Apply, pause, resume or roll back a plan on a live cluster; a dry run without --apply."""

from __future__ import annotations

from slotscope.pipelines.rebalance.options import ExecuteOptions as Request
from slotscope.runtime import cli


def command(request: Request) -> int:
    """Apply a stored plan to its live cluster.

    Without --apply a dry run prints checks, batches, commands and the estimated time.  With it, each step is written to
    silver/plan_steps before it runs.  Ctrl-C pauses after the present step, a second one ends the process; the same command resumes.
    Exit codes: 0 in place, 2 refused, 12 paused.
    """
    from slotscope.pipelines.rebalance.execution import execute_plan

    return execute_plan(request)


if __name__ == "__main__":
    cli.main(command)
