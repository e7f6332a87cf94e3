"""Age of a node's last pong at each PING to it, gossip included, and the node timeout T from these ages (R31, R32, R44).

Ages of due pings lie in one tick above T/2, those of random pings below, so T/2 starts the last dense tick. With a long
timeout and few nodes, random pings keep all pongs young, and T is unknown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import INITIATOR, UNSEEN
from cluster_core.gossip.flags import FAILURES
from cluster_core.gossip.gossip_section import CLOCK_SLACK_MS
from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.packets import Rows
from cluster_core.kernels.compiled import njit
from cluster_core.wire.bus import MessageType

_INITIATOR, _UNSEEN, _FAILURES, _SLACK_MS = INITIATOR, UNSEEN, int(FAILURES), CLOCK_SLACK_MS
_PING, _PONG = int(MessageType.PING), int(MessageType.PONG)
OPENER, ACCEPTOR, PONGED, ENDS = range(4)
"""Columns of `NodeStates.ends`: opener of a connection, acceptor, and sender of the last pong there."""
START_NS, NOW_NS, AGES, IS_OVER, TURNS = range(5)
"""Entries of the turns of `note_ages`: first and last time, number of ages, whether it is over."""
NOBODY: Final = -1
NODES_MAX: Final = 2_000
"""Maximum number of watched nodes."""
CONNECTIONS_MAX: Final = 100_000
_ROWS_MIN: Final = 64


class NodeStates(NamedTuple):
    """State of nodes by number: *ends* of connections, each node's (row) last pong time of others in ms (0: never), and
    whether it waits for one.
    """

    ends: NDArray[np.int32]
    pong_ms: NDArray[np.int64]
    is_pending: NDArray[np.bool_]


class MessagesInTurn(NamedTuple):
    """Messages in turn (other numbers are no messages): connection, sender (`NOBODY`: missing), and gossip entries from
    *first* on, with *about* as node.
    """

    messages: Rows
    order: NDArray[np.int64]
    connections: NDArray[np.int32]
    senders: NDArray[np.int32]
    gossip: Rows
    first: NDArray[np.int64]
    about: NDArray[np.int32]


@njit()
def note_ages(
    seen: MessagesInTurn, known: NodeStates, longest_ns: int, turns: NDArray[np.int64], ages: NDArray[np.int64]
) -> None:
    """Process messages until *ages* (ms) is full, or *longest_ns* have passed since the first one."""
    for row in seen.order:
        if 0 <= row < seen.senders.shape[0] and seen.senders[row] >= 0 and seen.messages[row].direction != _UNSEEN:
            end = OPENER if seen.messages[row].direction == _INITIATOR else ACCEPTOR
            if known.ends[seen.connections[row], end] == NOBODY:
                known.ends[seen.connections[row], end] = seen.senders[row]
    for row in seen.order:
        if row < 0 or row >= seen.senders.shape[0] or seen.senders[row] < 0:
            continue
        message = seen.messages[row]
        if message.direction == _UNSEEN:
            continue
        turns[NOW_NS] = max(turns[NOW_NS], message.ts_ns)
        if turns[START_NS] < 0:
            turns[START_NS] = turns[NOW_NS]
        ends, now_ms = known.ends[seen.connections[row]], turns[NOW_NS] // 1_000_000
        opens = message.direction == _INITIATOR
        hearer = ends[ACCEPTOR] if opens else ends[OPENER]
        if opens and message.type == _PING and ends[PONGED] >= 0:
            pinged = ends[PONGED]
            if not known.is_pending[ends[OPENER], pinged]:
                known.is_pending[ends[OPENER], pinged] = True
                ages[turns[AGES]] = now_ms - known.pong_ms[ends[OPENER], pinged]
                turns[AGES] += 1
        if hearer >= 0:
            if not opens and message.type == _PONG:
                ends[PONGED] = seen.senders[row]
                known.pong_ms[hearer, ends[PONGED]] = now_ms
                known.is_pending[hearer, ends[PONGED]] = False
            _hear(seen, row, hearer, now_ms, known)
        if turns[AGES] == ages.shape[0] or turns[NOW_NS] - turns[START_NS] >= longest_ns:
            turns[IS_OVER] = 1
            return


@njit()
def _hear(seen: MessagesInTurn, row: int, hearer: int, now_ms: int, known: NodeStates) -> None:
    """Update *hearer*'s pong times from the gossip of a message."""
    for at in range(seen.first[row], seen.first[row + 1]):
        node = seen.about[at]
        if node < 0 or known.is_pending[hearer, node] or seen.gossip[at].node_flags & _FAILURES:
            continue
        gossiped_ms, known_ms = seen.gossip[at].pong_received_s * 1000, known.pong_ms[hearer, node]
        if known_ms and known_ms < gossiped_ms <= now_ms + _SLACK_MS:
            known.pong_ms[hearer, node] = gossiped_ms


