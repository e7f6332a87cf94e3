"""The fast path of the simulator: steady gossip in compiled code, everything else by the plain machine (docs/simulator.md).

`Steady` puts the clocks, flags and reports of all nodes into arrays, has `cluster_core.sim.fast.gossip_engine` handle ticks and
messages from which nothing new follows, and asks the plain machine for the rest, event by event, in the same order.  The run is
the same: messages, times, views, and what every generator draws next.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip.flags import HANDSHAKE
from cluster_core.gossip.view import Peer, View
from cluster_core.node.events import SendMessage
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeState
from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.connections import Connections
from cluster_core.sim.fast.messages import MessageMaker
from cluster_core.sim.fast.proxies import (
    moved_to,
    peer_class,
    state_class,
    view_class,
)
from cluster_core.sim.fast.rules import rules_of
from cluster_core.sim.fast.stand_ins import ArrayRandom
from cluster_core.sim.fast.state import SteadyState
from cluster_core.sim.host import Host
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from cluster_core.gossip.events import Effect

NEVER: Final = 1 << 62
LIFE_SHIFT: Final = 32
LOW_HALF: Final = (1 << at.ADDRESS_SHIFT) - 1
COUNTERS: Final = range(at.SENT_PING, at.HEARD_BYTES + 1)


class Steady(SteadyState):
    """The arrays of one world and who serves them; `begin_steady` makes it, `end` puts everything back."""

    def __init__(self, world: World, book: Any) -> None:
        super().__init__(world)
        self.attached: list[Any] = [None] * self.nodes
        self.changes: list[Effect] = []
        self.touched: dict[int, None] = {}
        self.maker = MessageMaker(self)
        self.connections = Connections(self, self.maker)
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
            self.attached[row] = node
            store.clear_row(row)
            store.rows[at.REPORTED][row] = 1
            view, state = self._replace(node, moved_to(self.view_class, view, row=row), self.state_class, row=row)
            self.views[row] = view
            if not isinstance(state.rng, ArrayRandom):
                host.rng = state.rng = ArrayRandom(store, row)  # type: ignore[assignment]
            for plane, value in rules_of(settings).items():
                store.rows[plane][row] = int(value)
            address = self.numbers.address(settings.announce_ip or host.ip, settings.port, settings.bus_port, 0)
            store.address(row, address)
            for plane in COUNTERS:
                store.rows[plane][row] = 0
        known, first = store.narrow[at.KNOWN], row * self.nodes
        store.strangers(row)
        self.strangers.pop(row, None)
        for name, peer in list(view.nodes.items()):
            number = self.index_of.get(name)
            if number is None or peer.flags & HANDSHAKE:
                self.strangers[row] = None
                continue
            if type(peer) is Peer:
                self._adopt_peer(view, peer, first + number)
            known[first + number] = 1
        state.table = [view.nodes.get(peer.id, peer) for peer in state.table]
        if view.myself.id != self.ids[row]:
            self.strangers[row] = None
        store.settle_row(row, [self.index_of.get(peer.id, at.NONE) for peer in state.peers()])
        self.members[row] = (node, view.members, len(view.nodes))

    def _replace(self, node: Node, view: View, kind: type[NodeState], **own: int) -> tuple[View, NodeState]:
        """Let *node* go on with another view, and a state of another kind."""
        node.state.beliefs.node.view = node.state.beliefs.view = node.view = view
        state = node.state = moved_to(kind, node.state, **own)
        state.view = view
        return view, state

    def _adopt_peer(self, view: View, old: Peer, cell: int) -> None:
        """Give a peer its place in the arrays."""
        self.store.clear_reports(cell)
        peer = moved_to(self.peer_class, old, cell=cell)
        view.nodes[old.id] = peer
        if view.myself is old:
            view.myself = peer
        for reporter, time_ms in old.reports.items():
            if reporter in self.index_of:
                peer.reports[reporter] = time_ms
        self._readdress(cell, peer)
        self.moved.pop(cell, None)

    def _readdress(self, cell: int, peer: Peer) -> None:
        number = self.numbers.address(peer.ip, peer.port, peer.cport, peer.pport)
        flags = number << at.ADDRESS_SHIFT | self.store.flags[cell] & LOW_HALF
        if flags != self.store.flags[cell]:
            self.store.settle_marks(cell // self.nodes)
            self.store.flags[cell] = flags

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
        rows[at.NEXT_DUE][row] = 0
        myself = view.myself
        rows[at.FIRST_STATE][row] = -1 if view.first_state_ms is None else view.first_state_ms
        rows[at.REPLICATING][row] = self.index_of.get(state.replicating, at.NONE)
        rows[at.ELECTS][row] = state.election.is_sent and view.profile.rivals_end_elections
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
        view, state = self._replace(node, moved_to(View, view), NodeState)
        for name, peer in list(view.nodes.items()):
            if type(peer) is self.peer_class:
                plain = view.nodes[name] = moved_to(Peer, peer)
                plain.reports = dict(peer.reports.items())
        view.myself = view.nodes[view.myself.id]
        state.table = [view.nodes.get(peer.id, peer) for peer in state.table]
        view.said_version = -1
        state.agenda_nodes = 0
        rng: Any = self.originals[row]
        rng.setstate((3, self.store.state_of(row), None))
        host.rng = state.rng = rng
