"""World of a simulation: virtual time, hosts, and the driver of docs/design/node.md.

Equal seeds give equal runs. Each host and part of the world has its own generator, so a fault does not change other draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from cluster_core.gossip import events as belief
from cluster_core.gossip.events import Tick
from cluster_core.node import events as ev
from cluster_core.node.config_file import SavedConfig, owned_slots
from cluster_core.node.cron import RANDOM_PING_CRONS
from cluster_core.node.events import Effect, Event, SendMessage
from cluster_core.node.machine import Node
from cluster_core.sim.clock import START_US
from cluster_core.sim.host import Host, NetworkPath
from cluster_core.sim.layouts import Place, topology_of
from cluster_core.sim.network import Driver, Network
from cluster_core.sim.servers.replication import Replication
from cluster_core.sim.servers.store import WRITE_BYTES

if TYPE_CHECKING:
    from random import Random

TICK_US: Final = 100_500
"""Cron period of a server: 100 ms and the event loop's time, measured (R170)."""


class Observer(Protocol):
    """Passive observer of nodes' effects and external actions."""

    def on_effect(self, host: Host, effect: Effect) -> None:
        """Handle an effect; messages go to `on_send` of observers that have it."""

    def on_note(self, text: str) -> None:
        """Handle an action of the scenario."""


