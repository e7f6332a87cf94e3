"""Infer when the observer processed its input: order, stalls and unlogged commands.

A server replies to a PING in the event loop pass that reads it. An unanswered PING while the observer sends nothing shows
a stall until it sends again. Retransmitted data, or data answered by RST, waits for its acknowledgement. A connection
that the observer closes and does not reopen within a tick (R29) belonged to a forgotten node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from cluster_core.replay.evidence import Evidence, LinkSeen, LogSeen, MessageSeen, NodePoll
from cluster_core.wire.bus import MessageType

HORIZON_NS: Final = 1_200_000_000
"""Lookahead for a reconnection, or a sign of life (sent each second, R31)."""
ALIVE_NS: Final = 200_000_000
"""Minimum time after closing a link with a message of the observer, to show that it is alive."""
STALL_NS: Final = 150_000_000
"""An unanswered PING for longer, without other messages sent, shows a stall."""
LOSSY_NS: Final = 60_000_000_000
"""After a gap on any connection a missing reconnection may be uncaptured for this long."""
UNREAD_MAX: Final = 10_000
"""Maximum connections with messages that have not arrived."""
HELD_MAX: Final = 50_000
"""Maximum evidence waiting for the observer's next message."""
PING: Final = int(MessageType.PING)


class PacedEvidence(NamedTuple):
    """Evidence with its effective time; *resumed*: the observer stalled until then."""

    ts_ns: int
    evidence: Evidence
    resumed: bool = False


class Pacer:
    """Takes one observer's evidence in time order; returns batches ending with a sent message."""

    def __init__(self) -> None:
        self._ahead: deque[Evidence] = deque()
        self._held: list[Evidence] = []
        self._closed: dict[int, None] = {}
        self._gap_ns = -LOSSY_NS
        self._unread: dict[int, list[MessageSeen]] = {}

    def feed(self, evidence: Evidence) -> list[list[PacedEvidence]]:
        """Add evidence; return batches of certain order and time."""
        if isinstance(evidence, LinkSeen):
            if evidence.what == "gap":
                self._gap_ns = evidence.ts_ns
            elif evidence.what in ("unread", "read"):
                self._note_arrival(evidence)
        self._ahead.append(evidence)
        batches: list[list[PacedEvidence]] = []
        limit_ns = evidence.ts_ns - HORIZON_NS
        while self._ahead[0].ts_ns < limit_ns or len(self._ahead) > HELD_MAX:
            self._settle(self._ahead.popleft(), batches)
        return batches

    def finish(self) -> list[list[PacedEvidence]]:
        """End the input and return the rest."""
        batches: list[list[PacedEvidence]] = []
        while self._ahead:
            self._settle(self._ahead.popleft(), batches)
        if self._held:
            batches.append([PacedEvidence(item.ts_ns, item) for item in self._held])
            self._held = []
        return batches

    def _settle(self, item: Evidence, batches: list[list[PacedEvidence]]) -> None:
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
            batches.append([PacedEvidence(held.ts_ns, held) for held in self._held])
            self._held = []

    def _note_arrival(self, seen: LinkSeen) -> None:
        """Hold messages that have not arrived, or release them when they have."""
        if seen.by_us:
            return
        if seen.what == "read":
            self._ahead.extend(unread._replace(ts_ns=seen.ts_ns) for unread in self._unread.pop(seen.connection, ()))
            return
        lost = [*_received(self._held, seen), *_received(self._ahead, seen)]
        if not lost:
            return
        left = {id(message) for message in lost}
        self._held = [message for message in self._held if id(message) not in left]
        self._ahead = deque(message for message in self._ahead if id(message) not in left)
        self._unread.setdefault(seen.connection, []).extend(lost)
        if len(self._unread) > UNREAD_MAX:
            del self._unread[next(iter(self._unread))]

    def _note_closed(self, connection: int) -> None:
        self._closed[connection] = None
        if len(self._closed) > HELD_MAX:
            del self._closed[next(iter(self._closed))]

    def _release(self, spoke_ns: int) -> list[PacedEvidence]:
        """Release evidence when the observer sends; after a stall it was read only now."""
        held, self._held = self._held, []
        if spoke_ns - held[0].ts_ns > STALL_NS and _is_stalled(held, spoke_ns):
            return [PacedEvidence(spoke_ns, e, True) for e in held]
        return [PacedEvidence(e.ts_ns, e) for e in held]

    def _is_dropped(self, closed: LinkSeen) -> bool:
        """Return whether the live observer does not reconnect to that address, without a gap."""
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


def _is_stalled(held: Sequence[Evidence], spoke_ns: int) -> bool:
    """Return whether a PING waited too long, unless the observer's reply may be missing."""
    if any(isinstance(e, LinkSeen) and e.what == "gap" and e.by_us for e in held):
        return False
    received = (e for e in held if isinstance(e, MessageSeen) and not e.sent)
    unread = (e.ts_ns for e in received if e.message.header.type == PING)
    return spoke_ns - next(unread, spoke_ns) > STALL_NS


def _received(waiting: Iterable[Evidence], unread: LinkSeen) -> Iterator[MessageSeen]:
    """Yield the messages among *waiting* that *unread* marks as not arrived."""
    messages = (message for message in waiting if isinstance(message, MessageSeen) and not message.sent)
    return (
        message for message in messages if message.connection == unread.connection and message.ts_ns >= unread.since_ns
    )
