"""Whether a root can be written: asked before anything is read, which may take hours."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from typing import Final

from slotscope.runtime.errors import InputError
from slotscope.runtime.storage import stores

PROBE_BYTES: Final = 1 << 20
"""Room that even the smallest snapshot takes."""

COMMIT_BYTES: Final = 128 << 10
"""Room that a commit to a table takes beside its rows."""


def check_writable(root: str) -> None:
    """Make the folder *root* and write a file that goes again, in an object store a small object; raises InputError where that fails."""
    if "://" in root:
        if stores.is_store(root):
            stores.try_writing(root)
        return
    try:
        os.makedirs(root, exist_ok=True)
        with tempfile.TemporaryFile(dir=root) as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise InputError(f"{root}: cannot be written: {error.strerror}") from error


def check_room(place: str, size_bytes: int) -> None:
    """Raises OSError where a commit of so many bytes would fill the disk of *place*: delta-rs prints pages about it before it says so."""
    while "://" not in place and not os.path.exists(place):
        place = os.path.dirname(place)
    if "://" not in place and shutil.disk_usage(place).free < size_bytes + COMMIT_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), place)
