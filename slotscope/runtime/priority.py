"""What may take its time does so: work beside servers, which clients wait for, gives way to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEPS = 10
"""Of niceness: a tenth of the time of a processor that another process wants, too."""


@contextmanager
def low_priority(*, last: bool = False) -> Iterator[None]:
    """Give way to other processes of this machine in the block: altogether (SCHED_IDLE) where that can be taken back, or the block is the *last* work.

    What cannot be taken back is so for good.
    """
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, niceness + STEPS)
    idle = hasattr(os, "SCHED_IDLE") and (last or os.geteuid() == 0)
    if idle:
        policy = os.sched_getscheduler(0)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(PermissionError):
            if idle:
                os.sched_setscheduler(0, policy, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
