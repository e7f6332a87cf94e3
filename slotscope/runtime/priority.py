"""Low priority for work beside servers: clients wait for these."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEPS = 10
"""Steps of niceness: a tenth of the time of a shared processor."""
THREAD_NICENESS = 3
"""Niceness of a background thread."""


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
    """Lower the priority of this thread: threads of other processes have more urgent work."""
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), THREAD_NICENESS)
