"""When did the observer read what reached it?  Evidence in order of processing, with stops and silent orders inferred.

A capture shows when a message reached the observer's machine, not when its process read it.  A server answers a PING in
the event loop pass that reads it, so a PING that stays unanswered while the observer sends nothing means that the
process was stopped: everything since then is read when it speaks again.

What is sent again, or answered by a RST, has not arrived.  It waits for its acknowledgement, outside the order.

An order such as CLUSTER FORGET is not on the bus, but its trace is: a server connects again within 100 ms to every node
that it knows (R29), so a connection that the observer itself closed and does not open again was to a forgotten node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from cluster_core.replay.evidence import Evidence, LinkSeen, LogSeen, MessageSeen, NodePoll
from cluster_core.wire.bus import MessageType

HORIZON_NS: Final = 1_200_000_000
"""How far ahead is looked for a reconnection, or for a sign that the observer lives (it sends each second, R31)."""
ALIVE_NS: Final = 200_000_000
"""The observer must have sent something so long after closing a link, or it may be gone itself."""
STALL_NS: Final = 150_000_000
"""A PING that is unanswered for longer, with nothing else sent, means that the process stood still."""
LOSSY_NS: Final = 60_000_000_000
"""After a gap on any connection of the observer a reconnection that is not there may just be missing, for so long."""
UNREAD_MAX: Final = 10_000
"""Connections with messages that have not arrived."""
HELD_MAX: Final = 50_000
"""Bound of the evidence that waits for the observer to speak."""
PING: Final = int(MessageType.PING)


class Paced(NamedTuple):
    """Evidence and when it took effect; *resumed* when the observer stood still until then."""

    ts_ns: int
    evidence: Evidence
    resumed: bool = False


class Pacer:
    """Feed it one observer's evidence in time order; it returns batches that end with something the observer sent."""

    def __init__(self) -> None:
        self._ahead: deque[Evidence] = deque()
        self._held: list[Evidence] = []
        self._closed: dict[int, None] = {}
        self._gap_ns = -LOSSY_NS
        self._unread: dict[int, list[MessageSeen]] = {}

    def feed(self, evidence: Evidence) -> list[list[Paced]]:
        """Add evidence; return the batches whose order and time are certain now."""
        if isinstance(evidence, LinkSeen):
            if evidence.what == "gap":
                self._gap_ns = evidence.ts_ns
            elif evidence.what in ("unread", "read"):
                self._note_arrival(evidence)
        self._ahead.append(evidence)
        batches: list[list[Paced]] = []
        limit_ns = evidence.ts_ns - HORIZON_NS
        while self._ahead[0].ts_ns < limit_ns or len(self._ahead) > HELD_MAX:
            self._settle(self._ahead.popleft(), batches)
        return batches

    def finish(self) -> list[list[Paced]]:
        """No more comes: return the rest."""
        batches: list[list[Paced]] = []
        while self._ahead:
            self._settle(self._ahead.popleft(), batches)
        if self._held:
            batches.append([Paced(item.ts_ns, item) for item in self._held])
            self._held = []
        return batches

    def _settle(self, item: Evidence, batches: list[list[Paced]]) -> None:
        if isinstance(item, LinkSeen) and item.what == "closed":
            if item.connection in self._closed:
                return
            self._note_closed(item.connection)
            if item.by_us and item.outbound and self._is_dropped(item):
                item = item._replace(what="dropped")
        self._held.append(item)
        if (isinstance(item, MessageSeen) and item.sent) or isinstance(item, NodePoll | LogSeen):
            batches.append(self._release(item.ts_ns))
        elif len(self._held) > HELD_MAX:
            batches.append([Paced(held.ts_ns, held) for held in self._held])
            self._held = []

    def _note_arrival(self, seen: LinkSeen) -> None:
        """Set aside messages that have not reached the observer, or hand them on when they have."""
        if seen.by_us:
            return
        if seen.what == "read":
            self._ahead.extend(one._replace(ts_ns=seen.ts_ns) for one in self._unread.pop(seen.connection, ()))
            return
        lost = [*_received(self._held, seen), *_received(self._ahead, seen)]
        if not lost:
            return
        left = {id(one) for one in lost}
        self._held = [one for one in self._held if id(one) not in left]
        self._ahead = deque(one for one in self._ahead if id(one) not in left)
        self._unread.setdefault(seen.connection, []).extend(lost)
        if len(self._unread) > UNREAD_MAX:
            del self._unread[next(iter(self._unread))]

    def _note_closed(self, connection: int) -> None:
        self._closed[connection] = None
        if len(self._closed) > HELD_MAX:
            del self._closed[next(iter(self._closed))]

    def _release(self, spoke_ns: int) -> list[Paced]:
        """The observer speaks: what had reached it since it last spoke was read only now, if it stood still."""
        held, self._held = self._held, []
        unread = (e.ts_ns for e in held if isinstance(e, MessageSeen) and not e.sent and _is_ping(e))
        if any(isinstance(e, LinkSeen) and e.what == "gap" and e.by_us for e in held):  # it may have answered
            return [Paced(e.ts_ns, e) for e in held]
        if spoke_ns - next(unread, spoke_ns) <= STALL_NS:
            return [Paced(e.ts_ns, e) for e in held]
        return [Paced(spoke_ns, e, True) for e in held]

    def _is_dropped(self, closed: LinkSeen) -> bool:
        """Whether the observer lives on but does not connect to that address again, and nothing is missing here."""
        if closed.ts_ns - self._gap_ns < LOSSY_NS:
            return False
        alive = False
        for item in self._ahead:
            if isinstance(item, NodePoll | LogSeen):
                continue
            if item.outbound and item.peer == closed.peer and item.connection != closed.connection:
                return False
            if isinstance(item, MessageSeen) and item.sent and item.ts_ns - closed.ts_ns > ALIVE_NS:
                alive = True
        return alive


def _received(waiting: Iterable[Evidence], unread: LinkSeen) -> Iterator[MessageSeen]:
    """The messages among *waiting* of which *unread* says that they did not arrive."""
    messages = (one for one in waiting if isinstance(one, MessageSeen) and not one.sent)
    return (one for one in messages if one.connection == unread.connection and one.ts_ns >= unread.since_ns)


def _is_ping(seen: MessageSeen) -> bool:
    return seen.message.header.type == PING
