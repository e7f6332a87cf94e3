"""Work that gives way to others."""

from __future__ import annotations

import subprocess
import sys

INSIDE = """
import os
from slotscope.runtime.priority import low_priority
before = os.getpriority(os.PRIO_PROCESS, 0)
with low_priority():
    print(before, os.getpriority(os.PRIO_PROCESS, 0))
"""


def test_work_in_the_block_gives_way():
    """In a process of its own: who is not root cannot take it back."""
    told = subprocess.run([sys.executable, "-c", INSIDE], capture_output=True, text=True, check=True).stdout

    before, inside = map(int, told.split())
    assert inside == min(before + 10, 19)
