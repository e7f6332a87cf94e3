"""One capture point: its folder in a landing, written by one recorder at a time."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cluster_core.formats.landing import GAPS_FILE, Gap, Kind, Reason, read_name
from slotscope.recording.gap_book import GapBook
from slotscope.recording.series import Recovered, Rotation, Series, recover
from slotscope.runtime.errors import InputError

NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
LOCK_FILE: Final = ".lock"
FOLDER_MODE: Final = 0o750


class Stored(NamedTuple):
    """A file of a point; *to_ns* is None while it is written."""

    path: str
    size: int
    to_ns: int | None


class Bounds(NamedTuple):
    """Bounds of a point: total bytes, and age (None: unbounded)."""

    bytes_max: int
    age_ns_max: int | None = None


def files_to_delete(files: Sequence[Stored], bounds: Bounds, now_ns: int) -> list[Stored]:
    """The fewest oldest finished files to delete; never an open file."""
    finished = sorted((file.to_ns, file.path, file) for file in files if file.to_ns is not None)
    total = sum(file.size for file in files)
    deleted = []
    for to_ns, _, file in finished:
        is_old = bounds.age_ns_max is not None and to_ns < now_ns - bounds.age_ns_max
        if not is_old and total <= bounds.bytes_max:
            break
        total -= file.size
        deleted.append(file)
    return deleted


@dataclass(slots=True)
class Point:
    """The folder of a point.

    `open` locks it, finishes the files of a killed recorder and reports them; raises InputError if another recorder has the lock.
    """

    folder: Path
    rotation: Rotation
    bounds: Bounds
    tell: Callable[[str], None]
    gaps: GapBook = field(init=False)
    recovered: dict[Kind, list[Recovered]] = field(default_factory=dict)
    is_spool: bool = False
    """Whether finished files wait here for a store."""
    bringing: str = ""
    """The file that is being uploaded."""
    files: int = 0
    """Finished since it was opened."""
    alive_ns: int | None = None
    """Last sign of life of the recorder before; None without one."""
    _lock: int = -1

    def __post_init__(self) -> None:
        self.gaps = GapBook(self.folder / GAPS_FILE, self.tell)

    def open(self, now_ns: int) -> None:
        """Lock the point at *now_ns*."""
        path = self.folder / LOCK_FILE
        self.folder.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        was_there = path.exists()
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock, 200, 0).decode("utf-8", "replace").strip()
            os.close(self._lock)
            raise InputError(
                f"{self.folder}: another recorder writes to this point ({holder or 'unknown'}): give this one another --point"
            ) from error
        self.alive_ns = os.fstat(self._lock).st_mtime_ns if was_there else None
        with suppress(OSError):  # a full disk: the lock is valid all the same
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        if self.alive_ns is not None:
            self.gaps.end_former(self.alive_ns)
        for kind in Kind:
            self.recovered[kind] = [
                recovered_file for partial in self._partials(kind) if (recovered_file := recover(partial)) is not None
            ]
            for recovered_file in self.recovered[kind]:
                if recovered_file.torn:
                    begun = read_name(recovered_file.name)
                    from_ns = (
                        begun.from_ns
                        if recovered_file.path is None and begun is not None
                        else recovered_file.written_ns
                    )
                    self.gaps.add(
                        Gap(kind, from_ns, max(recovered_file.written_ns, from_ns), Reason.TORN, recovered_file.name)
                    )

    def _partials(self, kind: Kind) -> list[Path]:
        folder = self.folder / kind
        return sorted(folder.glob(".*.partial")) if folder.is_dir() else []

    def series(self, kind: Kind) -> Series:
        """The files of a kind."""
        return Series(self.folder / kind, kind, self.rotation, self._count)

    def _count(self, _path: Path) -> None:
        self.files += 1

    def live(self, now_ns: int) -> None:
        """Leave word that the recorder is alive."""
        with suppress(OSError):
            os.utime(self._lock, ns=(now_ns, now_ns))

    def stored(self) -> list[Stored]:
        """The files that recorders have written, by their names; others are none of our business."""
        found = []
        for kind in Kind:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder / kind) as entries:
                for entry in entries:
                    recorded = read_name(entry.name)
                    if recorded is not None and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            size = entry.stat(follow_symlinks=False).st_size
                            found.append(Stored(entry.path, size, recorded.to_ns))
        return found

    def keep_within_bounds(self, now_ns: int) -> int:
        """Delete the oldest finished files as the bounds want it; return how many bytes are left.  What a store has not got is a gap then."""
        files = self.stored()
        gone = [file for file in files_to_delete(files, self.bounds, now_ns) if file.path != self.bringing]
        for file in gone:
            with suppress(FileNotFoundError):
                os.unlink(file.path)
                if self.is_spool:
                    self._note_lost(Path(file.path))
        return sum(file.size for file in files) - sum(file.size for file in gone)

    def _note_lost(self, path: Path) -> None:
        recorded = read_name(path.name)
        if recorded is not None and recorded.to_ns is not None:
            kind = Kind(path.parent.name)
            self.gaps.add(Gap(kind, recorded.from_ns, recorded.to_ns, Reason.NOT_UPLOADED, path.name))

    def close(self, now_ns: int) -> None:
        """Leave the point to others."""
        self.gaps.end_all(now_ns)
        self.live(now_ns)
        os.close(self._lock)


def checked_name(text: str, option: str) -> str:
    """A name that can be a folder; raises InputError for another."""
    if not NAME.fullmatch(text):
        raise InputError(
            f"{option} {text!r}: letters, digits, dots, dashes and underlines, no dot or dash first, at most 100"
        )
    return text
