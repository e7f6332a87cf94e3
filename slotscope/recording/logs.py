"""Follow logs through growth and rotation (`log_rotation`): each line is recorded once, also after a restart.

The offset of the log at which a file begins is saved (`LogFollower.saved`) before the file has data, and the length of an unfinished
file is counted from the file: a killed recorder repeats no line and loses none.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from cluster_core.formats.landing import Gap, Kind, Reason
from slotscope.recording.gap_book import GapBook
from slotscope.recording.log_rotation import HEAD_BYTES, Mark, Sight, Step, is_rotated_name, steps_of, whole_lines
from slotscope.recording.series import Series

READ_BYTES: Final = 1 << 20
"""Bytes of one read; a longer line is recorded in pieces."""
BACKLOG_BYTES_MAX: Final = 16 << 20
"""Bytes at the end of a new log that are recorded."""
QUIET_NS: Final = 1_000_000_000
"""Time without growth after which a renamed log is closed."""


@dataclass(slots=True)
class LogFollower:
    """One log at *path*.  *mark* is the position of the recorder before, at *looked_ns*; *save* is called after changes of `saved`."""

    path: str
    series: Series
    gaps: GapBook
    save: Callable[[], None]
    mark: Mark | None = None
    looked_ns: int = 0
    lines: int = 0
    _file: int | None = None
    _inode: tuple[int, int] = (0, 0)
    _head: bytes = b""
    _at: int = 0
    """The next byte to read."""
    _begun_at: int | None = None
    """Offset in the log at which the open file begins; None without one."""
    _grew_ns: int = 0
    _later: list[Step] = field(default_factory=list)

    def saved(self) -> dict[str, Any] | None:
        """State for the next recorder; None before the first read."""
        mark = (
            self._mark(self._at if self._begun_at is None else self._begun_at) if self._file is not None else self.mark
        )
        if mark is None:
            return None
        return {
            "inode": list(mark.inode),
            "offset": mark.offset,
            "head": mark.head.hex(),
            "partial": self.series.partial,
        }

    def turn(self, now_ns: int) -> None:
        """Record new lines."""
        current = see(self.path)
        self.gaps.hold(Gap(Kind.LOGS, now_ns, None, Reason.LOG_MISSING, self.path), current is None, now_ns)
        if self._file is None and current is not None:
            self._go_on(current, now_ns)
        while self._file is not None and self._read_on(self._file, current, now_ns):
            pass
        self.series.turn(now_ns)
        self._settle()

    def close(self, now_ns: int) -> None:
        """Finish the open file and close the log."""
        self.series.end(now_ns)
        self._settle()
        if self._file is not None:
            self.mark = self._mark(self._at)
            os.close(self._file)
            self._file = None

    def _mark(self, offset: int) -> Mark:
        return Mark(self._inode, offset, self._head)

    def _go_on(self, current: Sight, now_ns: int, *, is_read: bool = False) -> None:
        """Continue after `mark`, or at the end of a new log."""
        if self.mark is None:
            self._later = [Step(current, line_start(self.path, current.size - BACKLOG_BYTES_MAX))]
        else:
            steps, lost = steps_of(self.mark, current, siblings(self.path), self.looked_ns, is_read=is_read)
            if lost:
                self.gaps.add(Gap(Kind.LOGS, self.looked_ns, now_ns, Reason.LOG_LOST, self.path, lost))
            self._later = list(steps)
        self._next(now_ns)

    def _next(self, now_ns: int) -> None:
        """Open the next step with a file that still exists, under any name."""
        while self._later:
            step = self._later.pop(0)
            file = self._opened(step)
            if file is not None:
                self._file, self._inode = file, inode_of(os.fstat(file))
                self._head = os.pread(file, HEAD_BYTES, 0)
                self._at, self._grew_ns = step.start, now_ns
                return
            gone = f"{step.seen.path} was removed before it was read"
            self.gaps.add(Gap(Kind.LOGS, self.looked_ns or now_ns, now_ns, Reason.LOG_LOST, self.path, gone))

    def _opened(self, step: Step) -> int | None:
        for path in (step.seen.path, *(one.path for one in siblings(self.path))):
            try:
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError:
                continue
            head = os.pread(file, HEAD_BYTES, 0)
            is_it = (
                inode_of(os.fstat(file)) == step.seen.inode if not step.seen.head else head.startswith(step.seen.head)
            )
            if is_it and os.fstat(file).st_size >= step.seen.size:
                return file
            os.close(file)
        return None

    def _copy(self, file: int, now_ns: int, *, to_the_end: bool = False) -> None:
        """Record whole lines; *to_the_end*, an unfinished last line, too."""
        while data := os.pread(file, READ_BYTES, self._at):
            whole = data if to_the_end or (len(data) == READ_BYTES and b"\n" not in data) else whole_lines(data)
            if not whole or not self._begin(now_ns):
                return
            self.series.add(whole, now_ns, now_ns)
            self._at += len(whole)
            self._grew_ns = now_ns
            self.lines += whole.count(b"\n")
            self._settle()

    def _begin(self, now_ns: int) -> bool:
        """Whether a file is open for writing; its start is saved first."""
        if self._begun_at is not None:
            return True
        self.series.begin(now_ns)
        if not self.series.partial:
            return False
        self._begun_at = self._at
        if self._file is not None and len(self._head) < HEAD_BYTES:
            self._head = os.pread(self._file, HEAD_BYTES, 0)
        try:
            self.save()
        except OSError:  # a full disk: lines recorded now would be recorded again
            self.series.end(now_ns)
            self._settle()
            return False
        return True

    def _settle(self) -> None:
        """After the end of a file, go back to the first byte that is not on the disk."""
        if self._begun_at is not None and not self.series.partial:
            self._at, self._begun_at = self._begun_at + self.series.stored, None
            with suppress(OSError):
                self.save()

    def _read_on(self, file: int, current: Sight | None, now_ns: int) -> bool:
        """Record new lines of the open file; True if another file was opened."""
        is_whole = self._is_whole(file)
        if is_whole:
            self._copy(file, now_ns)
        if current is None:
            return False
        if is_whole and current.inode == self._inode:
            self.looked_ns = now_ns
            return False
        return self._leave(file, current, now_ns, is_whole=is_whole)

    def _is_whole(self, file: int) -> bool:
        """Whether the bytes that were read are still there, not truncated or replaced."""
        return os.fstat(file).st_size >= self._at and os.pread(file, HEAD_BYTES, 0).startswith(self._head)

    def _leave(self, file: int, current: Sight, now_ns: int, *, is_whole: bool) -> bool:
        """Whether the next file was opened: not before a renamed file is quiet, nor on a full disk."""
        if is_whole:
            if not self._later and now_ns - self._grew_ns < QUIET_NS:
                return False
            self._copy(file, now_ns, to_the_end=True)
        self.series.end(now_ns)
        self._settle()
        if is_whole and os.fstat(file).st_size > self._at:
            return False
        self.close(now_ns)
        if self._later:
            self._next(now_ns)
        else:
            self._go_on(current, now_ns, is_read=is_whole)
        return True


def mark_of(saved: Any, plain_bytes: Callable[[str], int]) -> Mark | None:
    """The mark in the state *saved* by `LogFollower.saved`, None if there is none; *plain_bytes* counts those of an unfinished file by name."""
    try:
        offset = int(saved["offset"]) + (plain_bytes(str(saved["partial"])) if saved["partial"] else 0)
        device, inode = map(int, saved["inode"])
        return Mark((device, inode), offset, bytes.fromhex(saved["head"])) if offset >= 0 else None
    except (KeyError, TypeError, ValueError):
        return None


def inode_of(status: os.stat_result) -> tuple[int, int]:
    """Device and inode."""
    return status.st_dev, status.st_ino


def see(path: str) -> Sight | None:
    """The present state of a log; None if it is no readable file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not os.path.isfile(path):
            return None
        return Sight(path, inode_of(status), status.st_size, status.st_mtime_ns, os.pread(file, HEAD_BYTES, 0))
    finally:
        os.close(file)


def siblings(path: str) -> list[Sight]:
    """The rotated parts of a log."""
    folder, name = os.path.split(path)
    try:
        names = [one for one in os.listdir(folder or ".") if is_rotated_name(one, name)]
    except OSError:
        return []
    return [sight for one in sorted(names) if (sight := see(os.path.join(folder, one))) is not None]


def line_start(path: str, least: int) -> int:
    """Offset of the first line at or after byte *least* of a file."""
    if least <= 0:
        return 0
    try:
        with open(path, "rb") as file:
            file.seek(least - 1)
            return least - 1 + len(file.readline(READ_BYTES))
    except OSError:
        return least
