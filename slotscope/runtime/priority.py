"""What may take its time does so: work beside servers, which clients wait for, gives way to them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEPS = 10
"""Of niceness: a tenth of the time of a processor that another process wants, too."""


@contextmanager
def low_priority() -> Iterator[None]:
    """Give way to other processes of this machine in the block; where that cannot be taken back, for good."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, before + STEPS)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)
