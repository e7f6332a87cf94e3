"""Skip messages on identified connections that only change clocks and sums, in bulk.

A run ends at the first message that may change more; `cluster_core.replay.dispatch` processes that one.
"""

# mypy: disable-error-code="no-any-return,return-value"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_rows import INITIATOR, UNSEEN
from cluster_core.kernels.bus.packets import Rows, new_rows
from cluster_core.kernels.compiled import njit
from cluster_core.kernels.raw_bytes import copy_bytes

LINK = np.dtype(
    [
        ("connection", np.int64),
        ("opener", np.int32),
        ("acceptor", np.int32),
        ("opener_end", np.int32),
        ("acceptor_end", np.int32),
        ("sender", np.int32, 2),
        ("pair", np.int32, 2),
        ("spoke_ns", np.int64, 2),
        ("has_passed", np.uint8, 2),
    ],
    align=True,
)
"""One row per connection: numbers of *opener* and *acceptor* processes, *…_end* of their addresses.

By side, [0] the opener: number of the named *sender* (`NOBODY`: messages must not pass), row of the *pair*, time of the
last message, and whether a message *has passed*.
"""
NOBODY: Final = -2
"""Sender that no message names; -1 is a missing sender."""
NOW, COUNT, FRESH, IS_UNKNOWN, TURNS = range(5)
"""Entries of the turns of `pass_known`: time, passed messages, newly used sides of links, and whether it ended at an
unknown link or sender."""
_ROWS_MIN: Final = 256
_INITIATOR, _UNSEEN = INITIATOR, UNSEEN


class Links(NamedTuple):
    """Connections in rows of `LINK`, and slots to find them by number: a power of two, -1 where free."""

    rows: Rows
    slots: NDArray[np.int32]


class Bounds(NamedTuple):
    """Time, and ends of a run: an unreachable time, and a clock that goes back further."""

    now_ns: int
    before_ns: int
    clock_back_ns: int


class LinkedMessages(NamedTuple):
    """Passed messages: row, turn, link row and pair of each; newly used sides of links as twice their row plus side."""

    row: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    link: NDArray[np.int32]
    pair: NDArray[np.int32]
    fresh: NDArray[np.int64]


@njit(inline="always")
def _slot_of(connection: int, size: int) -> int:
    """Return the first slot of the search for a connection."""
    return (connection * np.int64(0x9E3779B1)) & (size - 1)


@njit()
def enter_links(links: Links, first: int, stop: int) -> None:
    """Index the rows from *first* on."""
    size = links.slots.shape[0]
    for row in range(first, stop):
        at = _slot_of(links.rows[row].connection, size)
        while links.slots[at] >= 0:
            at = (at + 1) & (size - 1)
        links.slots[at] = row


@njit(inline="always")
def _link_of(links: Links, connection: int) -> int:
    size = links.slots.shape[0]
    at = _slot_of(connection, size)
    while links.slots[at] >= 0:
        row = links.slots[at]
        if links.rows[row].connection == connection:
            return row
        at = (at + 1) & (size - 1)
    return -1


