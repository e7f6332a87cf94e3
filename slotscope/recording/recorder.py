"""The recorder of one host: a thread for the bus and one for the polls; this one bounds the disk and reports the status."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from cluster_core.formats.landing import Gap, Kind, Reason
from cluster_core.node.state import BUS_PORT_STEP
from slotscope.recording.bus import DELAY_NS, BusRecorder, CaptureOptions
from slotscope.recording.point import GapBook, Point
from slotscope.recording.series import FLUSH_NS, Series
from slotscope.runtime.errors import InputError
from slotscope.runtime.text import plural, size
from slotscope.servers.cluster import BACKOFF_S_MAX, Answer, Collection, Refused, Schedule, collect
from slotscope.servers.node_link import Access, Address

NOT_HERE = "no node of this cluster has an address of this host: name the nodes to record with --node"


@lru_cache(maxsize=4096)
def is_of_this_host(ip: str) -> bool:
    """Whether *ip* is an address of this host: it can be listened on."""
    try:
        family, kind, _, _, place = socket.getaddrinfo(ip, 0, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family, kind) as trial:
            trial.bind(place)
    except OSError:
        return False
    return True


@dataclass(slots=True)
class PollRecorder:
    """Polls the nodes of this host until the collection stops: the *given* ones, and those that they list with an address of this host.

    Without *polls* no answer is written; the nodes are polled to learn their bus ports.
    """

    collection: Collection
    given: Sequence[Address]
    polls: Series | None
    slot_stats: Series | None
    gaps: GapBook
    tell: Callable[[str], None]
    since_ns: int | None = None
    answers: int = 0
    has_failed: bool = False
    """Whether no given node answered at the first try."""
    answered_ns: dict[Address, int] = field(default_factory=dict)
    _begun_ns: int = field(default_factory=time.time_ns)
    _written: dict[Address, tuple[str, tuple[str, str]]] = field(default_factory=dict)
    """File and content of the last answer of each node; an equal answer in the same file is written in short form."""

    def ports(self) -> frozenset[int]:
        """The bus ports of the nodes of this host: none before the first poll, the default ports of the given nodes if no node answers."""
        known = self.collection.bus_ports.copy()
        if known or not self.has_failed:
            return frozenset(known.values())
        return frozenset(address.port + BUS_PORT_STEP for address in self.given if address.port + BUS_PORT_STEP < 65536)

    def run(self) -> None:
        """Record until the collection stops; every answer is then on the disk."""
        self._hold_not_running(self.since_ns is not None)
        try:
            wait_s = self.collection.schedule.interval_s
            while not self.collection.stop.is_set() and not self._start():
                self._turn()
                self.collection.stop.wait(wait_s)
                wait_s = min(wait_s * 2, BACKOFF_S_MAX)
            collect(self.collection, self.take, self.tell)
        finally:
            self.collection.finish()
            for series in (self.polls, self.slot_stats):
                if series is not None:
                    series.end(time.time_ns())
            self._note_room()

    def _start(self) -> bool:
        """Start from the first given node that answers; raises InputError if none of its cluster is on this host."""
        for address in self.given:
            try:
                self.collection.start(address)
            except InputError as error:
                detail = str(error).removeprefix(f"{address}: ")
                self._hold_unreachable(address, True, time.time_ns(), detail)
                continue
            self._hold_unreachable(address, False, time.time_ns())
            if not self.collection.nodes:
                raise InputError(f"{address}: {NOT_HERE}")
            return True
        self.has_failed = True
        return False

    def take(self, batch: Sequence[Answer | Refused]) -> None:
        """Write answers, and gaps for nodes that do not answer."""
        now_ns = time.time_ns()
        for answer in batch:
            if isinstance(answer, Refused):
                since_ns = self.answered_ns.get(answer.address, self._begun_ns)
                self._hold_unreachable(answer.address, True, since_ns, answer.reason)
                continue
            self._write(answer, now_ns)
        self._turn()

    def _write(self, answer: Answer, now_ns: int) -> None:
        self._hold_not_running(False)
        self._hold_unreachable(answer.address, False, answer.ts_ns)
        self.answered_ns[answer.address] = answer.ts_ns
        self.answers += 1
        if answer.refused:
            kind = Kind.SLOT_STATS if answer.refused.startswith("CLUSTER SLOT-STATS") else Kind.POLLS
            gap = Gap(kind, answer.ts_ns, None, Reason.REFUSED, str(answer.address), answer.refused)
            self.gaps.hold(gap, True, now_ns)
        if self.polls is not None:
            self.polls.begin(now_ns)
            written = (self.polls.partial, answer.belief())
            is_same = self._written.get(answer.address) == written
            self._written[answer.address] = written
            line = answer._replace(slot_stats=None).line(is_same=is_same)
            self.polls.add(line.encode("ascii"), now_ns, answer.ts_ns)
        if self.slot_stats is not None and answer.slot_stats is not None:
            line = answer._replace(persistence=None, save=None).line()
            self.slot_stats.add(line.encode("ascii"), now_ns, answer.ts_ns)

    def _turn(self) -> None:
        for series in (self.polls, self.slot_stats):
            if series is not None:
                series.turn(time.time_ns())
        self._note_room()

    def _note_room(self) -> None:
        for kind, series in ((Kind.POLLS, self.polls), (Kind.SLOT_STATS, self.slot_stats)):
            if series is not None:
                gap = Gap(kind, max(series.covered_ns, self._begun_ns), None, Reason.DISK_FULL)
                self.gaps.hold(gap, series.is_full, time.time_ns())

    def _hold_unreachable(self, address: Address, holds: bool, at_ns: int, detail: str = "") -> None:
        """Open or close a gap of the node at *address*; *at_ns* is its start or its end."""
        self.gaps.hold(Gap(Kind.POLLS, at_ns, None, Reason.UNREACHABLE, str(address), detail), holds, at_ns)

    def _hold_not_running(self, holds: bool) -> None:
        since_ns = self._begun_ns if self.since_ns is None else self.since_ns
        self.gaps.hold(Gap(Kind.POLLS, since_ns, None, Reason.NOT_RUNNING), holds, time.time_ns())


TURN_S: Final = 0.5
BOUNDS_S: Final = 2.0
"""Interval at which kept files are counted."""


class RecorderSettings(NamedTuple):
    """Settings of a recording: kinds, nodes of this host, access and schedule of polls, capture of the bus."""

    kinds: frozenset[Kind]
    nodes: Sequence[Address]
    access: Access
    schedule: Schedule
    capture: CaptureOptions
    whole_cluster: bool = False
    """Ask all nodes of the cluster, not only those of this host."""


class Status(NamedTuple):
    """Progress: counts since the start, and bytes on the disk."""

    packets: int
    answers: int
    files: int
    bytes_kept: int
    gaps: int

    def line(self) -> str:
        """One line."""
        return (
            f"{plural(self.packets, 'packet')}, {plural(self.answers, 'answer')};"
            f" {plural(self.files, 'file')} finished, {size(self.bytes_kept)} kept, {plural(self.gaps, 'gap')}"
        )


@dataclass(slots=True)
class Recorder:
    """Records *wanted* at *point*, which is open, until *stop*; *report* gets the status whenever a rotation is due."""

    point: Point
    wanted: RecorderSettings
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
                    if not report_ns - every_ns <= now_ns < report_ns:  # due, or the clock was set back
                        self.report(self.status())
                        report_ns = self.point.rotation.due_ns(now_ns)
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
            held_ns = FLUSH_NS + (DELAY_NS if kind is Kind.BUS else 0)
            return max(series.written_ns for series in recovered) - held_ns
        folder = str(self.point.folder / kind)
        ends = [file.to_ns for file in self.point.stored() if os.path.dirname(file.path) == folder]
        return max((end for end in ends if end is not None), default=self.point.alive_ns)
