"""Connections of which all is known: their messages pass in compiled runs, and only sums and times remember them.

Most of a capture are messages on connections whose ends have spoken, from senders that said so before.  Whose they are is known once,
and holds until a process says another id, or a connection is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    enter_links,
    pass_known,
)
from cluster_core.kernels.bus.packets import Rows, new_rows
from cluster_core.replay.dispatch import CLOCK_BACK_NS, Dispatcher
from cluster_core.replay.evidence import Endpoint
from cluster_core.replay.link_meter import LinkMeter

RUN_MIN: Final = 16
"""Messages that a run must cover to be worth it; after a shorter one the plain code goes on for longer and longer."""
PATIENCE_MAX: Final = 64
AHEAD_MAX: Final = 512
"""So many messages are looked at ahead where one is on a connection that is new here."""
_ROWS_MIN: Final = 256


class SeenMessages(NamedTuple):
    """Messages of a batch and in which order they have their turn, with other things, whose numbers are beyond theirs or below 0.

    *senders* is each message's sender as a number of *names*, -1 for none.
    """

    messages: Rows
    senders: NDArray[np.int32]
    names: Sequence[str]
    order: NDArray[np.int64]


class Passing(NamedTuple):
    """Messages that passed, in their order: rows, turns, the numbers of the first one and of the others after it; numbers of processes and of ends."""

    rows: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    first_number: int
    opener: NDArray[np.int32]
    acceptor: NDArray[np.int32]
    opener_end: NDArray[np.int32]


class KnownLinks:
    """A part of *dispatcher* and *meter* that only saves time; *number_of* gives addresses their numbers."""

    def __init__(self, dispatcher: Dispatcher, meter: LinkMeter, number_of: Callable[[Endpoint], int]) -> None:
        self._dispatcher, self._meter, self._number_of = dispatcher, meter, number_of
        self._names: dict[str, int] = {}
        self._waits = self._patience = 0
        self._seen: SeenMessages | None = None
        self._senders = np.zeros(0, np.int32)
        self._turns = np.zeros(TURNS, np.int64)
        self._links = Links(new_rows(LINK, 0), np.zeros(0, np.int32))
        self._row_of: dict[int, int] = {}
        self._count = 0
        self._clear()

    def pass_on(self, seen: SeenMessages, at: int) -> tuple[int, Passing | None]:
        """Let messages pass from place *at* of the order on: the place of what is to be looked at, and what passed."""
        before_ns = self._dispatcher.quiet_before_ns
        if not before_ns:
            return at, None
        if self._waits > 0:
            self._waits -= 1
            return at, None
        self._refresh()
        if self._seen is not seen:
            self._seen, self._senders = seen, np.array([*map(self._name, seen.names), -1], np.int32)[seen.senders]
        room = len(seen.order) - at
        passed = Passed(
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty(room, np.int32),
            np.empty(room, np.int64),
            np.empty((SILENCES_PER_RUN, 3), np.int64),
        )
        bounds = Bounds(before_ns, CLOCK_BACK_NS, self._meter.silence_ns)
        parts, start = [], at
        while True:
            at, part = self._run(seen, at, bounds, passed)
            parts += [part] if part is not None else []
            if at == len(seen.order) or not self._learn(seen, at):
                break
        self._patience = 0 if at - start >= RUN_MIN else min(2 * self._patience + 1, PATIENCE_MAX)
        self._waits = self._patience
        return at, _joined(parts)

    def settle(self, connection: int | None = None) -> None:
        """Tell the dispatcher when *connection*, or each one, was used last."""
        rows = range(self._count) if connection is None else [self._row_of.get(connection, -1)]
        for row in rows:
            if row >= 0 and self._links.rows[row]["has_passed"].any():
                found = self._links.rows[row]
                self._dispatcher.note_spoken(int(found["connection"]), *found["spoke_ns"].tolist())

    def _run(self, seen: SeenMessages, at: int, bounds: Bounds, passed: Passed) -> tuple[int, Passing | None]:
        turns, dispatcher, meter = self._turns, self._dispatcher, self._meter
        turns[NOW] = dispatcher.clock_ns
        stop = pass_known(seen.messages, self._senders, seen.order, at, self._links, meter.sums, bounds, turns, passed)
        count = int(turns[COUNT])
        if not count:
            return stop, None
        for fresh in passed.fresh[: turns[FRESH]].tolist():
            row = self._links.rows[fresh >> 1]
            meter.note_connection(int(row["pair"][fresh & 1]), int(row["connection"]))
        for pair, from_ns, to_ns in passed.silences[: turns[SILENT]].tolist():
            meter.note_silence(pair, from_ns, to_ns)
        first = dispatcher.pass_over(int(turns[NOW]), count)
        links = self._links.rows.view(np.ndarray)[passed.link[:count]]
        ends = (links[name] for name in ("opener", "acceptor", "opener_end"))
        return stop, Passing(passed.row[:count].copy(), passed.ts_ns[:count].copy(), first, *ends)

    def _learn(self, seen: SeenMessages, at: int) -> bool:
        """Whether the message at *at* may pass when its connection is entered; those after it are then looked at, too."""
        if not self._turns[IS_UNKNOWN]:
            return False
        messages, names = seen.messages.view(np.ndarray), [*seen.names, ""]
        first = self._count
        for place, row in enumerate(seen.order[at : at + AHEAD_MAX].tolist()):
            if not 0 <= row < len(messages) or messages["direction"][row] == UNSEEN:
                continue
            side, connection = int(messages["direction"][row] != INITIATOR), int(messages["connection"][row])
            if place and self._is_entered(connection, side):
                continue
            is_entered = self._enter(connection, side, int(self._senders[row]), names[seen.senders[row]])
            if not is_entered and not place:
                return False
        self._index(first)
        return True

    def _is_entered(self, connection: int, side: int) -> bool:
        row = self._row_of.get(connection, -1)
        return row >= 0 and bool(self._links.rows[row]["sender"][side] != NOBODY)

    def _enter(self, connection: int, side: int, sender: int, name: str) -> bool:
        known = self._dispatcher.known(connection, name, from_opener=not side)
        if known is None:
            return False
        ids = [self._dispatcher.id_of(known.opener), self._dispatcher.id_of(known.acceptor)]
        source, target = ids[::-1] if side else ids
        pair = self._meter.pair_of(name or source, target)
        if pair < 0:
            return False
        row = self._row_of.get(connection, -1)
        if row < 0:
            row = self._add(connection)
            self._links.rows[row]["opener"] = self._number_of(known.opener)
            self._links.rows[row]["acceptor"] = self._number_of(known.acceptor)
            self._links.rows[row]["opener_end"] = self._number_of(known.opener_end)
        found = self._links.rows[row]
        found["sender"][side], found["pair"][side], found["has_passed"][side] = sender, pair, False
        return True

    def _add(self, connection: int) -> int:
        rows, row = self._links.rows, self._count
        if row == len(rows):
            larger = new_rows(LINK, 2 * row)
            larger[:row] = rows
            self._links = self._links._replace(rows=larger)
        new: Any = self._links.rows[row]
        new["connection"], new["sender"], new["spoke_ns"], new["has_passed"] = connection, NOBODY, 0, False
        self._row_of[connection] = row
        self._count += 1
        return row

    def _index(self, first: int) -> None:
        """Enter the rows from *first* on into the index, or all into a larger one."""
        if 2 * self._count > len(self._links.slots):
            first = 0
            self._links = self._links._replace(slots=np.full(4 * len(self._links.slots), -1, np.int32))
        enter_links(self._links, first, self._count)

    def _refresh(self) -> None:
        """Forget what does not hold any more."""
        dispatcher = self._dispatcher
        for connection in dispatcher.forgotten:
            row = self._row_of.pop(connection, -1)
            if row >= 0:
                self._links.rows[row]["connection"] = -1
                self._links.rows[row]["has_passed"] = 0
        dispatcher.forgotten.clear()
        if self._renames != dispatcher.renames or self._count > 2 * len(self._row_of) + _ROWS_MIN:
            self.settle()
            self._clear()

    def _clear(self) -> None:
        self._renames = self._dispatcher.renames
        self._links = Links(new_rows(LINK, _ROWS_MIN), np.full(2 * _ROWS_MIN, -1, np.int32))
        self._row_of.clear()
        self._count = 0

    def _name(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names)) if name else -1


def _joined(parts: Sequence[Passing]) -> Passing | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    joined: list[Any] = [
        np.concatenate(column) for column in zip(*parts, strict=True) if not isinstance(column[0], int)
    ]
    return Passing(joined[0], joined[1], parts[0].first_number, *joined[2:])
