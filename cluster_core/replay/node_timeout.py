"""The node timeout, read off the traffic: a PING is due when the last pong is older than half of it (R32).

The age of the last pong at every PING is taken from what the observer received, gossip included (R44).  Due pings have
ages in one tick above T/2, random ones (R31) below; so T/2 is where the last dense tick of ages begins.  With a long
timeout and few nodes random pings keep every pong young: nothing can be said then.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from cluster_core.gossip.flags import FAILURES
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS
from cluster_core.replay.evidence import Endpoint, Evidence, MessageSeen
from cluster_core.wire.bus import Gossip, Header, MessageType

TICK_MS: Final = 105
"""A tick with its usual lateness (R28)."""
ROUND_MS: Final = 100
AGES_MIN: Final = 20
SETTLED_AGES: Final = 10_000
SETTLED_NS: Final = 60_000_000_000
"""After so many ages, or so much time, an estimate is not revised any more."""
DUE_SHARE_MIN: Final = 0.2
"""The share of pings that must lie in one tick of ages before they are taken for due ones."""
DEFAULT_NODE_TIMEOUT_MS: Final = 15_000
"""The servers' default (section 20 of the rules)."""

PING: Final = int(MessageType.PING)
PONG: Final = int(MessageType.PONG)


class PongWatch:
    """Feed it one observer's evidence; it tells at each PING how old the last pong of its receiver was."""

    def __init__(self) -> None:
        self._pong_ms: dict[str, int] = {}
        self._node_of: dict[int, str] = {}
        self._pending: set[str] = set()

    def note(self, seen: Evidence) -> int | None:
        """Take in one piece of evidence; the age in ms if it is a PING that says something."""
        header = seen.message.header if isinstance(seen, MessageSeen) else None
        if not isinstance(seen, MessageSeen) or not isinstance(header, Header):
            return None
        now_ms = seen.ts_ns // 1_000_000
        if not seen.sent:
            if seen.outbound and header.type == PONG:
                self._node_of[seen.connection] = header.sender
                self._pong_ms[header.sender] = now_ms
                self._pending.discard(header.sender)
            if isinstance(seen.message.body, Gossip):
                _hear(seen.message.body, now_ms, self._pong_ms, self._pending)
        elif seen.outbound and header.type == PING and seen.connection in self._node_of:
            node = self._node_of[seen.connection]
            is_new = node not in self._pending
            self._pending.add(node)
            return now_ms - self._pong_ms[node] if is_new else None
        return None


class TimeoutEstimate:
    """Feed it the evidence of all observers; it is *settled* after `SETTLED_NS` or `SETTLED_AGES` ages."""

    def __init__(self) -> None:
        self._watches: dict[Endpoint, PongWatch] = {}
        self._ages: list[int] = []
        self._start_ns = -1
        self.settled = False

    def note(self, process: Endpoint, seen: Evidence) -> None:
        """Take in one piece of evidence of *process*; times never go back."""
        if self._start_ns < 0:
            self._start_ns = seen.ts_ns
        age_ms = self._watches.setdefault(process, PongWatch()).note(seen)
        if age_ms is not None:
            self._ages.append(age_ms)
        if len(self._ages) >= SETTLED_AGES or seen.ts_ns - self._start_ns >= SETTLED_NS:
            self.settled = True
            self._watches = {}

    def node_timeout_ms(self) -> int | None:
        """What the evidence so far says, rounded to 100 ms; None when it does not tell."""
        return timeout_of(self._ages)


def timeout_of(ages: list[int]) -> int | None:
    """The node timeout that the *ages* of pongs at pings tell, rounded to 100 ms; None if they do not tell."""
    half_ms = due_age_ms(ages)
    return None if half_ms is None else max(ROUND_MS, round(2 * half_ms / ROUND_MS) * ROUND_MS)


def _hear(body: Gossip, now_ms: int, pong_ms: dict[str, int], pending: set[str]) -> None:
    for entry in body.entries:
        told_ms = entry.pong_received_s * 1000
        known_ms = pong_ms.get(entry.node)
        if known_ms is None or entry.node in pending or entry.flags & FAILURES:
            continue
        if known_ms < told_ms <= now_ms + CLOCK_SLACK_MS:
            pong_ms[entry.node] = told_ms


def due_age_ms(ages: list[int]) -> int | None:
    """Where the densest tick of ages begins; None when too few pings lie in it.

    >>> due_age_ms([1001 + i % 100 for i in range(200)])
    1001
    """
    if len(ages) < AGES_MIN:
        return None
    ordered = sorted(ages)
    best, best_count = 0, 0
    for age in ordered:
        count = bisect_right(ordered, age + TICK_MS) - bisect_left(ordered, age)
        if count > best_count:
            best, best_count = age, count
    return best if best_count >= DUE_SHARE_MIN * len(ordered) else None
