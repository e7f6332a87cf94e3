"""The recorder of one host: a thread for the bus and one for the polls; this one bounds the disk and reports the status."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster_core.formats.landing import Kind
from slotscope.recording.bus import BusRecorder, CaptureOptions
from slotscope.recording.point import Point
from slotscope.recording.polls import PollRecorder, is_of_this_host
from slotscope.recording.series import FLUSH_NS
from slotscope.runtime.text import plural, size
from slotscope.servers.cluster import Collection, Schedule
from slotscope.servers.node_link import Access, Address

TURN_S: Final = 0.5
BOUNDS_S: Final = 2.0
"""What is kept is counted so often."""


class Wanted(NamedTuple):
    """What is recorded: kinds, nodes of this host, how they are asked, how the bus is captured."""

    kinds: frozenset[Kind]
    nodes: Sequence[Address]
    access: Access
    schedule: Schedule
    capture: CaptureOptions
    whole_cluster: bool = False
    """Ask all nodes of the cluster, not only those of this host."""


class Status(NamedTuple):
    """How far it is: counts since the start, and bytes on the disk."""

    packets: int
    answers: int
    files: int
    bytes_kept: int
    gaps: int

    def words(self) -> str:
        """One line."""
        return (
            f"{plural(self.packets, 'packet')}, {plural(self.answers, 'answer')};"
            f" {plural(self.files, 'file')} finished, {size(self.bytes_kept)} kept, {plural(self.gaps, 'gap')}"
        )


@dataclass(slots=True)
class Recorder:
    """Records *wanted* at *point*, which is open, until *stop*; *report* gets the status whenever a rotation is due."""

    point: Point
    wanted: Wanted
    stop: threading.Event
    report: Callable[[Status], None]
    _bytes_kept: int = 0
    _bus: BusRecorder | None = None
    _polls: PollRecorder | None = None
    _workers: list[Future[None]] = field(default_factory=list)

    def run(self, until_s: float) -> Status:
        """Record until *stop*, or until the monotonic clock shows *until_s*; errors of its threads are raised here."""
        runs = self._parts()
        every_ns = self.point.rotation.every_ns
        with ThreadPoolExecutor(len(runs), thread_name_prefix="record") as pool:
            self._workers = [pool.submit(run) for run in runs]
            try:
                bounds_s, report_ns = 0.0, self.point.rotation.due_ns(time.time_ns())
                while (
                    not self.stop.is_set() and time.monotonic() < until_s and not any(w.done() for w in self._workers)
                ):
                    now_ns = time.time_ns()
                    self.point.live(now_ns)
                    if time.monotonic() >= bounds_s:
                        self._bytes_kept = self.point.keep_within_bounds(now_ns)
                        bounds_s = time.monotonic() + BOUNDS_S
                    if now_ns >= report_ns:
                        self.report(self.status())
                        report_ns = max(report_ns + every_ns, now_ns)
                    self.stop.wait(min(TURN_S, max(0.0, until_s - time.monotonic())))
            finally:
                self.stop.set()
        for worker in self._workers:
            worker.result()
        self._bytes_kept = self.point.keep_within_bounds(time.time_ns())
        return self.status()

    def status(self) -> Status:
        """The counts so far."""
        return Status(
            self._bus.packets if self._bus else 0,
            self._polls.answers if self._polls else 0,
            self.point.files,
            self._bytes_kept,
            self.point.gaps.count,
        )

    def _parts(self) -> list[Callable[[], None]]:
        """The function of each thread."""
        point, wanted = self.point, self.wanted
        given = set(wanted.nodes)
        collection = Collection(
            wanted.access,
            wanted.schedule,
            lambda address: wanted.whole_cluster or address in given or is_of_this_host(address.host),
            stop=self.stop,
        )
        series = {kind: point.series(kind) for kind in wanted.kinds}
        self._polls = PollRecorder(
            collection, wanted.nodes, series.get(Kind.POLLS), series.get(Kind.SLOT_STATS), point.gaps, point.tell,
            self._since_ns(Kind.POLLS) if Kind.POLLS in series else None,
        )  # fmt: skip
        runs = [self._polls.run]
        if Kind.BUS in wanted.kinds:
            self._bus = BusRecorder(
                wanted.capture, series[Kind.BUS], point.gaps, self._polls.ports, self.stop, self._since_ns(Kind.BUS)
            )
            runs.append(self._bus.run)
        return runs

    def _since_ns(self, kind: Kind) -> int | None:
        """Start of the gap before this recorder for *kind*; None without an earlier recorder."""
        if self.point.alive_ns is None:
            return None
        recovered = self.point.recovered.get(kind, [])
        if recovered:
            return max(series.written_ns for series in recovered) - FLUSH_NS
        folder = str(self.point.folder / kind)
        ends = [file.to_ns for file in self.point.stored() if os.path.dirname(file.path) == folder]
        return max((end for end in ends if end is not None), default=self.point.alive_ns)
