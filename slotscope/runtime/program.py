"""Name of this program in a shell, and its cache folder."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NAME = "slotscope"
ROOT = "slotscope-data"
"""Folder of the tables where neither the command line nor the environment names one."""
ROOT_VARIABLE = "SLOTSCOPE_ROOT"
LATEST = "latest"
"""Name that stands for the newest snapshot, or plan."""


def program_name() -> str:
    """``slotscope`` where a shell finds that, else the path by which this process was started, as a shell takes it."""
    started = sys.argv[0]
    if os.path.basename(started) != NAME or shutil.which(NAME) is not None:
        return NAME
    return shlex.quote(started)


def program_version() -> str:
    """The version of this program."""
    try:
        return version(NAME)
    except PackageNotFoundError:  # the code came in a zip
        return "unknown (not installed)"


def shell_word(word: str) -> str:
    """*word* as one word of a shell; ``...`` for a word that cannot be shown."""
    return shlex.quote(word) if word.isprintable() else "..."


def cache_folder() -> Path:
    """Return the folder for caches of this user."""
    named = os.environ.get("XDG_CACHE_HOME", "")  # by its specification a path that is not absolute counts as not set
    return Path(named if os.path.isabs(named) else Path.home() / ".cache", NAME)
