"""Capture the cluster bus of the nodes of this host: run tcpdump, cut its output into files, restart it when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.formats.landing import Gap, Kind, Reason
from slotscope.recording.gap_book import GapBook
from slotscope.recording.series import Series
from slotscope.recording.tcpdump import STOP_S, Tcpdump, command_of

TURN_S: Final = 0.2
START_S: Final = 10.0
"""How long tcpdump may take until it listens."""
RETRY_S: Final = (1.0, 60.0)
"""A capture that fails is tried again after so long, doubled each time up to so much."""


class CaptureOptions(NamedTuple):
    """The program (tcpdump, or a path of it) and the interface."""

    program: str
    interface: str


@dataclass(slots=True)
class BusRecorder:
    """Records until *stop*; *ports* says which bus ports are those of this host's nodes.  *since_ns* is when the recorder before was last alive."""

    options: CaptureOptions
    series: Series
    gaps: GapBook
    ports: Callable[[], frozenset[int]]
    stop: threading.Event
    since_ns: int | None = None
    packets: int = 0
    _run: Tcpdump | None = None
    _filter: frozenset[int] = frozenset()
    _after_ns: int = 0
    """Packets up to then were taken from the run before."""
    _begun_ns: int = field(default_factory=time.time_ns)
    _last_ns: int = 0
    _dropped: int = 0
    _dropped_ns: int = 0
    _ended_ns: int = 0
    _failed: int = 0
    _next_s: float = 0.0
    _lost_since_ns: int = 0

    def run(self) -> None:
        """Record; returns when all is on the disk."""
        self._lost_since_ns = self._begun_ns if self.since_ns is None else self.since_ns
        self._hold_not_running(self.since_ns is not None)
        try:
            while not self.stop.is_set():
                self._adjust()
                if self._run is None:
                    self.stop.wait(TURN_S)
                else:
                    self._take(self._run, TURN_S)
                    if self._run.has_ended:
                        self._fail(self._run)
                self._turn()
            if self._run is not None:
                self._drain(self._run)
        finally:
            if self._run is not None:
                self._run.end()
                self._run.close()
            self.series.end(self._ended_ns or time.time_ns())
            self._note_room(time.time_ns())

    def _adjust(self) -> None:
        """Capture the present ports; after a change of ports a new run listens before the old one ends."""
        wanted = self.ports()
        if not wanted or (self._run is not None and wanted == self._filter) or time.monotonic() < self._next_s:
            return
        command = command_of(self.options.program, self.options.interface, wanted)
        try:
            begun = Tcpdump(command)
        except OSError as error:
            self._note_failure(f"{self.options.program}: {error.strerror or error}")
            return
        end_s = time.monotonic() + START_S
        while not begun.wait_until_listening(TURN_S) and time.monotonic() < end_s and not self.stop.is_set():
            if self._run is not None:
                self._take(self._run, 0)
        if not begun.is_listening:
            begun.end()
            begun.close()
            self._note_failure(begun.said or "it does not begin to listen")
            return
        if self._run is not None:
            self._drain(self._run)
            self._after_ns = self._last_ns
        self._run, self._filter = begun, wanted
        self._begun_ns = self._dropped_ns = time.time_ns()
        self._dropped = self._failed = self._ended_ns = 0
        self._hold_not_running(False)
        self.gaps.hold(self._failure(""), False, self._begun_ns)

    def _take(self, run: Tcpdump, wait_s: float) -> None:
        """Write the packets that arrive within *wait_s*."""
        lines = run.read(wait_s, self._after_ns)
        now_ns = time.time_ns()
        if run.head and self.series.head != run.head:
            self.series.end(now_ns)
            self.series.head = run.head
        if lines.data:
            self._after_ns, self._last_ns = 0, lines.last_ns
            self.packets += lines.packets
            self.series.add(lines.data, now_ns, lines.last_ns)

    def _turn(self) -> None:
        now_ns = time.time_ns()
        if self._run is not None:
            if self.series.turn(now_ns):
                self._run.ask_counts()
            self._note_drops(self._run, now_ns)
        self._note_room(now_ns)

    def _drain(self, run: Tcpdump) -> None:
        """End a run and write its remaining packets."""
        self._ended_ns = time.time_ns()
        run.end()
        end_s = time.monotonic() + STOP_S
        while not run.has_ended and time.monotonic() < end_s:
            self._take(run, TURN_S)
        run.close()
        self._note_drops(run, time.time_ns())
        self._run = None

    def _fail(self, run: Tcpdump) -> None:
        run.close()
        self._run = None
        now_ns = time.time_ns()
        self._note_drops(run, now_ns)
        self.series.end(now_ns)
        self._lost_since_ns = max(self.series.covered_ns, self._begun_ns)
        self._note_failure(run.said or "it ended")

    def _note_failure(self, detail: str) -> None:
        self._next_s = time.monotonic() + min(RETRY_S[0] * 2.0 ** min(self._failed, 16), RETRY_S[1])
        self._failed += 1
        if self._run is None:
            self._hold_not_running(False)
            self.gaps.hold(self._failure(detail), True, time.time_ns())

    def _failure(self, detail: str) -> Gap:
        return Gap(Kind.BUS, self._lost_since_ns, None, Reason.PROGRAM, self.options.interface, detail)

    def _hold_not_running(self, holds: bool) -> None:
        self.gaps.hold(Gap(Kind.BUS, self._lost_since_ns, None, Reason.NOT_RUNNING), holds, time.time_ns())

    def _note_drops(self, run: Tcpdump, now_ns: int) -> None:
        if run.dropped > self._dropped:
            count = run.dropped - self._dropped
            self.gaps.add(Gap(Kind.BUS, self._dropped_ns, now_ns, Reason.DROPPED, self.options.interface, missed=count))
            self._dropped, self._dropped_ns = run.dropped, now_ns

    def _note_room(self, now_ns: int) -> None:
        from_ns = max(self.series.covered_ns, self._begun_ns)
        self.gaps.hold(Gap(Kind.BUS, from_ns, None, Reason.DISK_FULL), self.series.is_full, now_ns)