class World(Driver):
    """Hosts and their network; replies to *clients* go to `on_reply`."""

    def __init__(
        self,
        make_rng: Callable[[str], Random],
        seed: int | str,
        *,
        path: NetworkPath | None = None,
        tick_us: int = TICK_US,
        tick_jitter_us: int = 200,
    ) -> None:
        super().__init__()
        self.make_rng, self.seed = make_rng, seed
        self.tick_us, self.tick_jitter_us = tick_us, tick_jitter_us
        self.rng = make_rng(f"{seed}/world")
        self.hosts: list[Host] = []
        self.network = Network(self, make_rng(f"{seed}/network"), path or NetworkPath())
        self.replication = Replication(self, self.network)
        self.observers: list[Observer] = []
        self.senders: list[Callable[[Host, SendMessage], None]] = []
        self.on_reply: dict[int, Callable[[Host, Any], None]] = {}
        self.names: dict[str, str] = {}

    # -- hosts ---------------------------------------------------------------------------------------------------

    def add(self, place: Place, config: SavedConfig | None = None) -> Host:
        """Add a host and start its process, with an uptime below a second."""
        index = len(self.hosts)
        rng = self.make_rng(f"{self.seed}/host/{index}")
        host = Host(index, place.name, place.ip, place.zone, place.settings, rng, START_US)
        self.hosts.append(host)
        self.network.by_address[host.ip, host.settings.bus_port] = host
        self.network.by_address[host.ip, host.settings.port] = host
        self.start(host, config, my_id=place.node_id, shard_id=place.shard_id)
        return host

    def populate(self, places: Sequence[Place]) -> None:
        """Add *places*; cluster members know each other from the start."""
        topology = topology_of([place for place in places if not place.is_spare])
        owned = owned_slots(topology)
        for place in places:
            self.add(place, None if place.is_spare else SavedConfig(place.node_id, topology, owned))

    def start(self, host: Host, config: SavedConfig | None = None, *, my_id: str = "", shard_id: str = "") -> None:
        """Start the process of *host* from a nodes.conf, or as a new node."""
        host.alive, host.is_off, host.is_stopped = True, False, False
        host.inbox = deque() if host.work_us else None
        host.life += 1
        host.paused_until_us, host.paused_work = 0, []
        host.node = Node(
            host.settings,
            host.rng,
            self.wall_ms(host),
            my_id=my_id,
            shard_id=shard_id,
            config=config,
            keyspace=host.store,
        )
        host.config_saved = host.config_synced = config
        self.names[host.id] = host.name
        if host.store.offset:
            self.tell(host, ev.ReplicationOffset(host.store.offset))
        crons = host.rng.random()
        if host.life == 1:  # processes of a cluster start in different seconds
            crons *= RANDOM_PING_CRONS
            host.node.state.iteration = int(crons)
        self.call_at(self.now_us + int(crons % 1 * self.tick_us), self._tick, host, host.life)
        self.replication.start(host)

    def _tick(self, host: Host, life: int) -> None:
        if host.life != life or not host.alive or host.is_stopped:
            return
        if host.inbox is not None:
            self.tell(host, TICK)
            return
        wanted = host.node.handle(TICK, (self.now_us + host.shift_us) // 1000)
        if wanted:
            self.carry_out(host, wanted)
        if host.inbox is None:
            self.plan_tick(host)

    def plan_tick(self, host: Host) -> None:
        """Schedule the next cron (R28, R170)."""
        wait_us = self.tick_us + int(host.rng.random() * self.tick_jitter_us)
        self.call_at(self.now_us + wait_us, self._tick, host, host.life)

    # -- driver --------------------------------------------------------------------------------------------------

    def tell(self, host: Host, event: Event) -> None:
        """Pass an event to a node, now or when its process continues, and execute its effects."""
        if not host.alive:
            return
        if host.inbox is not None:
            host.inbox.append(event)
            if host.work_us and len(host.inbox) == 1 and not host.is_stopped:
                self.call_at(max(self.now_us, host.busy_us) + host.work_us, self._work, host, host.life)
            return
        self.carry_out(host, host.node.handle(event, (self.now_us + host.shift_us) // 1000))

    def carry_out(self, host: Host, wanted: list[Any]) -> None:
        """Execute effects of the node of *host*."""
        send, observers = self.network.send, self.observers
        for effect in wanted:
            kind = type(effect)
            if kind is SendMessage:
                send(host, effect.link, effect.message)
                for watch in self.senders:
                    watch(host, effect)
                continue
            action = _ACTIONS.get(kind)
            if action is not None:
                action(self, host, effect)
            for observer in observers:
                observer.on_effect(host, effect)

    def _work(self, host: Host, life: int) -> None:
        """Process the next event of a slow process."""
        inbox = host.inbox
        if host.life != life or not inbox or host.is_stopped:
            return
        event = inbox.popleft()
        host.inbox = None
        self.tell(host, event)
        if not host.alive:
            return
        if type(event) is Tick:
            self.plan_tick(host)
        if host.work_us:
            host.inbox = inbox
            host.busy_us = self.now_us
        if inbox:
            self.call_at(self.now_us + host.work_us, self._work, host, life)

    def note(self, text: str) -> None:
        """Report an external action to the observers."""
        for observer in self.observers:
            observer.on_note(text)

    def find(self, name: str) -> Host | None:
        """Return the host with a name."""
        return next((host for host in self.hosts if host.name == name), None)

    def name_of(self, node_id: str) -> str:
        """Return the host name of a node id, or the prefix of an unknown id."""
        return self.names.get(node_id) or f"?{node_id[:6]}"

    def running(self) -> Sequence[Host]:
        """Return the hosts with a running process that is not stopped."""
        return [host for host in self.hosts if host.answers]

    # -- effects -------------------------------------------------------------------------------------------------

    def _open_link(self, host: Host, effect: ev.OpenLink) -> None:
        self.network.open(host, effect.link, effect.ip, effect.cport)

    def _close_link(self, host: Host, effect: belief.CloseLink) -> None:
        self.network.close(host, effect.link)

    def _replicate(self, host: Host, effect: ev.StartReplication) -> None:
        self.replication.follow(host, effect)

    def _promote(self, host: Host, effect: ev.PromoteMyself) -> None:
        self.replication.promote(host)

    def _drop_keys(self, host: Host, effect: ev.DropKeys) -> None:
        host.store.drop(effect.slots)

    def _pause(self, host: Host, effect: ev.PauseClients) -> None:
        host.paused_until_us = effect.until_ms * 1000 - host.shift_us
        self.call_at(host.paused_until_us + 1, self._unpause, host, host.life)

    def _resume(self, host: Host, effect: ev.ResumeClients) -> None:
        host.paused_until_us = 0
        self.call_at(self.now_us, self._unpause, host, host.life)

    def _unpause(self, host: Host, life: int) -> None:
        """Execute paused client commands by the current rules (R100)."""
        if host.life != life or self.now_us < host.paused_until_us:
            return
        work, host.paused_work = host.paused_work, []
        for client, arguments in work:
            self.tell(host, ev.ClientCommand(client, arguments))

    def _execute(self, host: Host, effect: ev.Execute) -> None:
        if self.now_us < host.paused_until_us and effect.arguments[0].lower() in WRITES:
            host.paused_work.append((effect.client, effect.arguments))
            return
        self._answer(host, effect.client, self.execute(host, effect.arguments))

    def execute(self, host: Host, arguments: tuple[bytes, ...]) -> Any:
        """Execute a SET, the only command of simulated clients, and return the reply."""
        self.replication.write(host, arguments[1], arguments[2], WRITE_BYTES)
        return "OK"

    def _reply(self, host: Host, effect: ev.Reply) -> None:
        self._answer(host, effect.client, effect.value)

    def _answer(self, host: Host, client: int, value: Any) -> None:
        heard = self.on_reply.get(client)
        if heard is not None:
            heard(host, value)


TICK: Final = Tick()
WRITES: Final = frozenset((b"set", b"del"))
"""Write commands of simulated clients."""

_ACTIONS: Final[dict[type, Callable[[World, Host, Any], None]]] = {
    ev.OpenLink: World._open_link,
    belief.CloseLink: World._close_link,
    ev.StartReplication: World._replicate,
    ev.PromoteMyself: World._promote,
    ev.DropKeys: World._drop_keys,
    ev.PauseClients: World._pause,
    ev.ResumeClients: World._resume,
    ev.Execute: World._execute,
    ev.Reply: World._reply,
}
