"""The name by which a person starts this program again, and where it keeps what can be made again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

NAME = "slotscope"
LATEST = "latest"
"""What a person says in the place of a name for the newest snapshot, or plan."""


def program_name() -> str:
    """``slotscope`` where a shell finds that, else the path by which this process was started, as a shell takes it."""
    started = sys.argv[0]
    if os.path.basename(started) != NAME or shutil.which(NAME) is not None:
        return NAME
    return shlex.quote(started)


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", NAME)
