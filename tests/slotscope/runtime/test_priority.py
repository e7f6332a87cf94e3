"""Work that gives way to others."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os
from slotscope.runtime.priority import low_priority
before, processors = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
with low_priority():
    print(os.getpriority(os.PRIO_PROCESS, 0) == min(before + 10, 19), len(os.sched_getaffinity(0)))
print(os.sched_getaffinity(0) == processors)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process cannot choose its processors")
def test_work_in_the_block_gives_way_and_keeps_to_one_processor() -> None:
    """In a process of its own: without root a process cannot raise its priority again."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "1", "True"]
