"""What ``rebalance`` is asked."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from slotscope.requests.execute_plan import MoveOptions
from slotscope.requests.options import NO_OPTIONS, AccessOptions, Flag, TableOptions, options
from slotscope.requests.rebalance_plan import GoalOptions


@options
class Request(TableOptions, GoalOptions, MoveOptions):
    """How far to balance a cluster, and how."""

    plan: str | None = None
    """Id of a stored plan to carry out, or the beginning of it, or latest. Default: the one that was begun and not ended, else a new one; with --rollback the one whose slots moved last."""
    new: Flag = False
    """Make a new plan, whatever was begun."""
    seconds: float = 600.0
    """Time for measuring keys, at most, where the servers do not count memory by slot; all keys are measured where that is enough, else a sample."""
    rate: float | None = None
    """Commands a second to a node, at most, until slots move. Default: as many as keep a server busy half of the time."""
    window: float = 0.0
    """Seconds over which to measure the processor time of slots (CLUSTER SLOT-STATS), to be balanced, too; 0 leaves it out."""
    compare_tolerances: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, show_default=False)] = ()
    """Other tolerances to compare with. Default: none."""
    access: AccessOptions = NO_OPTIONS
