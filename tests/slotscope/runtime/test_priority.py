"""Work that gives way to others."""

from __future__ import annotations

import os
import subprocess
import sys

INSIDE = """
import os
from slotscope.runtime.priority import low_priority
before = os.getpriority(os.PRIO_PROCESS, 0)
with low_priority(last=True):
    print(before, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
"""


def test_work_in_the_block_gives_way():
    """In a process of its own: who is not root cannot take it back."""
    told = subprocess.run([sys.executable, "-c", INSIDE], capture_output=True, text=True, check=True).stdout

    before, inside, policy, after, policy_after = map(int, told.split())
    assert (inside, policy) == (min(before + 10, 19), os.SCHED_IDLE)
    if os.geteuid() == 0:
        assert (after, policy_after) == (before, os.SCHED_OTHER)
