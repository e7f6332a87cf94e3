"""Files of one kind, one after another: complete gzip members under a temporary name, renamed when finished.

Each flush writes a gzip member that holds whole packets or lines, so that a recorder that is killed leaves a file which is good up to its last
flush (`recover`).
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from cluster_core.formats.landing import SUFFIXES, Kind, RecordedFile, read_name

FLUSH_NS: Final = 1_000_000_000
FLUSH_BYTES: Final = 1 << 20
RETRY_NS: Final = 1_000_000_000
"""Time between two attempts to write to a full disk."""
LEVEL: Final = 3
"""Level of gzip; higher levels cost the databases of the host CPU."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_GZIP_WINDOW: Final = 31
_READ_BYTES: Final = 1 << 14
"""Bytes of one read of an unfinished file; they inflate to at most a thousand times as many."""


class Rotation(NamedTuple):
    """When the next file begins: at multiples of *every_ns* since the epoch, or at *bytes_max* compressed bytes."""

    every_ns: int
    bytes_max: int

    def due_ns(self, from_ns: int) -> int:
        """End of a file that began at *from_ns*."""
        return (from_ns // self.every_ns + 1) * self.every_ns


class Series:
    """The files of one kind in *folder*; used by one thread.

    *head* (the header of a capture) begins every file; a series with a head has a file even without data.  *ended* is called with each
    finished file.  While the disk is full (`is_full`) new data is dropped; the data on the disk ends at *covered_ns*.
    """

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        rotation: Rotation,
        ended: Callable[[Path], object] | None = None,
    ) -> None:
        self.is_full = False
        self.covered_ns = 0
        self.head = b""
        self._folder, self._kind, self._rotation = folder, kind, rotation
        self._ended = ended
        self._file: int | None = None
        self._unfinished: RecordedFile | None = None
        self._buffer = bytearray()
        self._buffered_ns = self._upto_ns = self._retry_ns = self._last_ns = 0
        self._size = 0

    @property
    def partial(self) -> str:
        """Name of the file that is being written, empty for none."""
        return self._unfinished.name if self._unfinished is not None else ""

    def begin(self, now_ns: int) -> None:
        """Open a file unless one is open; a full disk raises no OSError."""
        if self._unfinished is not None or (self.is_full and 0 < self._retry_ns - now_ns <= RETRY_NS):
            return
        if now_ns < self._last_ns - self._rotation.every_ns:  # the clock was set back
            self._last_ns = 0
        from_ns = max(now_ns // 1000 * 1000, self._last_ns + 1000)
        unfinished = RecordedFile("", from_ns, None, SUFFIXES[self._kind])
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(
                self._folder / unfinished.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640
            )
        except OSError as error:
            self._no_room(error, now_ns)
            return
        self._unfinished, self._last_ns, self._size = unfinished, from_ns, 0
        if self.head:
            self._add(self.head, now_ns, self.covered_ns)
            self.flush(now_ns)

    def add(self, data: bytes, now_ns: int, upto_ns: int) -> None:
        """Append whole packets or lines up to the time *upto_ns*; `flush` writes them to the disk."""
        self.begin(now_ns)
        if self._unfinished is not None:
            self._add(data, now_ns, upto_ns)
            if len(self._buffer) >= FLUSH_BYTES:
                self.flush(now_ns)

    def _add(self, data: bytes, now_ns: int, upto_ns: int) -> None:
        if not self._buffer:
            self._buffered_ns = now_ns
        self._buffer += data
        self._upto_ns = max(self._upto_ns, upto_ns)

    def turn(self, now_ns: int) -> bool:
        """Flush and rotate when due, or where the clock was set back; True if a file was finished."""
        if self._buffer and abs(now_ns - self._buffered_ns) >= FLUSH_NS:
            self.flush(now_ns)
        if self.head:
            self.begin(now_ns)
        if self._unfinished is None:
            return False
        from_ns, rotation = self._unfinished.from_ns, self._rotation
        if from_ns - rotation.every_ns <= now_ns < rotation.due_ns(from_ns) and self._size < rotation.bytes_max:
            return False
        self.end(now_ns)
        if self.head:
            self.begin(now_ns)
        return True

    def flush(self, now_ns: int) -> None:
        """Write the buffer as one gzip member; a full disk drops it and finishes the file."""
        if self._file is None or not self._buffer:
            return
        packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
        member = memoryview(packer.compress(bytes(self._buffer)) + packer.flush())
        self._buffer.clear()
        try:
            while member:
                member = member[os.write(self._file, member) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            self._no_room(error, now_ns)
            self._finish(now_ns)
            return
        self._size = os.lseek(self._file, 0, os.SEEK_CUR)
        self.covered_ns = max(self.covered_ns, self._upto_ns)
        self.is_full = False

    def end(self, now_ns: int) -> None:
        """Finish the file that is being written, if there is one."""
        self.flush(now_ns)
        self._finish(now_ns)

    def _finish(self, now_ns: int) -> None:
        if self._file is None or self._unfinished is None:
            return
        file, unfinished, size = self._file, self._unfinished, self._size
        self._file = self._unfinished = None
        path = self._folder / unfinished.name
        if not size:
            os.close(file)
            path.unlink(missing_ok=True)
            return
        try:
            finished = finish(path, unfinished, max(now_ns, unfinished.from_ns + 1000), file)
        except OSError as error:  # the next recorder finishes it
            self._no_room(error, now_ns)
            return
        self._last_ns = max(self._last_ns, now_ns // 1000 * 1000 - 1000)
        if self._ended is not None:
            self._ended(finished)

    def _no_room(self, error: OSError, now_ns: int) -> None:
        if error.errno not in _FULL:
            raise error
        self.is_full, self._retry_ns = True, now_ns + RETRY_NS
        self._upto_ns = self.covered_ns


def finish(path: Path, unfinished: RecordedFile, to_ns: int, file: int) -> Path:
    """Sync and close the complete *file*, and rename it as finished."""
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in _FULL:
            raise
    finally:
        os.close(file)
    target = path.with_name(unfinished._replace(to_ns=to_ns).name)
    os.rename(path, target)
    return target


class RecoveredFile(NamedTuple):
    """An unfinished file that was finished, and whether its end was lost; *path* is None if nothing was readable."""

    path: Path | None
    name: str
    torn: bool
    written_ns: int


def recover(partial: Path) -> RecoveredFile | None:
    """Finish the file of a killed recorder at its last whole gzip member; None for a file that no recorder wrote."""
    unfinished = read_name(partial.name)
    if unfinished is None or unfinished.to_ns is not None or partial.is_symlink() or not partial.is_file():
        return None
    written_ns = partial.stat().st_mtime_ns
    kept = _end_of_members(partial)
    size = partial.stat().st_size
    if not kept:
        with open(partial, "rb") as file:
            if not b"\x1f\x8b".startswith(file.read(2)):
                return None
        partial.unlink()
        return RecoveredFile(None, partial.name, size > 0, written_ns)
    opened = os.open(partial, os.O_WRONLY | os.O_NOFOLLOW)
    os.ftruncate(opened, kept)
    path = finish(partial, unfinished, max(written_ns, unfinished.from_ns + 1000), opened)
    return RecoveredFile(path, partial.name, kept < size, written_ns)


def _end_of_members(path: Path) -> int:
    """Offset of the end of the last whole gzip member."""
    kept = read = 0
    packer = zlib.decompressobj(_GZIP_WINDOW)
    with open(path, "rb") as file:
        while data := file.read(_READ_BYTES):
            while data:
                try:
                    packer.decompress(data)
                except zlib.error:
                    return kept
                read += len(data) - len(packer.unused_data)
                data = packer.unused_data
                if packer.eof:
                    kept = read
                    packer = zlib.decompressobj(_GZIP_WINDOW)
    return kept
