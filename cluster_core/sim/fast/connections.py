"""Connections of the fast path: which of them the loop may use, what waits for them, what was sent over those that are gone."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from cluster_core.gossip.flags import MEET
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.messages import FAIL
from cluster_core.sim.fast.proxies import stream_class
from cluster_core.sim.host import Stream

if TYPE_CHECKING:
    from cluster_core.sim.fast.messages import MessageMaker
    from cluster_core.sim.fast.state import SteadyState
    from cluster_core.sim.host import Host
    from cluster_core.wire.bus import Message


class Greeting(Enum):
    """What is left to do once a connection is up."""

    DONE = "nothing"
    PLAIN_WORLD = "everything, by the plain world"
    PLAIN_NODE = "the plain node is to greet"
    STATE = "the state of the cluster changes"


class Connections:
    """The connections of *steady*; that from i to h has its state in cell [i, h]."""

    def __init__(self, steady: SteadyState, maker: MessageMaker) -> None:
        self.maker = maker
        self.steady, self.store, self.nodes = steady, steady.store, steady.nodes
        self.out_class = stream_class(steady, at.ARRIVAL_OUT, at.OPEN_OUT, at.PATH_OUT)
        self.back_class = stream_class(steady, at.ARRIVAL_BACK, at.OPEN_BACK, at.PATH_BACK)
        self.pairs: list[Stream | None] = [None] * (self.nodes * self.nodes)
        self._columns: tuple[Any, Any] = (None, None)
        self.replaced: dict[tuple[int, int], Stream] = {}

    def adopt(self, stream: Stream) -> None:
        """A connection is up: the loop may use it."""
        reverse = stream.reverse
        if reverse is None or type(stream) is not Stream or stream.source.streams.get(stream.link) is not stream:
            return
        if stream.target.streams.get(reverse.link) is not reverse:
            return
        opener, acceptor = self.steady.row_of[stream.source.index], self.steady.row_of[stream.target.index]
        cell = opener * self.nodes + acceptor
        narrow = self.store.narrow
        old = self.pairs[cell]
        if old is not None:
            if narrow[at.IN_FLIGHT][cell]:
                self.replaced[cell, narrow[at.GENERATION][cell]] = old
            self.release(old)
            narrow[at.GENERATION][cell] += 1
            narrow[at.IN_FLIGHT][cell] = 0
        for one, kind in ((stream, self.out_class), (reverse, self.back_class)):
            arrival_us, is_open = one.arrival_us, one.is_open
            one.__class__ = kind
            one.cell = cell  # type: ignore[attr-defined]  # of ArrayStream
            one.arrival_us, one.is_open, one.path = arrival_us, is_open, one.path
        narrow[at.NEAR][cell], narrow[at.FAR][cell] = stream.link, reverse.link
        self.pairs[cell] = stream

    def release(self, stream: Stream) -> None:
        """A connection is one of the plain world again."""
        for one in (stream, stream.reverse):
            if one is not None and type(one) in (self.out_class, self.back_class):
                arrival_us, is_open = one.arrival_us, one.is_open
                one.__class__ = Stream
                one.arrival_us, one.is_open = arrival_us, is_open

    def establish(self, stream: Stream) -> Greeting:
        """A connection is up: adopt it, send what waits, and greet; says what is left to the plain machine."""
        self.adopt(stream)
        if type(stream) is not self.out_class:
            return Greeting.PLAIN_WORLD
        self.waits(stream, still=False)
        row, cell = self.steady.row_of[stream.source.index], stream.cell  # type: ignore[attr-defined]
        narrow, rows, store, world = self.store.narrow, self.store.rows, self.store, self.steady.world
        self.steady.enter()
        waiting, stream.waiting = stream.waiting or [], None
        stream.is_open = True
        for message in waiting:
            if isinstance(message, int):
                if narrow[at.PATH_OUT][cell] >= 0:
                    store.carry_waiting(message)
                    continue
                message = self.maker.take(message)
            self.steady.leave()
            world.network.send(stream.source, stream.link, message)
            self.steady.enter()
        peer = cell % self.nodes
        plain = (
            narrow[at.PATH_OUT][cell] < 0
            or not rows[at.HOT][row]
            or rows[at.RUNS][row] != at.RUNNING
            or not narrow[at.KNOWN][cell]
            or narrow[at.OUTBOUND][cell] != stream.link
            or store.flags[cell] & MEET
        )
        asleep = not plain and store.greet(row, peer, world.wall_ms(stream.source))
        self.steady.leave()
        if asleep:
            store.control[at.ROW] = row
            return Greeting.STATE
        return Greeting.PLAIN_NODE if plain else Greeting.DONE

    def unwait(self, stream: Stream) -> None:
        """What waits for a connection becomes messages of the plain world."""
        self.waits(stream, still=False)
        for number, message in enumerate(stream.waiting or ()):
            if isinstance(message, int):
                stream.waiting[number] = self.maker.take(message)

    def carry(self, host: Host, link: int, message: Message) -> bool:
        """Send a message of the plain machine through the arrays; false if they cannot hold it, or its connection is none of theirs."""
        steady, narrow = self.steady, self.store.narrow
        row = steady.row_of[host.index]
        known = steady.views[row].links.get(link)
        number = steady.index_of.get(known.node or "", -1) if known is not None else -1
        if number < 0 or known is None:
            return False
        cell, end = (number * self.nodes + row, at.FAR) if known.inbound else (row * self.nodes + number, at.NEAR)
        if narrow[end][cell] != link or self.pairs[cell] is None:
            return False
        if self._columns[0] is not message:
            self._columns = (message, self.maker.columns_of(row, message))
        found = self._columns[1]
        if found is None:
            return False
        columns, entries = found
        steady.enter()
        slot = self.store.carry_columns(columns, entries, cell, int(known.inbound))
        steady.leave()
        if slot != at.NONE and columns[at.M_KIND] == FAIL:
            self.maker.verdicts[slot] = message
        return slot != at.NONE

    def waits(self, stream: Stream, *, still: bool = True) -> None:
        """A connection is being made: what is sent on it waits, until it is up or given up."""
        cell = self.steady.row_of[stream.source.index] * self.nodes + self.steady.row_of[stream.target.index]
        if still:
            self.store.narrow[at.WAITING][cell] = stream.link
        elif self.store.narrow[at.WAITING][cell] == stream.link:
            self.store.narrow[at.WAITING][cell] = 0

    def carrier(self, m: list[int]) -> Stream | None:
        """The stream that carries a message; None if it is not known any more."""
        cell = m[at.M_OPENER] * self.nodes + m[at.M_ACCEPTOR]
        current = m[at.M_GENERATION] == self.store.narrow[at.GENERATION][cell]
        stream = self.pairs[cell] if current else self.replaced.get((cell, m[at.M_GENERATION]))
        return stream.reverse if stream is not None and m[at.M_BACK] else stream

    def release_all(self) -> None:
        """Every connection is one of the plain world again."""
        for host in self.steady.hosts:
            for stream in host.streams.values():
                if stream.waiting:
                    self.unwait(stream)
        for pair in self.pairs:
            if pair is not None:
                self.release(pair)
