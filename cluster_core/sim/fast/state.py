"""What the fast path holds of one world: its nodes by their numbers, the arrays, and whose clock goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster_core.sim.fast import gossip_fields as at
from cluster_core.sim.fast.numbers import Numbers
from cluster_core.sim.fast.store import Store

if TYPE_CHECKING:
    from cluster_core.gossip.view import View
    from cluster_core.sim.world import World


class SteadyState:
    """The nodes of *world* in the order of their ids, and the arrays that hold what the loop must know of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.hosts = sorted(world.hosts, key=lambda host: host.id)
        self.ids = [host.id for host in self.hosts]
        self.nodes = len(self.hosts)
        self.index_of = {name: number for number, name in enumerate(self.ids)}
        self.row_of = {host.index: number for number, host in enumerate(self.hosts)}
        self.store = Store(self.nodes, max(host.settings.gossip_percent for host in self.hosts))
        self.base_ms = world.wall_ms(self.hosts[0])
        self.views: list[View] = [host.node.view for host in self.hosts]
        self.moved: dict[int, None] = {}
        """Cells of nodes whose address has changed."""
        self.strangers: dict[int, None] = {}
        """Rows of nodes that know somebody who is not in the arrays."""
        self.members: dict[int, tuple[Any, int, int]] = {}
        """By row the node, what its view counts of comings and goings, and the length of its table, when the arrays were filled."""
        self.numbers = Numbers(self.store)

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
            waiting: list[Any] = stream.waiting  # type: ignore[assignment]  # messages, or their numbers
            waiting.append(slots[k])
        for k in range(control[at.BINDS]):
            row, number = divmod(cells[k], nodes)
            view = self.views[row]
            view.links[store.narrow[at.INBOUND][cells[k]]].node = view.nodes[self.ids[number]].id
        control[at.WAITS] = control[at.BINDS] = 0
