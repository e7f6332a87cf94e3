"""Gaps of a recording as lines of ``gaps.jsonl``: one at the start of a gap, one at its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster_core.errors import DecodeError
from cluster_core.formats.landing import Gap, Kind, Reason, latest, read_gap

FILE_BYTES_MAX: Final = 4 << 20
"""Size of ``gaps.jsonl`` above which the older half is removed."""
WAITING_MAX: Final = 10_000
"""Lines that wait for room on a full disk."""


class GapBook:
    """The gaps of one point, for all threads.  *tell* is called with a line for each new gap."""

    def __init__(self, path: Path, tell: Callable[[str], None]) -> None:
        self.count = 0
        self._path = path
        self._tell = tell
        self._open: dict[tuple[Kind, Reason, str], Gap] = {}
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
            self._say(gap)
            self._write(gap)

    def hold(self, gap: Gap, holds: bool, now_ns: int) -> None:
        """Write the start of *gap*, or its end at *now_ns*, unless it is written."""
        key = (gap.kind, gap.reason, gap.subject)
        with self._lock:
            known = self._open.get(key)
            if holds and known is None:
                self._open[key] = gap
                self.count += 1
                self._say(gap)
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

    def _say(self, gap: Gap) -> None:
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
