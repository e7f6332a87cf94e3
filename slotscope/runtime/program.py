"""The name by which a person starts this program again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

NAME = "slotscope"
LATEST = "latest"
"""What a person says in the place of a name for the newest snapshot, or plan."""


def program_name() -> str:
    """``slotscope`` where a shell finds that, else the path by which this process was started, as a shell takes it."""
    started = sys.argv[0]
    if os.path.basename(started) != NAME or shutil.which(NAME) is not None:
        return NAME
    return shlex.quote(started)