@njit()
def pass_known(
    messages: Rows,
    senders: NDArray[np.int32],
    order: NDArray[np.int64],
    at: int,
    links: Links,
    bounds: Bounds,
    turns: NDArray[np.int64],
    passed: LinkedMessages,
) -> int:
    """Pass the messages in *order* from *at* on, up to the first one that must not pass; return its place.

    *senders* is the number of each message's sender, -1 for none; numbers in *order* out of range are no messages.
    """
    now, count, fresh = turns[NOW], np.int64(0), np.int64(0)
    turns[IS_UNKNOWN] = 0
    while at < order.shape[0]:
        row = order[at]
        if row < 0 or row >= messages.shape[0]:
            break
        direction = messages[row].direction
        if direction == _UNSEEN:
            at += 1
            continue
        ts_ns = messages[row].ts_ns
        side = 0 if direction == _INITIATOR else 1
        if ts_ns < now - bounds.clock_back_ns:
            break
        ts_ns = max(ts_ns, now)
        if ts_ns >= bounds.before_ns:
            break
        link = _link_of(links, messages[row].connection)
        if link < 0 or links.rows[link].sender[side] != senders[row]:
            turns[IS_UNKNOWN] = 1
            break
        links.rows[link].spoke_ns[side] = ts_ns
        if not links.rows[link].has_passed[side]:
            links.rows[link].has_passed[side] = 1
            passed.fresh[fresh] = 2 * link + side
            fresh += 1
        passed.row[count], passed.ts_ns[count], passed.link[count] = row, ts_ns, link
        passed.pair[count] = links.rows[link].pair[side]
        now, count, at = ts_ns, count + 1, at + 1
    turns[NOW], turns[COUNT], turns[FRESH] = now, count, fresh
    return at


@njit()
def gather(
    source: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64], target: NDArray[np.uint8]
) -> None:
    """Copy parts of *source*, one behind the other."""
    top = np.int64(0)
    for i in range(starts.shape[0]):
        size = stops[i] - starts[i]
        copy_bytes(target, top, source, starts[i], size)
        top += size


class SeenMessages:
    """Messages of a batch in turn, mixed with other evidence, numbered beyond them or below 0.

    *senders* are numbers of *names*, -1 for none; `sender_numbers` are those of a table.
    """

    def __init__(
        self, messages: Rows, senders: NDArray[np.int32], names: Sequence[str], order: NDArray[np.int64]
    ) -> None:
        self.messages, self.order = messages, order
        self._senders, self._names = senders, [*names, ""]
        self.sender_numbers: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def known_at(self, at: int, count: int) -> Iterator[tuple[int, int, str, int]]:
        """Yield messages on known connections among *count* places from *at* on: number, side (0 the opener), sender, its number."""
        rows = self.messages.view(np.ndarray)
        places = self.order[at : at + count]
        places = places[(places >= 0) & (places < len(rows))]
        places = places[rows["direction"][places] != UNSEEN]
        sides, connections = rows["direction"][places] != INITIATOR, rows["connection"][places]
        senders = self._senders[places].tolist()
        numbers = self.sender_numbers[places] if self.sender_numbers is not None else places
        for connection, side, sender, number in zip(
            connections.tolist(), sides.tolist(), senders, numbers.tolist(), strict=True
        ):
            yield connection, int(side), self._names[sender], number

    def number_senders(self, numbers: dict[str, int]) -> None:
        """Number the senders as in *numbers*, which grows."""
        if self.sender_numbers is None:
            indexes = [numbers.setdefault(name, len(numbers)) if name else -1 for name in self._names]
            self.sender_numbers = np.array(indexes, np.int32)[self._senders]


class OrderedMessages(NamedTuple):
    """Passed messages in order: rows, turns, pairs, types, sizes; numbers of both processes, and of the opener's address."""

    rows: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    pair: NDArray[np.int32]
    kind: NDArray[np.uint16]
    total_bytes: NDArray[np.int64]
    opener: NDArray[np.int32]
    acceptor: NDArray[np.int32]
    opener_end: NDArray[np.int32]


class Run(NamedTuple):
    """End of a run, whether at an unknown link, passed messages, and the time of the last one.

    *fresh* are pairs with newly used connections.
    """

    at: int
    is_unknown: bool
    passing: OrderedMessages
    now_ns: int
    fresh: list[tuple[int, int]]