class PongAges:
    """Takes all messages in turn; it is over, and *ages* (ms) are final, after a number of ages or a time."""

    def __init__(self, ages_max: int, longest_ns: int) -> None:
        self.ages: list[int] = []
        self.is_over = False
        self._ages_max, self._longest_ns = ages_max, longest_ns
        self._start_ns = self._now_ns = -1
        self._forget()

    def note(self, batch: BusBatch, senders: NDArray[np.int32], order: NDArray[np.int64], nodes: Sequence[str]) -> None:
        """Take the messages of *batch* in *order*; *senders* are numbers of *nodes*, -1 if missing."""
        numbers = self._numbers_of(nodes)
        gossip = batch.gossip
        first = np.searchsorted(gossip.message, np.arange(len(batch) + 1))
        connections = self._connections_of(batch.messages.connection)
        seen = MessagesInTurn(batch.messages, order, connections, numbers[senders], gossip, first, numbers[gossip.node])
        turns = np.array([self._start_ns, self._now_ns, 0, 0], np.int64)
        ages = np.empty(self._ages_max - len(self.ages), np.int64)
        note_ages(seen, self._known, self._longest_ns, turns, ages)
        self.ages += ages[: turns[AGES]].tolist()
        self._start_ns, self._now_ns, self.is_over = int(turns[START_NS]), int(turns[NOW_NS]), bool(turns[IS_OVER])
        if self.is_over:
            self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._connections: dict[int, int] = {}
        self._known = NodeStates(
            np.full((_ROWS_MIN, ENDS), NOBODY, np.int32),
            np.zeros((_ROWS_MIN, _ROWS_MIN), np.int64),
            np.zeros((_ROWS_MIN, _ROWS_MIN), np.bool_),
        )

    def _numbers_of(self, nodes: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of *nodes*, `NOBODY` if not watched, and at the end."""
        for node in nodes:
            if len(self._numbers) < NODES_MAX:
                self._numbers.setdefault(node, len(self._numbers))
        ends, *tables = self._known
        more = len(self._numbers) - len(tables[0])
        if more > 0:
            more += len(self._numbers)
            self._known = NodeStates(ends, *(np.pad(table, ((0, more), (0, more))) for table in tables))
        return np.array([*(self._numbers.get(node, NOBODY) for node in nodes), NOBODY], np.int32)

    def _connections_of(self, connections: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of *connections*."""
        if len(self._connections) > CONNECTIONS_MAX:
            self._connections.clear()
            self._known.ends[:] = NOBODY
        numbers, which = np.unique(connections, return_inverse=True)
        rows = [self._connections.setdefault(number, len(self._connections)) for number in numbers.tolist()]
        ends = self._known.ends
        if len(self._connections) > len(ends):
            more = 2 * len(self._connections) - len(ends)
            self._known = self._known._replace(ends=np.pad(ends, ((0, more), (0, 0)), constant_values=NOBODY))
        return np.array(rows, np.int32)[which]


TICK_MS: Final = 105
"""Cron period with its usual delay (R28)."""
ROUND_MS: Final = 100
AGES_MIN: Final = 20
SETTLED_AGES: Final = 10_000
SETTLED_NS: Final = 60_000_000_000
"""Number of ages, or time, after which the estimate is final."""
DUE_SHARE_MIN: Final = 0.2
"""Minimum share of pings within one tick of ages to count as due pings."""
DEFAULT_NODE_TIMEOUT_MS: Final = 15_000
"""The servers' default."""


def timeout_of(ages: list[int]) -> int | None:
    """Return the node timeout from *ages* of pongs at pings, rounded to 100 ms; None if unknown."""
    half_ms = due_age_ms(ages)
    return None if half_ms is None else max(ROUND_MS, round(2 * half_ms / ROUND_MS) * ROUND_MS)


def due_age_ms(ages: list[int]) -> int | None:
    """Return the start of the densest tick of ages; None if too few pings lie in it.

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
