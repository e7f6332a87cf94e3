"""Write the answers of the nodes of this host (`servers.cluster`) to files."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cluster_core.formats.landing import Gap, Kind, Reason
from cluster_core.node.state import BUS_PORT_STEP
from slotscope.recording.gap_book import GapBook
from slotscope.recording.series import Series
from slotscope.runtime.errors import InputError
from slotscope.servers.cluster import BACKOFF_S_MAX, Answer, Collection, Refused, collect
from slotscope.servers.node_link import Address

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