class LinkTable:
    """Connections by number."""

    def __init__(self) -> None:
        self._turns = np.zeros(TURNS, np.int64)
        self._row_of: dict[int, int] = {}
        self.clear()

    @property
    def is_loose(self) -> bool:
        """Return whether most rows belong to forgotten connections."""
        return self._count > 2 * len(self._row_of) + _ROWS_MIN

    def clear(self) -> None:
        """Remove all connections."""
        self._links = Links(new_rows(LINK, _ROWS_MIN), np.full(2 * _ROWS_MIN, -1, np.int32))
        self._row_of.clear()
        self._count = self._indexed = 0

    def knows(self, connection: int, side: int) -> bool:
        """Return whether a sender may pass on that side of a connection."""
        row = self._row_of.get(connection, -1)
        return row >= 0 and bool(self._links.rows[row]["sender"][side] != NOBODY)

    def enter(self, connection: int, side: int, sender: int, pair: int, ends: tuple[int, int, int]) -> None:
        """Let *sender* pass on a side of a connection, counted for *pair*; *ends*: opener, acceptor, opener's address."""
        row = self._row_of.get(connection, -1)
        if row < 0:
            row = self._add(connection)
        link: Any = self._links.rows[row]
        link["opener"], link["acceptor"], link["opener_end"] = ends
        link["sender"][side], link["pair"][side], link["has_passed"][side] = sender, pair, 0

    def forget(self, connection: int) -> None:
        """Remove a connection."""
        row = self._row_of.pop(connection, -1)
        if row >= 0:
            self._links.rows[row]["connection"], self._links.rows[row]["has_passed"] = -1, 0

    def used_links(self, connection: int | None = None) -> Iterator[tuple[int, int, int]]:
        """Yield used connections (or *connection*) with the times of both sides' last message, 0 for never."""
        rows = range(self._count) if connection is None else [self._row_of.get(connection, -1)]
        for row in rows:
            link: Any = self._links.rows[row]
            if row >= 0 and link["has_passed"].any():
                yield int(link["connection"]), *link["spoke_ns"].tolist()

    def run(self, seen: SeenMessages, at: int, bounds: Bounds) -> Run:
        """Pass messages from place *at* on."""
        self._index()
        turns, room = self._turns, len(seen) - at
        turns[NOW] = bounds.now_ns
        passed = LinkedMessages._make(
            np.empty(room, kind) for kind in (np.int64, np.int64, np.int32, np.int32, np.int64)
        )
        at = pass_known(seen.messages, seen.sender_numbers, seen.order, at, self._links, bounds, turns, passed)
        count, rows = int(turns[COUNT]), self._links.rows.view(np.ndarray)
        links = rows[passed.link[:count]]
        ends = (links[end] for end in ("opener", "acceptor", "opener_end"))
        row, ts_ns, pair = passed.row[:count], passed.ts_ns[:count], passed.pair[:count]
        header = seen.messages.view(np.ndarray)[["type", "totlen"]][row]
        passing = OrderedMessages(row, ts_ns, pair, header["type"], header["totlen"], *ends)
        fresh = passed.fresh[: turns[FRESH]]
        pairs = rows["pair"][fresh >> 1, fresh & 1].tolist()
        connections = rows["connection"][fresh >> 1].tolist()
        return Run(at, bool(turns[IS_UNKNOWN]), passing, int(turns[NOW]), list(zip(pairs, connections, strict=True)))

    def _add(self, connection: int) -> int:
        rows, row = self._links.rows, self._count
        if row == len(rows):
            larger = new_rows(LINK, 2 * row)
            larger[:row] = rows
            self._links = self._links._replace(rows=larger)
        new: Any = self._links.rows[row]
        new["connection"], new["sender"], new["spoke_ns"], new["has_passed"] = connection, NOBODY, 0, 0
        self._row_of[connection] = row
        self._count += 1
        return row

    def _index(self) -> None:
        """Index the new rows, or all rows in a larger index."""
        size = len(self._links.slots)
        while 2 * self._count > size:
            size *= 4
        if size > len(self._links.slots):
            self._indexed, self._links = 0, self._links._replace(slots=np.full(size, -1, np.int32))
        enter_links(self._links, self._indexed, self._count)
        self._indexed = self._count
