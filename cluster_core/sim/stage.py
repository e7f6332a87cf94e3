"""Stage of a run: world, checkers, faults and clients."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_core.sim.checkers import Checks
from cluster_core.sim.clients import Client, LossWatch, Missing
from cluster_core.sim.faults import Faults
from cluster_core.sim.layouts import Place
from cluster_core.sim.world import World


class Stage:
    """A running cluster with its actors and observers; equal worlds give equal runs."""

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        self.world = world
        self.checks = Checks(world)
        self.losses = LossWatch(world)
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
