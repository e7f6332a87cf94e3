"""What may take its time does so: work beside servers, which clients wait for, gives way to them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEPS = 10
"""Of niceness: a tenth of the time of a processor that another process wants, too."""
THREAD_NICENESS = 3
"""Niceness of a thread beside which others do what is asked for sooner."""


@contextmanager
def low_priority() -> Iterator[None]:
    """Give way to other processes of this machine in the block, and keep to one of its processors; where the first cannot be taken back, for good."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, before + STEPS)
    processors = os.sched_getaffinity(0) if sys.platform == "linux" else set[int]()
    if processors:
        os.sched_setaffinity(0, {max(processors)})
    try:
        yield
    finally:
        if processors:
            os.sched_setaffinity(0, processors)
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def step_back() -> None:
    """Let this thread step back behind threads of other processes: what these do is asked for sooner than what it does."""
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), THREAD_NICENESS)
