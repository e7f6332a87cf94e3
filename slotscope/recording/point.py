"""One capture point: its folder in a landing, written by one recorder at a time, and the gaps of its recording.

A line of ``gaps.jsonl`` marks the start of a gap, another one its end.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import GAPS_FILE, Gap, Kind, Reason, latest, read_gap, read_name
from slotscope.recording.series import RecoveredFile, Rotation, Series, recover
from slotscope.runtime.errors import InputError

FILE_BYTES_MAX: Final = 4 << 20
"""Size of ``gaps.jsonl`` above which the older half is removed."""
WAITING_MAX: Final = 10_000
"""Lines that wait for room on a full disk."""


class GapBook:
    """The gaps of one point, for all threads.  *tell* is called with a line for each new gap, once for nodes that refuse alike."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self.count = 0
        self._path = path
        self._tell = tell
        self._open: dict[tuple[Kind, Reason, str], Gap] = {}
        self._refusals: set[str] = set()
        self._waiting: list[str] = []
        self._lock = threading.Lock()

    def end_former(self, now_ns: int) -> None:
        """Close the open gaps of a killed recorder."""
        for gap in latest(self.read()):
            if gap.to_ns is None:
                self._write(gap._replace(to_ns=max(now_ns, gap.from_ns)))

    def read(self) -> list[Gap]:
        """All valid gaps; none if there is no file."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        gaps = []
        for number, raw in enumerate(lines, 1):
            with suppress(DecodeError):
                gaps.append(read_gap(raw, line=number))
        return gaps

    def add(self, gap: Gap) -> None:
        """Write a gap that has ended."""
        with self._lock:
            self.count += 1
            self._report(gap)
            self._write(gap)

    def hold(self, gap: Gap, holds: bool, now_ns: int) -> None:
        """Write the start of *gap*, or its end at *now_ns*, unless it is written."""
        key = (gap.kind, gap.reason, gap.subject)
        with self._lock:
            known = self._open.get(key)
            if holds and known is None:
                self._open[key] = gap
                self.count += 1
                self._report(gap)
                self._write(gap)
            elif not holds and known is not None:
                del self._open[key]
                self._write(known._replace(to_ns=max(now_ns, known.from_ns)))

    def end_all(self, now_ns: int) -> None:
        """Close all open gaps at the end of the recorder."""
        with self._lock:
            for gap in self._open.values():
                self._write(gap._replace(to_ns=max(now_ns, gap.from_ns)))
            self._open.clear()

    def _report(self, gap: Gap) -> None:
        if gap.reason is Reason.REFUSED:
            if gap.detail in self._refusals:
                return
            self._refusals.add(gap.detail)
        about = f"{gap.subject}: " * bool(gap.subject)
        self._tell(f"{about}{gap.kind} not recorded: {gap.reason}{f' ({gap.detail})' if gap.detail else ''}")

    def _write(self, gap: Gap) -> None:
        """Add a line; on a full disk it waits for the next one."""
        self._waiting = [*self._waiting, gap.line()][-WAITING_MAX:]
        data = "".join(self._waiting).encode("ascii")
        try:
            with open(self._path, "ab+", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(-1, os.SEEK_END)
                    data = b"\n" * (file.read(1) != b"\n") + data
                if file.write(data) < len(data):
                    file.truncate(size)
                    return
                size += len(data)
        except OSError:
            return
        self._waiting.clear()
        if size > FILE_BYTES_MAX:
            self._shorten()

    def _shorten(self) -> None:
        lines = self._path.read_bytes().splitlines(keepends=True)
        partial = self._path.with_name(f".{self._path.name}.partial")
        with suppress(OSError):
            partial.write_bytes(b"".join(lines[len(lines) // 2 :]))
            os.replace(partial, self._path)


NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
LOCK_FILE: Final = ".lock"
FOLDER_MODE: Final = 0o750


class PointFile(NamedTuple):
    """A file of a point; *to_ns* is None while it is written."""

    path: str
    size: int
    to_ns: int | None


class Bounds(NamedTuple):
    """Bounds of a point: total bytes, and age (None: unbounded)."""

    bytes_max: int
    age_ns_max: int | None = None


def files_to_delete(files: Sequence[PointFile], bounds: Bounds, now_ns: int) -> list[PointFile]:
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
    recovered: dict[Kind, list[RecoveredFile]] = field(default_factory=dict)
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
                f"{self.folder}: another recorder writes to this point ({holder or 'unknown'}); choose another --point"
            ) from error
        self.alive_ns = os.fstat(self._lock).st_mtime_ns if was_there else None
        with suppress(OSError):  # a full disk: the lock is valid all the same
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        if self.alive_ns is not None:
            self.gaps.end_former(self.alive_ns)
        for kind in Kind:
            self.recovered[kind] = [file for file in map(recover, self._partials(kind)) if file is not None]
            for recovered_file in self.recovered[kind]:
                if recovered_file.torn:
                    unfinished = read_name(recovered_file.name)
                    from_ns = recovered_file.written_ns
                    if recovered_file.path is None and unfinished is not None:
                        from_ns = unfinished.from_ns
                    until_ns = max(recovered_file.written_ns, from_ns)
                    self.gaps.add(Gap(kind, from_ns, until_ns, Reason.TORN, recovered_file.name))

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

    def stored(self) -> list[PointFile]:
        """The files that recorders have written, by their names; others are none of our business."""
        files = []
        for kind in Kind:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.folder / kind) as entries:
                for entry in entries:
                    recorded = read_name(entry.name)
                    if recorded is not None and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            size = entry.stat(follow_symlinks=False).st_size
                            files.append(PointFile(entry.path, size, recorded.to_ns))
        return files

    def keep_within_bounds(self, now_ns: int) -> int:
        """Delete the oldest finished files beyond the bounds and return the remaining bytes.  Deleted files that no store has become a gap."""
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
