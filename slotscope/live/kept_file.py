"""The file in which a live machine keeps its configuration."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes, *, fsync: bool = True) -> None:
    """Write *data* under a name that is whole at every moment, and with *fsync* on the disk when this returns."""
    waiting = path.with_suffix(f".{os.getpid()}")
    with open(waiting, "wb") as file:
        file.write(data)
        file.flush()
        if fsync:
            os.fsync(file.fileno())
    os.replace(waiting, path)
