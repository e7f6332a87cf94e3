"""Find the logs of the nodes of this host, follow each, and save its read position."""

from __future__ import annotations

import glob
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, Final

from cluster_core.formats.landing import Gap, Kind, Reason, source_of
from cluster_core.formats.server_log import LogReader, LogRow
from slotscope.recording.log_rotation import is_rotated_name
from slotscope.recording.logs import LogFollower, mark_of
from slotscope.recording.point import Point
from slotscope.servers.node_link import Access, Address, LinkError
from slotscope.sources.server_logs import owner_of

TURN_S: Final = 0.25
FIND_S: Final = 10.0
"""Time between two searches for logs."""
NODES_WAIT_S: Final = 5.0
"""Longest wait at the start for the answer of a node, which tells the owner of its log."""
HEAD_LINES_BYTES: Final = 1 << 18
"""Bytes at the start of a log that are searched for its owner."""
LOGS_MAX: Final = 1000


@dataclass(slots=True)
class LogRecorder:
    """Records until *stop*: the files that *patterns* name, else those that the *nodes* say they write (CONFIG GET logfile)."""

    point: Point
    patterns: Sequence[str]
    nodes: Callable[[], Sequence[Address]]
    access: Access
    stop: threading.Event
    followers: dict[str, LogFollower] = field(default_factory=dict)
    _asked: set[Address] = field(default_factory=set)
    _saved: dict[str, Any] = field(default_factory=dict)

    @property
    def lines(self) -> int:
        """Lines recorded so far."""
        return sum(follower.lines for follower in list(self.followers.values()))

    def run(self) -> None:
        """Record until *stop*; every line is then on the disk."""
        saved = self.point.read_state()
        self._saved = dict(list(saved.items())[-LOGS_MAX:])
        begun_s = time.monotonic()
        find_s = 0.0
        try:
            while not self.stop.is_set():
                now_s = time.monotonic()
                if now_s >= find_s and (self.nodes() or now_s - begun_s > NODES_WAIT_S):
                    self._find()
                    find_s = now_s + FIND_S
                for follower in self.followers.values():
                    follower.turn(time.time_ns())
                self.stop.wait(TURN_S)
            for follower in self.followers.values():
                follower.turn(time.time_ns())
        finally:
            for follower in self.followers.values():
                follower.close(time.time_ns())
            with suppress(OSError):  # a full disk: the last saved state stays valid
                self._save()

    def _save(self) -> None:
        self._saved |= {
            path: saved for path, follower in self.followers.items() if (saved := follower.saved()) is not None
        }
        self.point.write_state(self._saved)

    def _find(self) -> None:
        if not self.patterns:
            for address in self.nodes():
                self._ask(address)
            return
        found = [path for pattern in self.patterns for path in (sorted(glob.glob(pattern)) or [pattern])]
        names = {os.path.split(os.path.abspath(path)) for path in found}
        for folder, name in sorted(names):
            if not any(is_rotated_name(name, other) for there, other in names if there == folder):
                path = os.path.join(folder, name)
                if path not in self.followers:
                    self._follow(path, self._source(path))

    def _ask(self, address: Address) -> None:
        """Ask a node for the path of its log, once."""
        if address in self._asked:
            return
        gap = Gap(Kind.LOGS, time.time_ns(), None, Reason.REFUSED, str(address))
        try:
            folder, name = (self._setting(address, setting) for setting in ("dir", "logfile"))
        except LinkError as error:
            self.point.gaps.hold(gap._replace(detail=f"CONFIG GET logfile: {error}"), True, gap.from_ns)
            return
        self.point.gaps.hold(gap, False, gap.from_ns)
        self._asked.add(address)
        if not name:
            missing = gap._replace(
                reason=Reason.LOG_MISSING, detail="it logs to its standard output: name a file with --log"
            )
            self.point.gaps.hold(missing, True, gap.from_ns)
            return
        self._follow(os.path.join(folder, name), source_of(str(address)))

    def _setting(self, address: Address, name: str) -> str:
        reply = self.access.ask(address, "CONFIG", "GET", name)
        match reply:
            case [bytes(), bytes() as value]:
                return value.decode("utf-8", "surrogateescape")
        raise LinkError("not a setting")

    def _follow(self, path: str, source: str) -> None:
        if path in self.followers or len(self.followers) >= LOGS_MAX:
            return
        mark = mark_of(self._saved.get(path), self.point.log_bytes)
        series = self.point.series(Kind.LOGS, source)
        self.followers[path] = LogFollower(path, series, self.point.gaps, self._save, mark, self.point.alive_ns or 0)

    def _source(self, path: str) -> str:
        """The owner of a log by its lines, its name, or as the only node; else the name of the file."""
        here = list(self.nodes())
        port = owner_of(path, first_rows(path)).port
        of_port = [address for address in here if address.port == port] if port else here
        named = source_of(str(of_port[0]) if len(of_port) == 1 else os.path.basename(path))
        taken = {follower.series.source for follower in self.followers.values()}
        names = (named, *(f"{named}.{number}" for number in range(2, LOGS_MAX + 2)))
        return next(name for name in names if name not in taken)


def first_rows(path: str) -> list[LogRow]:
    """The recognised rows in the first lines of a log."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_LINES_BYTES)
    except OSError:
        return []
    return [row for row in LogReader(zone=UTC).feed(head) if isinstance(row, LogRow) and row.kind]
