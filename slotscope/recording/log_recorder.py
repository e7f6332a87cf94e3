"""The logs of the nodes of this host: finds them, follows each, keeps how far they were read."""

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
"""Logs are looked for so often."""
NODES_WAIT_S: Final = 5.0
"""At the start it is waited so long for a node's answer, which says whose logs these are."""
HEAD_LINES_BYTES: Final = 1 << 18
"""Of a log, read to see whose it is."""
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
        """Recorded so far."""
        return sum(follower.lines for follower in list(self.followers.values()))

    def run(self) -> None:
        """Record; returns when all is on the disk."""
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
            with suppress(OSError):  # a full disk: what was saved last still holds
                self._save()

    def _save(self) -> None:
        told = {path: saved for path, follower in self.followers.items() if (saved := follower.saved()) is not None}
        self._saved |= told
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
        """Ask a node once where its log is."""
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
        """Whose log it is, by its lines, its name, or because there is one node only; else its name."""
        here = list(self.nodes())
        port = owner_of(path, first_rows(path)).port
        of_port = [address for address in here if address.port == port] if port else here
        named = source_of(str(of_port[0]) if len(of_port) == 1 else os.path.basename(path))
        taken = {follower.series.source for follower in self.followers.values()}
        names = (named, *(f"{named}.{number}" for number in range(2, LOGS_MAX + 2)))
        return next(name for name in names if name not in taken)


def first_rows(path: str) -> list[LogRow]:
    """What the first lines of a log tell."""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_LINES_BYTES)
    except OSError:
        return []
    return [row for row in LogReader(zone=UTC).feed(head) if isinstance(row, LogRow) and row.kind]
