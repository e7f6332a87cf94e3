"""The fast path of the simulator: steady gossip in compiled code, everything else by the plain machine (docs/simulator.md).

`Steady` puts the clocks, flags and reports of all nodes into arrays, has `cluster_core.sim.fast.gossip_engine` handle ticks and
messages from which nothing new follows, and asks the plain machine for the rest, event by event, in the same order.  The run is
the same: messages, times, views, and what every generator draws next.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip.flags import HANDSHAKE
from cluster_core.gossip.view import Peer, View
from cluster_core.node.events import SendMessage
from cluster_core.node.state import NodeState
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.array_links import Connections
from cluster_core.sim.fast.array_messages import MessageMaker
from cluster_core.sim.fast.array_nodes import (
    PEER_FIELDS,
    SHADOWED,
    STATE_NUMBERS,
    VIEW_NUMBERS,
    VIEW_TRUTHS,
    ArrayRandom,
    peer_class,
    state_class,
    view_class,
)
from cluster_core.sim.fast.array_numbers import Numbers
from cluster_core.sim.fast.array_rules import rules_of
from cluster_core.sim.fast.gossip_store import Store
from cluster_core.sim.fast.steady_requests import ANSWERS
from cluster_core.sim.host import Host
from cluster_core.sim.network import Network
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect
    from cluster_core.wire.bus import Message

NEVER: Final = 1 << 62
LIFE_SHIFT: Final = 32
LOW_HALF: Final = (1 << at.ADDRESS_SHIFT) - 1
COUNTERS: Final = range(at.SENT_PING, at.HEARD_BYTES + 1)


class Steady:
    """The arrays of one world and who serves them; `begin_steady` makes it, `end` puts everything back."""

    def __init__(self, world: World, book: Any) -> None:
        self.world = world
        self.hosts = sorted(world.hosts, key=lambda host: host.id)
        self.ids = [host.id for host in self.hosts]
        self.nodes = len(self.hosts)
        self.index_of = {name: number for number, name in enumerate(self.ids)}
        self.row_of = {host.index: number for number, host in enumerate(self.hosts)}
        self.store = Store(self.nodes, max(host.settings.gossip_percent for host in self.hosts))
        self.base_ms = world.wall_ms(self.hosts[0])
        self.views: list[View] = [host.node.view for host in self.hosts]
        self.attached: list[Any] = [None] * self.nodes
        self.moved: dict[int, None] = {}
        self.changes: list[Effect] = []
        self.touched: dict[int, None] = {}
        self.numbers = Numbers(self.store)
        self.maker = MessageMaker(self)
        self.strangers: dict[int, None] = {}
        self.members: dict[int, tuple[Any, int, int]] = {}
        self.connections = Connections(self)
        self.listeners: list[Callable[[Host, SendMessage], None]] = []
        self.book = book
        self.peer_class, self.view_class, self.state_class = peer_class(self), view_class(self), state_class(self)
        self._begin()

    def _begin(self) -> None:
        world, store = self.world, self.store
        store.control[at.BASE_MS] = self.base_ms
        store.control[at.TICK_US], store.control[at.TICK_JITTER_US] = world.tick_us, world.tick_jitter_us
        store.control[at.KEEPS_CONFIGS] = world.keep_configs
        self.originals = [host.rng for host in self.hosts] + [world.network.rng]
        for number, rng in enumerate(self.originals):
            store.seed(number, rng.getstate()[1])
        world.network.rng = chance = ArrayRandom(store, self.nodes)  # type: ignore[assignment]
        world.network.random = chance.random
        for row in range(self.nodes):
            self._attach(row)
        for host in self.hosts:
            for stream in list(host.streams.values()):
                if stream.is_ours and stream.is_open and stream.waiting is None:
                    self.connections.adopt(stream)
        self.refresh_hosts()

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _attach(self, row: int) -> None:
        """Take over the table of a node, or what has changed in it."""
        host, store = self.hosts[row], self.store
        node = host.node
        view, state = node.view, node.state
        settings = state.settings
        if self.attached[row] is not node:
            self.attached[row], self.views[row] = node, view
            store.clear_row(row)
            store.rows[at.REPORTED][row] = 1
            for name, plane in (*VIEW_NUMBERS.items(), *VIEW_TRUTHS.items()):
                store.rows[plane][row] = int(view.__dict__.pop(name))
            view.row = row  # type: ignore[attr-defined]  # of ArrayView
            view.__class__ = self.view_class
            numbers = {name: getattr(state, name) for name in STATE_NUMBERS}
            state.__class__ = self.state_class
            state.row = row  # type: ignore[attr-defined]  # of ArrayState
            for name, value in numbers.items():
                setattr(state, name, value)
            if not isinstance(state.rng, ArrayRandom):
                host.rng = state.rng = ArrayRandom(store, row)  # type: ignore[assignment]
            for plane, value in rules_of(settings).items():
                store.rows[plane][row] = int(value)
            address = self.numbers.address(settings.announce_ip or host.ip, settings.port, settings.bus_port, 0)
            store.rows[at.MY_ADDRESS][row] = address
            for plane in COUNTERS:
                store.rows[plane][row] = 0
        known, first = store.narrow[at.KNOWN], row * self.nodes
        store.strangers(row)
        self.strangers.pop(row, None)
        for name, peer in view.nodes.items():
            number = self.index_of.get(name)
            if number is None or peer.flags & HANDSHAKE:
                self.strangers[row] = None
                continue
            if type(peer) is Peer:
                self._adopt_peer(peer, first + number)
            known[first + number] = 1
        if view.myself.id != self.ids[row]:
            self.strangers[row] = None
        store.settle_row(row, [self.index_of.get(peer.id, at.NONE) for peer in state.peers()])
        self.members[row] = (node, view.members, len(view.nodes))

    def _adopt_peer(self, peer: Peer, cell: int) -> None:
        """Give a peer its place in the arrays."""
        kept = [(name, getattr(peer, name)) for name in (*PEER_FIELDS, *SHADOWED)]
        reports = peer.reports
        peer.reports = None  # type: ignore[assignment]  # the slot is not read any more
        peer.__class__ = self.peer_class
        peer.cell = cell  # type: ignore[attr-defined]  # of ArrayPeer
        self.store.clear_reports(cell)
        for name, value in kept:
            if name != "reports":
                setattr(peer, name, value)
        for reporter, time_ms in reports.items():
            if reporter in self.index_of:
                peer.reports[reporter] = time_ms
        self._readdress(cell, peer)
        self.moved.pop(cell, None)

    def _readdress(self, cell: int, peer: Peer) -> None:
        number = self.numbers.address(peer.ip, peer.port, peer.cport, peer.pport)
        marks = self.store.hot[at.FLAGS]
        marks[cell] = number << at.ADDRESS_SHIFT | marks[cell] & LOW_HALF

    def refresh(self, row: int) -> None:
        """The plain machine has handled an event of a node: see what the loop must know of it."""
        host, rows = self.hosts[row], self.store.rows
        node = host.node
        view, state = node.view, node.state
        if self.members[row] != (node, view.members, len(view.nodes)):
            self._attach(row)
        if state.agenda_nodes != len(view.nodes):
            self.store.look_at_all(row)
            state.agenda_nodes = len(view.nodes)
        if state.agenda_spans:
            state.agenda.clear()
            state.agenda_spans.clear()
        if self.moved:
            for cell in self.moved:
                at_row, number = divmod(cell, self.nodes)
                peer = self.views[at_row].nodes.get(self.ids[number])
                if peer is not None:
                    self._readdress(cell, peer)
            self.moved.clear()
        myself = view.myself
        rows[at.FIRST_STATE][row] = -1 if view.first_state_ms is None else view.first_state_ms
        rows[at.REPLICATING][row] = self.index_of.get(state.replicating, at.NONE)
        rows[at.ELECTS][row] = state.election.is_sent
        rows[at.SETTLED][row] = not (view.unclaimed or view.migrating or view.importing)
        rows[at.CAUSE][row] = bool(state.election.cause)
        rows[at.FULL_COVERAGE][row] = view.full_coverage_required
        rows[at.HOT][row] = (
            row not in self.strangers
            and bool(myself.ip)
            and not view.mf_end_ms
            and not view.blacklist
            and not state.todo
            and not state.out
            and not (view.state_stale and view.first_state_ms is None)
        )

    def refresh_hosts(self) -> None:
        """Something was done to the world: see which processes run, and what their clocks show."""
        rows = self.store.rows
        for row, host in enumerate(self.hosts):
            runs = at.RUNNING
            if not host.alive:
                runs = at.DEAD
            elif host.is_stopped or host.inbox is not None or host.work_us or host.drift_ppm:
                runs = at.ELSEWHERE
            rows[at.RUNS][row], rows[at.LIFE][row], rows[at.SHIFT_US][row] = runs, host.life, host.shift_us
            self.refresh(row)

    # -- the run -------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """The loop goes on where the world stands."""
        control, world = self.store.control, self.world
        control[at.SEQUENCE], control[at.NOW] = world.sequence, world.now_us

    def leave(self) -> None:
        """The world goes on where the loop stands."""
        control, world, network = self.store.control, self.world, self.world.network
        world.sequence = control[at.SEQUENCE]
        network.messages += control[at.MESSAGES]
        network.bytes += control[at.BYTES]
        control[at.MESSAGES] = control[at.BYTES] = 0
        if control[at.WAITS] or control[at.BINDS]:
            self._flush()

    def _flush(self) -> None:
        """Tell the objects of connections what the loop has noted: messages that wait for them, and whose they are."""
        control, store, nodes = self.store.control, self.store, self.nodes
        slots, cells = store.scratch[at.WAIT_LIST], store.scratch[at.BIND_LIST]
        for k in range(control[at.WAITS]):
            opener, acceptor = store.message(slots[k])[:2]
            stream = self.hosts[opener].streams[store.narrow[at.WAITING][opener * nodes + acceptor]]
            self.connections.wait(stream, slots[k])
        for k in range(control[at.BINDS]):
            row, number = divmod(cells[k], nodes)
            view = self.views[row]
            view.links[store.narrow[at.INBOUND][cells[k]]].node = view.nodes[self.ids[number]].id
        control[at.WAITS] = control[at.BINDS] = 0

    def run_to(self, end_us: int) -> None:
        """Let time pass until *end_us*, as `World.run_to` does."""
        world, store, heap = self.world, self.store, self.world.heap
        listeners = self.listeners = [watch for watch in world.senders if watch not in self.book.listeners]
        store.control[at.STEPS] = bool(listeners)
        self.refresh_hosts()
        while True:
            limit_us, limit_order = heap[0][:2] if heap else (NEVER, NEVER)
            self.enter()
            asked = store.run(end_us, limit_us, limit_order)
            now_us = store.control[at.NOW]
            self.leave()
            if listeners:
                world.now_us = now_us
                self._tell(listeners)
            if asked == at.LIMIT:
                if not heap or heap[0][0] > end_us:
                    break
                world.now_us, order, action, first, second = heappop(heap)
                self._act(order, action, first, second)
                if listeners:
                    self._tell(listeners)
            elif asked == at.ASK_GROW:
                store.grow()
            elif asked not in (at.STEPPED, at.ASK_FLUSH):
                world.now_us = now_us
                ANSWERS[asked](self)
        world.now_us = end_us

    def _tell(self, listeners: list[Callable[[Host, SendMessage], None]]) -> None:
        """Somebody listens to each message."""
        control = self.store.control
        for k in range(control[at.SENT_COUNT]):
            slot = self.store.scratch[at.SENT_LIST][k]
            m = self.store.message(slot)
            cell = m[at.M_OPENER] * self.nodes + m[at.M_ACCEPTOR]
            sender, link = (m[at.M_ACCEPTOR], at.FAR) if m[at.M_BACK] else (m[at.M_OPENER], at.NEAR)
            effect = SendMessage(self.store.narrow[link][cell], self.maker.make(slot))
            for watch in listeners:
                watch(self.hosts[sender], effect)
        control[at.SENT_COUNT] = 0

    def _act(self, order: int, action: Any, first: Any, second: Any) -> None:
        """Do what the plain world had planned, but leave ticks to the loop."""
        actor = getattr(action, "__self__", None)
        world = self.world
        if actor is world and action.__func__ is World._tick:
            self.store.place(world.now_us, order, -1 - self.row_of[first.index] - (second << LIFE_SHIFT))
            return
        action(first, second)
        if actor is world.network:
            if action.__func__ is Network._deliver:
                self.touched[first.target.index] = None
        elif actor is not world.replication:
            self.refresh_hosts()
        self.refresh_touched()

    def taken(self, slot: int) -> Message:
        """The message in *slot*, which is free from now on."""
        message = self.maker.make(slot)
        self.store.free(slot)
        return message

    def refresh_touched(self) -> None:
        """See what the loop must know of those to whom something happened."""
        for index in self.touched:
            self.refresh(self.row_of[index])
        self.touched.clear()

    # -- the end -------------------------------------------------------------------------------------------------

    def count(self, row: int) -> None:
        """Add to a node's counters what the loop has counted."""
        rows, state = self.store.rows, self.hosts[row].node.state
        for kind, sent, heard in ((0, at.SENT_PING, at.HEARD_PING), (1, at.SENT_PONG, at.HEARD_PONG)):
            state.sent[kind] += rows[sent][row]
            state.received[kind] += rows[heard][row]
        state.received[3] += rows[at.HEARD_FAIL][row]
        state.sent_bytes += rows[at.SENT_BYTES][row]
        state.received_bytes += rows[at.HEARD_BYTES][row]
        for plane in COUNTERS:
            rows[plane][row] = 0

    def end(self) -> None:
        """Give every object of the plain world its own fields back, and every event its place in the heap."""
        world, store = self.world, self.store
        for row in range(self.nodes):
            self._detach(row)
        rng: Any = self.originals[self.nodes]
        rng.setstate((3, store.state_of(self.nodes), None))
        world.network.rng, world.network.random = rng, rng.random
        for at_us, order, what in store.planned():
            if what < 0:
                number = -1 - what
                host = self.hosts[number & ((1 << LIFE_SHIFT) - 1)]
                heappush(world.heap, (at_us, order, world._tick, host, number >> LIFE_SHIFT))
                continue
            m = store.message(what)
            way = self.connections.carrier(m)
            if way is not None:
                heappush(world.heap, (at_us, order, world.network._deliver, way, self.maker.make(what)))
        self.connections.release_all()

    def _detach(self, row: int) -> None:
        host = self.hosts[row]
        node = self.attached[row]
        view, state = node.view, node.state
        if host.node is node:
            self.count(row)
        for peer in view.nodes.values():
            if type(peer) is self.peer_class:
                kept = [(name, getattr(peer, name)) for name in PEER_FIELDS if name != "reports"]
                reports = dict(peer.reports.items())
                peer.__class__ = Peer
                peer.reports = reports
                for name, value in kept:
                    setattr(peer, name, value)
        numbers = {name: getattr(view, name) for name in (*VIEW_NUMBERS, *VIEW_TRUTHS)}
        view.__class__ = View
        view.__dict__.update(numbers)
        del view.__dict__["row"]
        counts = {name: getattr(state, name) for name in STATE_NUMBERS}
        state.__class__ = NodeState
        for name, value in counts.items():
            setattr(state, name, value)
        state.said_version = -1
        state.agenda_nodes = 0
        rng: Any = self.originals[row]
        rng.setstate((3, self.store.state_of(row), None))
        host.rng = state.rng = rng
