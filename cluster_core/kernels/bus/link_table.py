"""A table of connections of which all is known, and runs of messages over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cluster_core.formats.capture.bus_capture import INITIATOR, UNSEEN
from cluster_core.kernels.bus.known_links import (
    COUNT,
    FRESH,
    IS_UNKNOWN,
    LINK,
    NOBODY,
    NOW,
    SILENCES_PER_RUN,
    SILENT,
    TURNS,
    Bounds,
    Links,
    Passed,
    Sums,
    enter_links,
    pass_known,
)
from cluster_core.kernels.bus.packets import Rows, new_rows

_ROWS_MIN: Final = 256


class SeenMessages:
    """Messages of a batch and in which order they have their turn, with other things, whose numbers are beyond theirs or below 0.

    *senders* are numbers of *names*, -1 for none; `sender_numbers` are what a table calls them.
    """

    def __init__(
        self, messages: Rows, senders: NDArray[np.int32], names: Sequence[str], order: NDArray[np.int64]
    ) -> None:
        self.messages, self.order = messages, order
        self._senders, self._names = senders, [*names, ""]
        self.sender_numbers: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def said(self, at: int, count: int) -> Iterator[tuple[int, int, str, int]]:
        """Of the messages among so many things from place *at* on whose connection is known: it, who speaks (0 the opener), the sender, its number."""
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
        """Number the senders as *numbers* does, which grows."""
        if self.sender_numbers is None:
            found = [numbers.setdefault(name, len(numbers)) if name else -1 for name in self._names]
            self.sender_numbers = np.array(found, np.int32)[self._senders]


class Passing(NamedTuple):
    """Messages that passed, in their order: rows and turns; numbers of the processes at both ends, and of the address of who opened."""

    rows: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    opener: NDArray[np.int32]
    acceptor: NDArray[np.int32]
    opener_end: NDArray[np.int32]


class Run(NamedTuple):
    """What a run came to: the place where it ended and whether at an unknown link; what passed and when the last one did.

    *fresh* are pairs with connections that they use for the first time, *silences* pairs with beginnings and ends.
    """

    at: int
    is_unknown: bool
    passing: Passing
    now_ns: int
    fresh: list[tuple[int, int]]
    silences: list[list[int]]


class LinkTable:
    """Connections by number."""

    def __init__(self) -> None:
        self._turns = np.zeros(TURNS, np.int64)
        self._row_of: dict[int, int] = {}
        self.clear()

    @property
    def is_loose(self) -> bool:
        """Whether most rows are of connections that were forgotten."""
        return self._count > 2 * len(self._row_of) + _ROWS_MIN

    def clear(self) -> None:
        """Forget all."""
        self._links = Links(new_rows(LINK, _ROWS_MIN), np.full(2 * _ROWS_MIN, -1, np.int32))
        self._row_of.clear()
        self._count = self._indexed = 0

    def knows(self, connection: int, side: int) -> bool:
        """Whether somebody may speak on that side of a connection."""
        row = self._row_of.get(connection, -1)
        return row >= 0 and bool(self._links.rows[row]["sender"][side] != NOBODY)

    def enter(self, connection: int, side: int, sender: int, pair: int, ends: tuple[int, int, int]) -> None:
        """*sender* may speak on that side of a connection, and counts for *pair*; *ends* are opener, acceptor and the opener's address."""
        row = self._row_of.get(connection, -1)
        if row < 0:
            row = self._add(connection)
        found: Any = self._links.rows[row]
        found["opener"], found["acceptor"], found["opener_end"] = ends
        found["sender"][side], found["pair"][side], found["has_passed"][side] = sender, pair, 0

    def forget(self, connection: int) -> None:
        """A connection is not known any more."""
        row = self._row_of.pop(connection, -1)
        if row >= 0:
            self._links.rows[row]["connection"], self._links.rows[row]["has_passed"] = -1, 0

    def spoken(self, connection: int | None = None) -> Iterator[tuple[int, int, int]]:
        """*connection*, or each, on which messages passed, and when both sides spoke last, 0 for never."""
        rows = range(self._count) if connection is None else [self._row_of.get(connection, -1)]
        for row in rows:
            found: Any = self._links.rows[row]
            if row >= 0 and found["has_passed"].any():
                yield int(found["connection"]), *found["spoke_ns"].tolist()

    def run(self, seen: SeenMessages, at: int, sums: Sums, bounds: Bounds) -> Run:
        """Let messages pass from place *at* on."""
        self._index()
        turns, room = self._turns, len(seen) - at
        turns[NOW] = bounds.now_ns
        passed = Passed(
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int64),
            np.empty((SILENCES_PER_RUN, 3), np.int64),
        )
        at = pass_known(seen.messages, seen.sender_numbers, seen.order, at, self._links, sums, bounds, turns, passed)
        count, rows = int(turns[COUNT]), self._links.rows.view(np.ndarray)
        links = rows[passed.link[:count]]
        passing = Passing(
            passed.row[:count], passed.ts_ns[:count], *(links[end] for end in ("opener", "acceptor", "opener_end"))
        )
        fresh = passed.fresh[: turns[FRESH]]
        pairs = rows["pair"][fresh >> 1, fresh & 1].tolist()
        connections = rows["connection"][fresh >> 1].tolist()
        silences = passed.silences[: turns[SILENT]].tolist()
        is_unknown = bool(turns[IS_UNKNOWN])
        return Run(at, is_unknown, passing, int(turns[NOW]), list(zip(pairs, connections, strict=True)), silences)

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
        """Enter the new rows into the slots, or all into more of them."""
        size = len(self._links.slots)
        while 2 * self._count > size:
            size *= 4
        if size > len(self._links.slots):
            self._indexed, self._links = 0, self._links._replace(slots=np.full(size, -1, np.int32))
        enter_links(self._links, self._indexed, self._count)
        self._indexed = self._count
