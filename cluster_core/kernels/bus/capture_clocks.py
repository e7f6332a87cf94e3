"""How far are the clocks of two capture points apart?

Three kinds of evidence, the best first.  A segment that both points captured was there at one time: the differences of
its two stamps are the offset, and how it changes.  What one point saw must have come before what the other saw:
a segment before those behind it and before its acknowledgement, a lower epoch or replication offset of a node before
a higher one; that bounds the offset from both sides.  And a node sends the copies of a FAIL or of a request for votes
in one pass, and tells in gossip the second of its own clock.

An offset is that of the second point's clock ahead of the first's, in ns.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.kernels.bus.batch import BusBatch
from cluster_core.kernels.bus.containers import Hashes, Longs, Segments
from cluster_core.wire.bus_message import MessageType
from cluster_core.wire.tcp_stream import ACK, JUMP_BYTES_MAX, SYN

COMMON_MIN: Final = 20
"""Fewer segments in two captures may be retransmissions."""
COMMON_SHARE: Final = 0.5
"""So many of the differences must lie together."""
TOGETHER_NS: Final = 20_000_000
"""How near together: more than packets wait in a network."""
KNOTS_MAX: Final = 64
COMMON_PER_KNOT: Final = 50
KNOT_NS_MIN: Final = 2_000_000_000
"""How finely a drift is followed."""
ORDER_SLACK_NS: Final = 1_000_000
"""Messages of one node on several sockets may leave out of order (R161)."""
CPU_SLACK_NS: Final = 50_000
"""Packets of several processors are captured out of order by microseconds."""
CERTAIN_NS: Final = 50_000_000
"""An offset that is bounded more narrowly is corrected."""
BROADCAST_NS: Final = 50_000_000
"""The copies of one broadcast leave within so much."""
BROADCAST_SLACK_NS: Final = 2_000_000
GOSSIP_SLACK_NS: Final = 50_000_000
"""Gossip tells seconds; the least delay of many is below this."""
GOSSIP_MIN: Final = 30
_SECOND: Final = 1_000_000_000
_SEQUENCES: Final = 1 << 32
_BROADCAST: Final = (MessageType.FAIL, MessageType.AUTH_REQUEST)
FAR_NS: Final = 1 << 62
"""Not bounded."""


class Basis(StrEnum):
    """What an offset rests on."""

    REFERENCE = "reference"
    COPIES = "copies"
    ORDER = "order"
    BROADCAST = "broadcast"
    GOSSIP = "gossip"
    SERIES = "series"
    BOUNDS = "bounds"
    UNKNOWN = "unknown"


class Offset(NamedTuple):
    """The clock of a point against another: at *knots_ns* of its own clock it was ahead by *ahead_ns* (between them
    linearly), give or take *spread_ns*; *common* segments were seen at both.

    *low_ns* and *high_ns* are what causality allows, where that was asked (else 0).
    """

    basis: Basis
    knots_ns: tuple[int, ...]
    ahead_ns: tuple[int, ...]
    spread_ns: int = 0
    common: int = 0
    low_ns: int = 0
    high_ns: int = 0

    def corrected(self, ts_ns: Longs) -> Longs:
        """Times of its own as times of the reference."""
        if len(self.ahead_ns) == 1:
            return ts_ns - self.ahead_ns[0]
        base, least = self.knots_ns[0], self.ahead_ns[0]
        knots = [knot - base for knot in self.knots_ns]
        more = np.interp(ts_ns - base, knots, [ahead - least for ahead in self.ahead_ns])
        return ts_ns - least - np.rint(more).astype(np.int64)

    def behind(self, other: Offset) -> Offset:
        """This offset is against a point whose own is *other*: both together, against the reference of *other*."""
        knots = np.array(self.knots_ns, dtype=np.int64)
        there = knots - np.array(self.ahead_ns, dtype=np.int64)
        ahead = knots - other.corrected(there)
        basis = self.basis if other.is_certain else other.basis
        spread_ns = self.spread_ns + other.spread_ns
        return self._replace(basis=basis, spread_ns=spread_ns, ahead_ns=tuple(ahead.tolist()))

    @property
    def is_certain(self) -> bool:
        """Whether the order of what two points saw is known after correction, but for *spread_ns*."""
        return self.basis not in (Basis.BOUNDS, Basis.UNKNOWN)

    @property
    def drift_ns(self) -> int:
        """How much it changed from the first knot to the last."""
        return self.ahead_ns[-1] - self.ahead_ns[0]


REFERENCE: Final = Offset(Basis.REFERENCE, (0,), (0,))


# -- segments that both saw --------------------------------------------------------------------------------------------


def common_times(first: Segments, second: Segments) -> tuple[Longs, Longs, NDArray[np.bool_]]:
    """When each point saw the segments that both saw, once each; and which way they went.  In order of the second."""
    one, two = _unique(first), _unique(second)
    _, at_one, at_two = np.intersect1d(first.mark[one], second.mark[two], assume_unique=True, return_indices=True)
    at_one, at_two = one[at_one], two[at_two]
    order = np.argsort(second.ts_ns[at_two], kind="stable")
    at_one, at_two = at_one[order], at_two[order]
    return first.ts_ns[at_one], second.ts_ns[at_two], second.upward[at_two]


def _unique(segments: Segments) -> NDArray[np.intp]:
    """Segments with payload, SYN or FIN that were seen once."""
    told = np.flatnonzero(segments.end > segments.start)
    _, at, counts = np.unique(segments.mark[told], return_index=True, return_counts=True)
    alone: NDArray[np.intp] = told[at[counts == 1]]
    return alone


def offset_of_copies(first_ns: Longs, second_ns: Longs, upward: NDArray[np.bool_]) -> Offset | None:
    """The offset from the times of segments that both points saw; None where they do not agree on one.

    On the way from one point to the other a segment takes time, on the way back as well, so the two directions are
    measured apart and the middle is taken.
    """
    ahead = second_ns - first_ns
    if len(ahead) < COMMON_MIN:
        return None
    knots, values, spreads = [], [], []
    count = max(1, min(KNOTS_MAX, len(ahead) // COMMON_PER_KNOT, int(second_ns[-1] - second_ns[0]) // KNOT_NS_MIN))
    for part in np.array_split(np.arange(len(ahead)), count):
        middle = _middle(ahead[part], upward[part])
        near = np.abs(ahead[part] - middle) <= TOGETHER_NS
        if near.mean() < COMMON_SHARE:
            return None
        knots.append(int(np.median(second_ns[part])))
        values.append(middle)
        spreads.append(int(np.percentile(np.abs(ahead[part][near] - middle), 90)))
    return Offset(Basis.COPIES, tuple(knots), tuple(values), max(spreads), len(ahead))


def _middle(ahead: Longs, upward: NDArray[np.bool_]) -> int:
    ways = [ahead[upward], ahead[~upward]]
    if min(map(len, ways)) < COMMON_MIN // 4:
        return int(np.median(ahead))
    return int(sum(int(np.median(way)) for way in ways) // 2)


# -- what must come before what ----------------------------------------------------------------------------------------


class Ladder(NamedTuple):
    """Something that only grows, as one point saw it: at *reached_ns* it had *reached*, at *below_ns* it was not beyond *below*."""

    reached: Longs
    reached_ns: Longs
    below: Longs
    below_ns: Longs


Ladders = dict[int | tuple[str, str], Ladder]


def stream_ladders(segments: Segments) -> Ladders:
    """The bytes of every direction: sent in order, and acknowledged after that."""
    found: Ladders = {}
    has_ack = segments.flags & ACK != 0
    by_way, by_back = _groups(segments.way), _groups(segments.back)
    for way in by_way.keys() | by_back.keys():
        sent = by_way.get(way, np.zeros(0, dtype=np.intp))
        acks = by_back.get(way, np.zeros(0, dtype=np.intp))
        acks = acks[has_ack[acks]]
        if len(np.unique(segments.start[sent][segments.flags[sent] & SYN != 0])) > 1:
            continue  # the ports were used twice
        fresh = _fresh(segments.start[sent], segments.end[sent])
        found[way] = Ladder(
            np.concatenate((segments.start[sent], segments.end[sent], segments.ack[acks])),
            np.concatenate((segments.ts_ns[sent], segments.ts_ns[sent], segments.ts_ns[acks])),
            segments.start[sent][fresh],
            segments.ts_ns[sent][fresh],
        )
    return found


def _groups(values: Hashes) -> dict[int, NDArray[np.intp]]:
    order = np.argsort(values, kind="stable")
    edges = np.flatnonzero(np.diff(values[order])) + 1
    return {int(values[part[0]]): part for part in np.split(order, edges) if len(part)}


def _fresh(start: Longs, end: Longs) -> NDArray[np.bool_]:
    """Segments that are no retransmission as far as this point can see."""
    if not len(start):
        return np.zeros(0, dtype=np.bool_)
    begin = _unwrapped(start, int(start[0]))
    reached = np.maximum.accumulate(_unwrapped(end, int(start[0])))
    before = np.concatenate(([-FAR_NS], reached[:-1]))
    return (begin >= before) & (end > start)


def _unwrapped(positions: Longs, base: int) -> Longs:
    return (positions - base + _SEQUENCES // 2) % _SEQUENCES - _SEQUENCES // 2


def bounds(first: Ladders, second: Ladders, *, wraps: bool) -> tuple[int, int, int]:
    """What order allows of the offset: least, greatest, and by how many ladders; they may contradict (least above).

    Where ladders contradict each other (a retransmission, a reset), what most of them allow.
    """
    spans = []
    for key in first.keys() & second.keys():
        span = _span(first[key], second[key], wraps=wraps)
        if span is not None:
            spans.append(span)
    if not spans:
        return -FAR_NS, FAR_NS, 0
    edges = sorted([(low, 0) for low, _ in spans] + [(high, 1) for _, high in spans])
    depth = best = 0
    low, high = -FAR_NS, FAR_NS
    for at, (edge, ends) in enumerate(edges):
        depth += -1 if ends else 1
        if not ends and depth > best:
            best, low = depth, edge
            high = next(value for value, is_end in edges[at + 1 :] if is_end)
    return low, high, best


def _span(one: Ladder, two: Ladder, *, wraps: bool) -> tuple[int, int] | None:
    ladders = [one, two]
    slack_ns = CPU_SLACK_NS if wraps else ORDER_SLACK_NS
    if wraps:
        base = int(next((ladder.reached[0] for ladder in ladders if len(ladder.reached)), 0))
        ladders = [_rebased(ladder, base) for ladder in ladders]
    low = _latest_before(ladders[0], ladders[1])
    high = _latest_before(ladders[1], ladders[0])
    if low is None and high is None:
        return None
    low_ns = -FAR_NS if low is None else low - slack_ns
    high_ns = FAR_NS if high is None else -high + slack_ns
    return (low_ns, high_ns) if low_ns <= high_ns else None


def _rebased(ladder: Ladder, base: int) -> Ladder:
    reached, below = _unwrapped(ladder.reached, base), _unwrapped(ladder.below, base)
    here, there = np.abs(reached) < JUMP_BYTES_MAX, np.abs(below) < JUMP_BYTES_MAX
    return Ladder(reached[here], ladder.reached_ns[here], below[there], ladder.below_ns[there])


def _latest_before(reached: Ladder, below: Ladder) -> int | None:
    """The greatest (time at which *below* was lower) - (time at which *reached* had got there); None without any."""
    if not len(reached.reached) or not len(below.below):
        return None
    order = np.argsort(below.below, kind="stable")
    latest = np.maximum.accumulate(below.below_ns[order])
    at = np.searchsorted(below.below[order], reached.reached, side="left") - 1
    seen = at >= 0
    return int((latest[at[seen]] - reached.reached_ns[seen]).max()) if seen.any() else None


# -- what nodes say ----------------------------------------------------------------------------------------------------


class Sayings:
    """What the messages of one capture tell of time: feed it batches (`take`)."""

    def __init__(self) -> None:
        self._rising: dict[tuple[str, str], tuple[list[Longs], list[Longs]]] = {}
        self._broadcasts: dict[tuple[str, int, int, str], int] = {}
        self._delays: dict[str, tuple[int, int]] = {}

    def take(self, batch: BusBatch) -> None:
        """Take the messages of one batch."""
        at = batch.messages
        if not len(at):
            return
        whole = np.flatnonzero(~np.asarray(at.light) & (np.asarray(at.captured) >= 80))
        senders = np.asarray(at.sender)[whole]
        for number in np.unique(senders).tolist():
            rows = whole[senders == number]
            node = batch.node(number)
            for name in ("current_epoch", "repl_offset"):
                values, times = self._rising.setdefault((node, name), ([], []))
                values.append(np.minimum(at[name][rows], np.uint64(FAR_NS)).astype(np.int64))
                times.append(np.asarray(at.ts_ns)[rows])
        for row in np.flatnonzero(np.isin(np.asarray(at.type), _BROADCAST) & ~np.asarray(at.light)).tolist():
            told = at[row]
            key = (batch.node(told.sender), int(told.type), int(told.current_epoch), batch.node(told.subject))
            self._broadcasts[key] = min(self._broadcasts.get(key, FAR_NS), int(told.ts_ns))
        self._take_gossip(batch)

    def _take_gossip(self, batch: BusBatch) -> None:
        gossip = batch.gossip
        if not len(gossip):
            return
        latest = np.zeros(len(batch.messages), dtype=np.int64)
        np.maximum.at(latest, np.asarray(gossip.message), np.asarray(gossip.pong_received_s))
        rows = np.flatnonzero(latest)
        delays = np.asarray(batch.messages.ts_ns)[rows] - latest[rows] * _SECOND
        senders = np.asarray(batch.messages.sender)[rows]
        for number in np.unique(senders).tolist():
            mine = delays[senders == number]
            least, count = self._delays.get(batch.node(number), (FAR_NS, 0))
            self._delays[batch.node(number)] = (min(least, int(mine.min())), count + len(mine))

    def ladders(self) -> Ladders:
        """Epochs and replication offsets of every node that only grew."""
        found: Ladders = {}
        for key, (values, times) in self._rising.items():
            value, ts_ns = np.concatenate(values), np.concatenate(times)
            order = np.argsort(ts_ns, kind="stable")
            value, ts_ns = value[order], ts_ns[order]
            late = np.searchsorted(ts_ns, ts_ns - ORDER_SLACK_NS, side="left")
            top = np.maximum.accumulate(value)
            if (value < np.where(late > 0, top[np.maximum(late - 1, 0)], -1)).any():
                continue  # it fell: a reset or a full resync
            found[key] = Ladder(value, ts_ns, value, ts_ns)
        return found

    def offset_by_broadcasts(self, other: Sayings) -> tuple[int, int] | None:
        """The offset and its spread by copies of one broadcast."""
        ahead = [other._broadcasts[key] - ts_ns for key, ts_ns in self._broadcasts.items() if key in other._broadcasts]
        if not ahead:
            return None
        middle = int(np.median(ahead))
        near = [value for value in ahead if abs(value - middle) <= BROADCAST_NS]
        if 2 * len(near) <= len(ahead):
            return None
        return int(np.median(near)), max(abs(value - middle) for value in near) + BROADCAST_SLACK_NS

    def offset_by_gossip(self, other: Sayings) -> tuple[int, int] | None:
        """The offset and its spread by the seconds that nodes tell in gossip."""
        ahead = [
            other._delays[node][0] - least
            for node, (least, count) in self._delays.items()
            if count >= GOSSIP_MIN and other._delays.get(node, (0, 0))[1] >= GOSSIP_MIN
        ]
        if not ahead:
            return None
        middle = int(np.median(ahead))
        return middle, max(GOSSIP_SLACK_NS, int(np.median(np.abs(np.array(ahead) - middle))))


def offset_of_order(first: Segments, second: Segments, sayings: Iterable[Sayings] = ()) -> Offset:
    """The offset of two captures without a common segment.

    `Basis.UNKNOWN` where order allows that there is none, `Basis.BOUNDS` with the middle where it does not.  *sayings*
    of both are only asked for when TCP does not tell.
    """
    low, high, found = bounds(stream_ladders(first), stream_ladders(second), wraps=True)
    if found and high - low <= 2 * CERTAIN_NS:
        return Offset(Basis.ORDER, (0,), ((low + high) // 2,), (high - low + 1) // 2, 0, low, high)
    told = list(sayings)
    if len(told) != 2:
        return Offset(Basis.UNKNOWN, (0,), (0,), 0, 0, low, high)
    one, two = told
    least, greatest, more = bounds(one.ladders(), two.ladders(), wraps=False)
    if more and max(low, least) <= min(high, greatest):
        low, high = max(low, least), min(high, greatest)
    guesses = [
        (Basis.ORDER, ((low + high) // 2, (high - low + 1) // 2)),
        (Basis.BROADCAST, one.offset_by_broadcasts(two)),
        (Basis.GOSSIP, one.offset_by_gossip(two)),
    ]
    fit = [
        (guess[1], at, basis, min(max(guess[0], low), high))
        for at, (basis, guess) in enumerate(guesses)
        if guess is not None and guess[1] <= CERTAIN_NS and low - guess[1] <= guess[0] <= high + guess[1]
    ]
    if fit:
        spread_ns, _, basis, ahead = min(fit)
        return Offset(basis, (0,), (ahead,), spread_ns, 0, low, high)
    if low <= 0 <= high:
        return Offset(Basis.UNKNOWN, (0,), (0,), 0, 0, low, high)
    ahead = high if low == -FAR_NS else low if high == FAR_NS else (low + high) // 2
    return Offset(Basis.BOUNDS, (0,), (ahead,), max(high - ahead, ahead - low), 0, low, high)
