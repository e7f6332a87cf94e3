"""How much of its captures a replay has read: the task that reads writes it down, a driver on the same machine tells it."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from slotscope.sources.byte_streams import FileStream

NOTE_S: Final = 0.5
"""How often it is written down."""
_WIDTH: Final = 20
"""Digits of a count: each takes the place of the one before in one write."""


class Meter:
    """Counts the bytes of files as they are stored, into the file *path* if there is one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: dict[str, int] = {}
        self._noted_s = 0.0

    def note(self, source: str, stream: FileStream) -> None:
        """Note how far *stream* has read in the file *source*."""
        if not self._path:
            return
        self._read[source] = stream.stored_bytes()
        if time.monotonic() - self._noted_s > NOTE_S:
            self._noted_s = time.monotonic()
            with suppress(OSError):  # the driver has all it wanted, and the file is gone
                file = os.open(self._path, os.O_WRONLY)
                os.pwrite(file, f"{sum(self._read.values()):{_WIDTH}}".encode(), 0)
                os.close(file)


class Reading:
    """A replay of *size_bytes* as its driver sees it; *path* is the file for its task, empty where that runs elsewhere."""

    def __init__(self, size_bytes: int, *, is_here: bool) -> None:
        self._size_bytes = size_bytes
        self.path = ""
        self._is_here = is_here and size_bytes > 0

    def __enter__(self) -> Reading:
        if self._is_here:
            file, self.path = tempfile.mkstemp(prefix="slotscope-read-")
            os.close(file)
        return self

    def __exit__(self, *raised: object) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def share(self) -> float:
        """The part that was read, from 0 to 1; 0 where nobody knows."""
        try:
            return min(int(Path(self.path).read_bytes()) / self._size_bytes, 1.0)
        except (OSError, ValueError):
            return 0.0
