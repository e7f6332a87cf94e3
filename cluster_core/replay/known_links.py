"""Fast path for messages on identified connections: compiled runs that update sums and times only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cluster_core.kernels.bus.known_links import Bounds, LinkTable, OrderedMessages, SeenMessages
from cluster_core.kernels.bus.link_meter import LinkMeter
from cluster_core.replay.dispatch import CLOCK_BACK_NS, Dispatcher
from cluster_core.replay.evidence import Endpoint

RUN_MIN: Final = 16
"""Minimum messages of a useful run; after shorter ones, ever longer stretches use the plain code."""
PATIENCE_MAX: Final = 64
AHEAD_MAX: Final = 512
"""Lookahead in messages at a connection new to this path."""


class KnownLinks:
    """Fast path of *dispatcher* and *meter*; *number_of* numbers addresses."""

    def __init__(self, dispatcher: Dispatcher, meter: LinkMeter, number_of: Callable[[Endpoint], int]) -> None:
        self._dispatcher, self._meter, self._number_of = dispatcher, meter, number_of
        self._names: dict[str, int] = {}
        self._table = LinkTable()
        self._waits = self._patience = 0
        self._renames = dispatcher.renames

    def pass_on(self, seen: SeenMessages, at: int, take: Callable[[int, OrderedMessages], None]) -> int:
        """Skip messages from index *at* on and return the next index; *take* gets skipped messages and the first's number."""
        dispatcher, meter, start = self._dispatcher, self._meter, at
        before_ns = dispatcher.quiet_before_ns
        if self._waits > 0 or not before_ns:
            self._waits -= 1
            return at
        self._refresh()
        seen.number_senders(self._names)
        goes_on = True
        while goes_on and at < len(seen):
            bounds = Bounds(dispatcher.clock_ns, before_ns, CLOCK_BACK_NS)
            run = self._table.run(seen, at, bounds)
            at = run.at
            for pair, connection in run.fresh:
                meter.note_connection(pair, connection)
            if len(run.passing.rows):
                meter.note_all(run.passing.pair, run.passing.kind, run.passing.total_bytes, run.passing.ts_ns)
                take(dispatcher.pass_over(run.now_ns, len(run.passing.rows)), run.passing)
            goes_on = run.is_unknown and self._learn(seen, at)
        self._patience = 0 if at - start >= RUN_MIN else min(2 * self._patience + 1, PATIENCE_MAX)
        self._waits = self._patience
        return at

    def settle(self, connection: int | None = None) -> None:
        """Report the last use of *connection*, or of each, to the dispatcher."""
        self._forget()
        for link in self._table.used_links(connection):
            self._dispatcher.note_spoken(*link)

    def _learn(self, seen: SeenMessages, at: int) -> bool:
        """Return whether the message at *at* can be skipped, as can later ones, once its connection is entered."""
        is_first = True
        for connection, side, name, sender in seen.known_at(at, AHEAD_MAX):
            if is_first or not self._table.knows(connection, side):
                if not self._enter(connection, side, name, sender) and is_first:
                    return False
                is_first = False
        return True

    def _enter(self, connection: int, side: int, name: str, sender: int) -> bool:
        known = self._dispatcher.known(connection, name, from_opener=not side)
        if known is None:
            return False
        ids = [self._dispatcher.id_of(known.opener), self._dispatcher.id_of(known.acceptor)]
        source, target = ids[::-1] if side else ids
        pair = self._meter.pair_of(name or source, target)
        if pair < 0:
            return False
        ends = (self._number_of(known.opener), self._number_of(known.acceptor), self._number_of(known.opener_end))
        self._table.enter(connection, side, sender, pair, ends)
        return True

    def _refresh(self) -> None:
        """Drop entries that are no longer valid."""
        dispatcher = self._dispatcher
        self._forget()
        if self._renames != dispatcher.renames or self._table.is_loose:
            self.settle()
            self._table.clear()
            self._renames = dispatcher.renames

    def _forget(self) -> None:
        for connection in self._dispatcher.forgotten:
            self._table.forget(connection)
        self._dispatcher.forgotten.clear()
