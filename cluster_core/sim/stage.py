"""Stage of a run (world, checkers, clients) and faults of processes, machines, clocks and the network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from cluster_core.gossip.events import Tick
from cluster_core.sim.checkers import Checks
from cluster_core.sim.clients import Client, LossObserver, Missing
from cluster_core.sim.host import Host
from cluster_core.sim.layouts import Place
from cluster_core.sim.servers.store import Store
from cluster_core.sim.world import World


class Faults:
    """Faults of one world; *on_trouble* gets hosts that may have missed decisions, *on_restart* new processes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_trouble: list[Callable[[Host], None]] = []
        self.on_wipe: list[Callable[[Host], None]] = []
        self.on_restart: list[Callable[[Host, bool], None]] = []

    # -- processes and machines ----------------------------------------------------------------------------------

    def crash(self, host: Host) -> None:
        """Kill the process; its kernel closes its connections."""
        if not host.alive:
            return
        self._end(host)
        self.world.network.crash(host)
        self.world.replication.crash(host)

    def switch_off(self, host: Host) -> None:
        """Power off the machine, or its zone's network, without closing connections."""
        if host.alive:
            self._end(host)
        host.is_off = True
        host.config_saved = host.config_synced
        self.world.network.switch_off(host)
        self.world.replication.crash(host)

    def _end(self, host: Host) -> None:
        host.alive, host.is_stopped = False, False
        host.inbox = None
        host.life += 1
        host.paused_work = []

    def restart(self, host: Host, *, config: bool = True, data: bool = True) -> None:
        """Restart the process with or without nodes.conf and data."""
        if host.alive:
            self.crash(host)
        was_off, host.is_off = host.is_off, False
        if not data:
            host.store = Store(f"{host.store.base}'")
            for heard in self.on_wipe:
                heard(host)
        forgets = not (config and host.config_saved)
        self.world.start(host, None if forgets else host.config_saved)
        for listener in self.on_restart:
            listener(host, forgets or was_off)
        self._trouble(host)
        if was_off:
            self.world.network.reset_orphans(host)
            for other in self.world.hosts:
                self.world.network.connect_again(other, host)

    def stop(self, host: Host) -> None:
        """Send SIGSTOP: the kernel accepts connections, the process does nothing."""
        if host.answers:
            host.is_stopped = True
            host.inbox = host.inbox if host.inbox is not None else deque()
            self._trouble(host)

    def resume(self, host: Host) -> None:
        """SIGCONT: run the timer first, then process waiting input."""
        if not host.is_stopped:
            return
        self._trouble(host)
        host.is_stopped = False
        waiting, host.inbox = host.inbox or deque(), None
        for event in (Tick(), *waiting):
            self.world.tell(host, event)
        if host.work_us:
            host.inbox = deque()
        self.world.plan_tick(host)
        for other in self.world.hosts:
            self.world.replication.healed(other, host)

    def slow(self, host: Host, work_us: int) -> None:
        """Make each event take *work_us*; 0 restores full speed."""
        if host.is_stopped:
            host.work_us = work_us
            return
        waiting, host.inbox = host.inbox or deque(), None
        host.work_us = 0
        for event in waiting:
            self.world.tell(host, event)
        host.work_us = work_us
        if work_us:
            host.inbox = deque()
        if any(type(event) is Tick for event in waiting):  # otherwise the next tick is already planned
            self.world.plan_tick(host)

    # -- clocks --------------------------------------------------------------------------------------------------

    def jump(self, host: Host, by_us: int) -> None:
        """Set the host's clock (R175)."""
        host.shift_us += by_us
        self._trouble(host)

    # -- the network ---------------------------------------------------------------------------------------------

    def cut(self, side: Sequence[Host], other: Sequence[Host], *, both_ways: bool = True) -> None:
        """Block traffic from *side* to *other*, and back if *both_ways*."""
        self._change(side, other, is_blocked=True)
        if both_ways:
            self._change(other, side, is_blocked=True)
        for host in (*side, *other):
            self._trouble(host)

    def heal(self) -> None:
        """Remove all blocks and restore all paths."""
        usual = self.world.network.usual
        changes = {name: getattr(usual, name) for name in _CHANGEABLE}
        for source, target in sorted(self.world.network.paths):
            hosts = self.world.hosts
            self._change([hosts[source]], [hosts[target]], **changes)
        for host in self.world.hosts:
            self._trouble(host)

    def change_paths(self, side: Sequence[Host], other: Sequence[Host], **changes: Any) -> None:
        """Change both directions between two groups; see `Path.copy`."""
        self._change(side, other, **changes)
        self._change(other, side, **changes)

    def flap(self, side: Sequence[Host], other: Sequence[Host], period_us: int, until_us: int) -> None:
        """Block and unblock traffic every *period_us* until *until_us*."""
        self._flap((tuple(side), tuple(other), period_us, until_us), 1)

    def _flap(self, schedule: tuple[Sequence[Host], Sequence[Host], int, int], stands: int) -> None:
        side, other, period_us, until_us = schedule
        over = self.world.now_us >= until_us
        self._change(side, other, is_blocked=bool(stands) and not over)
        self._change(other, side, is_blocked=bool(stands) and not over)
        for host in (*side, *other):
            self._trouble(host)
        if not over:
            self.world.call_at(self.world.now_us + period_us, self._flap, schedule, 1 - stands)

    def _change(self, sources: Sequence[Host], targets: Sequence[Host], **changes: Any) -> None:
        network = self.world.network
        for source in sources:
            for target in targets:
                if source is target:
                    continue
                was_blocked = network.path(source, target).is_blocked
                network.change(source, target, **changes)
                if was_blocked and not network.path(source, target).is_blocked:
                    self.world.replication.healed(source, target)

    def _trouble(self, host: Host) -> None:
        for heard in self.on_trouble:
            heard(host)


_CHANGEABLE = ("delay_us", "jitter_us", "loss", "is_blocked")


class Stage:
    """A running cluster with its actors and observers; equal worlds give equal runs."""

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        self.world = world
        self.checks = Checks(world)
        self.losses = LossObserver(world)
        self.faults = Faults(world)
        self.faults.on_trouble.append(self.losses.trouble)
        self.faults.on_wipe.append(self.losses.wipe)
        self.faults.on_restart.append(lambda host, forgets: self.checks.restarted(host, lost_disk=forgets))
        self.clients: list[Client] = []
        world.populate(places)

    def add_clients(self, count: int, *, rate: float, zone: str = "", wait: int = 0) -> None:
        """Add *count* writing clients."""
        for _ in range(count):
            self.clients.append(Client(self.world, len(self.clients) + 1, rate=rate, zone=zone, wait=wait))

    def stop_clients(self) -> None:
        """Stop all clients."""
        for client in self.clients:
            client.stop()

    @property
    def acknowledged(self) -> int:
        """Return the number of acknowledged writes."""
        return sum(len(client.acks) for client in self.clients)

    def missing(self) -> Missing:
        """Return acknowledged writes that are lost or unreachable."""
        return self.losses.find(ack for client in self.clients for ack in client.acks)
