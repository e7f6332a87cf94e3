"""Work that gives way to others."""

from __future__ import annotations

import subprocess
import sys

import pytest

INSIDE = """
import os
from slotscope.runtime.priority import low_priority
before = os.getpriority(os.PRIO_PROCESS, 0)
with low_priority():
    print(before, os.getpriority(os.PRIO_PROCESS, 0))
"""
PROCESSORS = """
import os
from slotscope.runtime.priority import low_priority
before = os.sched_getaffinity(0)
with low_priority():
    inside = os.sched_getaffinity(0)
print(len(inside), inside <= before, os.sched_getaffinity(0) == before)
"""


def tell(program: str) -> str:
    """What *program* says in a process of its own: who is not root cannot take a priority back."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_work_in_the_block_gives_way() -> None:
    """As far as a process can, ten steps."""
    before, inside = map(int, tell(INSIDE).split())
    assert inside == min(before + 10, 19)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process cannot choose its processors")
def test_work_in_the_block_keeps_to_one_processor() -> None:
    """Of those that it had; afterwards it has them all again."""
    assert tell(PROCESSORS).split() == ["1", "True", "True"]
