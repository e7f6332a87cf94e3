"""Makes the arrays of the compiled gossip loop, lets them grow, and shows them to plain Python as memoryviews."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.gossip_chance import STATE, WORDS, draw, draw_word, ready
from cluster_core.sim.fast.gossip_engine import greet, run_events
from cluster_core.sim.fast.gossip_messages import carry
from cluster_core.sim.fast.gossip_parts import (
    Arrays,
    add_report,
    drop_report,
    place_event,
    read_coverage,
    settle_marks,
    write_marks,
)
from cluster_core.sim.fast.gossip_replicas import has_spares
from cluster_core.sim.fast.memory import direct, fields_of, flat, in_lines, sparse

SETS: Final = 4096
"""Sets of slots and paths that are known at first."""


class Store:
    """The arrays for *nodes* nodes; `g` is what the loop takes, `wide` … are planes as flat memoryviews."""

    def __init__(self, nodes: int, gossip_percent: int = 10) -> None:
        self.nodes = nodes
        most = nodes + nodes * gossip_percent // 100 + 8
        n, room = nodes, 2 * nodes + 64
        narrow = in_lines((n, n, at.NARROW_FIELDS), np.int32)
        for field in (at.MASTER_OF, at.OUTBOUND, at.INBOUND, at.NEAR, at.FAR, at.PATH_OUT, at.PATH_BACK):
            narrow[:, :, field] = at.NONE
        scratch = np.zeros((at.SCRATCH_ROWS, 2 * room), np.int32)
        scratch[at.FREE_LIST, : 2 * room] = np.arange(2 * room)
        self.g = Arrays(
            pongs=np.zeros((n, n), np.uint32),
            flags=np.zeros((n, n), np.int32),
            wide=in_lines((n, n, at.WIDE_FIELDS), np.int64),
            due=np.zeros((n, n), np.int64),
            narrow=narrow,
            tables=np.zeros((8, n), np.int32),
            rows=np.zeros((at.ROW_PLANES, n), np.int64),
            chance=np.zeros((n + 1, STATE), np.uint32),
            draws=np.zeros((n + 1, WORDS // 2), np.uint32),
            events=np.zeros((3, 4 * room), np.int64),
            messages=np.zeros((2 * room, at.MESSAGE_COLUMNS), np.int64),
            told=np.zeros((2 * room, at.TOLD_ROWS, most), np.uint32),
            marks=np.zeros((2 * room, at.MARK_ROWS, most), np.int32),
            paths=np.zeros((SETS, 3), np.float64),
            slot_counts=np.zeros(SETS, np.int64),
            reports=sparse(n * n + 1, n),
            report_counts=np.zeros((n * n + 1, 2), np.int32),
            control=np.zeros(at.CONTROLS, np.int64),
            scratch=scratch,
        )
        self.g.control[at.FREE] = 2 * room
        self.g.control[at.ADDRESSES] = 1
        self.pongs, self.flags = flat(self.g.pongs), flat(self.g.flags)
        self.wide = fields_of(self.g.wide)
        self.due = flat(self.g.due)
        self.narrow = fields_of(self.g.narrow)
        self._orders: dict[bytes, int] = {}
        self.runs = 0
        """How often compiled code has had a chance to move clocks."""
        self._loop, self._carry, self._greet = direct(run_events), direct(carry), direct(greet)
        self._has_spares, self._cover = direct(has_spares), direct(read_coverage)
        self.rows = [flat(row) for row in self.g.rows]
        self.control = flat(self.g.control)
        self._view()

    def _view(self) -> None:
        self.scratch = [flat(row) for row in self.g.scratch]
        self._times, self._order = (flat(row) for row in self.g.events[:2])

    def has_before(self, at_us: int, order: int) -> bool:
        """Whether the loop has something to do before an event of the plain world."""
        control, first_us = self.control, self._times[0]
        if control[at.PHASE] != at.IDLE:
            return True
        return control[at.EVENTS] > 0 and (first_us < at_us or (first_us == at_us and self._order[0] < order))

    def run(self, end_us: int, limit_us: int, limit_order: int) -> int:
        """Handle events, see `run_events`."""
        self.runs += 1
        return int(self._loop(self.g, end_us, limit_us, limit_order))

    def place(self, at_us: int, order: int, what: int) -> None:
        """Plan an event."""
        if self.g.control[at.EVENTS] + 1 >= self.g.events.shape[1]:
            self.grow()
        place_event(self.g, at_us, order, what)

    def grow(self) -> None:
        """Twice as much room for events and messages on their way."""
        g = self.g
        room = g.messages.shape[0]
        events = np.zeros((3, 2 * g.events.shape[1]), np.int64)
        events[:, : g.events.shape[1]] = g.events
        messages = np.zeros((2 * room, at.MESSAGE_COLUMNS), np.int64)
        messages[:room] = g.messages
        told = np.zeros((2 * room, *g.told.shape[1:]), np.uint32)
        told[:room] = g.told
        marks = np.zeros((2 * room, *g.marks.shape[1:]), np.int32)
        marks[:room] = g.marks
        scratch = np.zeros((at.SCRATCH_ROWS, max(g.scratch.shape[1], 2 * room)), np.int32)
        scratch[:, : g.scratch.shape[1]] = g.scratch
        free = int(g.control[at.FREE])
        scratch[at.FREE_LIST, free : free + room] = np.arange(room, 2 * room)
        g.control[at.FREE] = free + room
        self.g = g._replace(events=events, messages=messages, told=told, marks=marks, scratch=scratch)
        self._view()

    def count_slots(self, number: int, count: int) -> None:
        """Say how many slots the set *number* has."""
        if number >= self.g.slot_counts.size:
            self.g = self.g._replace(
                slot_counts=np.concatenate((self.g.slot_counts, np.zeros_like(self.g.slot_counts)))
            )
        self.g.slot_counts[number] = count

    def set_path(self, number: int, delay_us: int, jitter_us: int, loss: float) -> bool:
        """Say what path *number* does; false if there are too many."""
        if number >= self.g.paths.shape[0]:
            return False
        self.g.paths[number] = delay_us, jitter_us, loss
        return True

    # -- chance --------------------------------------------------------------------------------------------------

    def seed(self, who: int, state: Sequence[int]) -> None:
        """Take over the state of a generator: 624 words and the place of the next."""
        self.g.chance[who] = np.array(state, np.int64)
        ready(self.g.chance[who], self.g.draws[who])

    def state_of(self, who: int) -> tuple[int, ...]:
        """The state of a generator."""
        return tuple(self.g.chance[who].tolist())

    def chance_of(self, who: int) -> Callable[[], float]:
        """`random()` of a generator."""
        return partial(draw, self.g.chance[who], self.g.draws[who])

    def words_of(self, who: int) -> Callable[[], int]:
        """`getrandbits(32)` of a generator."""
        return partial(draw_word, self.g.chance[who], self.g.draws[who])

    # -- reports -------------------------------------------------------------------------------------------------

    def add_report(self, i: int, subject: int, reporter: int, told: int) -> None:
        """Note or renew a report."""
        add_report(self.g, i, subject, reporter, told)

    def drop_report(self, i: int, subject: int, reporter: int) -> None:
        """Take a report back."""
        drop_report(self.g, i, subject, reporter)

    def clear_reports(self, cell: int) -> None:
        """Forget all reports of a cell; its block stays with it."""
        block = self.narrow[at.REPORTS][cell]
        if block and self.g.report_counts[block, 0]:
            self.g.reports[block] = 0
            self.g.report_counts[block, 0] = 0

    def report_row(self, block: int) -> Any:
        """The times of block *block*, as a memoryview by reporter."""
        return flat(self.g.reports[block])

    def report_count(self, block: int) -> int:
        """How many reports a block has."""
        return int(self.g.report_counts[block, 0])

    # -- messages ------------------------------------------------------------------------------------------------

    def message(self, slot: int) -> list[int]:
        """The columns of a message on its way."""
        return self.g.messages[slot].tolist()  # type: ignore[no-any-return]

    def free(self, slot: int) -> None:
        """A message is done with."""
        self.g.scratch[at.FREE_LIST, self.g.control[at.FREE]] = slot
        self.g.control[at.FREE] += 1

    def carry_columns(self, columns: dict[int, int], entries: list[list[int]], cell: int, back: int) -> int:
        """Send a message that is known by its columns over the connection of *cell*; its slot, NONE if that cannot be."""
        if len(entries) > self.g.told.shape[2]:
            return at.NONE
        if self.g.control[at.FREE] < 2 or self.g.control[at.EVENTS] + 2 > self.g.events.shape[1]:
            self.grow()
        self.g.control[at.FREE] -= 1
        slot = int(self.g.scratch[at.FREE_LIST, self.g.control[at.FREE]])
        row = self.g.messages[slot]
        for column, number in columns.items():
            row[column] = number
        row[at.M_OPENER], row[at.M_ACCEPTOR] = divmod(cell, self.nodes)
        row[at.M_BACK] = back
        row[at.M_GENERATION] = self.narrow[at.GENERATION][cell]
        row[at.M_WELL], row[at.M_MARKED] = 0, 1
        if entries:
            told, marks, count = self.g.told[slot], self.g.marks[slot], len(entries)
            told[at.NODES, :count], marks[at.PINGS, :count], told[at.PONGS, :count], marks[at.MARKS, :count] = np.array(
                entries
            ).T
        sent = self.g.control[at.SENT_COUNT]
        if self._carry(self.g, slot):
            self.g.control[at.SENT_COUNT] = sent
            return slot
        self.free(slot)
        return at.NONE

    def carry_waiting(self, slot: int) -> None:
        """Send what waited for its connection, now that it is up."""
        if self.g.control[at.EVENTS] + 2 > self.g.events.shape[1]:
            self.grow()
        row, sent = self.g.messages[slot], self.g.control[at.SENT_COUNT]
        row[at.M_GENERATION] = self.g.narrow[row[at.M_OPENER], row[at.M_ACCEPTOR], at.GENERATION]
        if not self._carry(self.g, slot):
            raise RuntimeError("a connection that is up cannot be written to")
        self.g.control[at.SENT_COUNT] = sent

    def greet(self, i: int, h: int, now_ms: int) -> bool:
        """Ping a node over a new connection, see `greet`."""
        self.runs += 1
        if self.g.control[at.FREE] < 2 or self.g.control[at.EVENTS] + 2 > self.g.events.shape[1]:
            self.grow()
        return bool(self._greet(self.g, i, h, now_ms))

    def may_be_spare(self, row: int) -> bool:
        """Whether replica *row* could be the one that moves to another master, see `has_spares`."""
        master = self.narrow[at.MASTER_OF][row * self.nodes + row]
        return master < 0 or bool(self._has_spares(self.g, row, master))

    def cover(self, row: int) -> None:
        """Sum up the table of a node, see `read_coverage`."""
        self._cover(self.g, row)

    def planned(self) -> list[list[int]]:
        """All events: time, order, and what."""
        return self.g.events[:, : self.g.control[at.EVENTS]].T.tolist()  # type: ignore[no-any-return]

    # -- planes --------------------------------------------------------------------------------------------------

    def clear_row(self, row: int) -> None:
        """Forget everything that node *row* knew; the connections stay."""
        for cell in range(row * self.nodes, (row + 1) * self.nodes):
            self.clear_reports(cell)
        self.g.narrow[row, :, at.OUTBOUND : at.REPORTS] = 0
        for field in (at.OUTBOUND, at.INBOUND, at.MASTER_OF):
            self.g.narrow[row, :, field] = at.NONE
        self.strangers(row)

    def strangers(self, row: int) -> None:
        """Node *row* knows nobody, until it is said whom."""
        self.g.narrow[row, :, at.KNOWN] = 0

    def settle_row(self, row: int, order: Sequence[int]) -> None:
        """Say who stands where in the table of *row*; who is not KNOWN has no address."""
        self.settle_marks(row)
        g = self.g
        g.flags[row, g.narrow[row, :, at.KNOWN] == 0] |= at.NONE << at.ADDRESS_SHIFT
        places = np.full(self.nodes, at.NONE, np.int32)
        places[: len(order)] = order[: self.nodes]
        key = places.tobytes()
        number = self._orders.get(key)
        if number is None:
            number = self._orders[key] = len(self._orders)
            if number >= g.tables.shape[0]:
                self.g = g = g._replace(tables=np.concatenate((g.tables, np.zeros_like(g.tables))))
            g.tables[number] = places
        g.rows[at.TABLE, row] = number
        g.rows[at.COUNT, row] = len(order)

    def look_at_all(self, row: int) -> None:
        """The next cron of node *row* looks at everybody."""
        self.g.due[row] = 0

    def entries_of(self, slot: int, count: int) -> list[list[int]]:
        """The gossip entries of a message on its way: node, ping, pong, flags and address."""
        m, told, marks = self.g.messages[slot], self.g.told[slot, :, :count], self.g.marks[slot, :, :count]
        if not m[at.M_MARKED]:
            write_marks(self.g, slot, m[at.M_ACCEPTOR] if m[at.M_BACK] else m[at.M_OPENER])
        return np.column_stack((told[at.NODES], marks[at.PINGS], told[at.PONGS], marks[at.MARKS])).tolist()  # type: ignore[no-any-return]

    def settle_marks(self, row: int) -> None:
        """What node *row* holds of somebody is about to change, see `settle_marks`."""
        if self.rows[at.WELL][row]:
            settle_marks(self.g, row)

    def address(self, row: int, number: int) -> None:
        """Say how node *row* is to be reached."""
        if self.rows[at.MY_ADDRESS][row] != number:
            for other in range(self.nodes):
                self.settle_marks(other)
            self.rows[at.MY_ADDRESS][row] = number
            self.g.control[at.ADDRESSES] += 1
