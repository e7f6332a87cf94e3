"""A world with everybody in it: hosts, faults, operators, clients, trace, checkers.  `play` and `experiment` use it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from cluster_core.node import events as ev
from cluster_core.sim.checkers import Checks, Violation, check_views
from cluster_core.sim.clients import Client
from cluster_core.sim.faults import Faults
from cluster_core.sim.host import Host
from cluster_core.sim.layouts import Place
from cluster_core.sim.lost_writes import LossWatch, Missing, violations_of
from cluster_core.sim.network_paths import Path
from cluster_core.sim.operators import Operators
from cluster_core.sim.trace import Log, Trace
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from random import Random


class Stage:
    """A cluster that runs, and all who act on it or watch it; the same arguments give the same run.

    Without *is_told* nobody keeps a trace and logs, which a large cluster has no use for.
    """

    def __init__(
        self,
        make_rng: Callable[[str], Random],
        seed: int | str,
        places: Sequence[Place],
        *,
        path: Path | None = None,
        keep_configs: bool = True,
        shifts_us: Sequence[int] = (),
        is_told: bool = True,
    ) -> None:
        self.world = world = World(make_rng, seed, path=path, keep_configs=keep_configs)
        self.trace = Trace(world)
        self.log = Log()
        if is_told:
            world.observers += [self.trace, self.log]
        self.checks = Checks(world)
        self.losses = LossWatch(world)
        self.faults = Faults(world)
        self.faults.on_trouble.append(self.losses.trouble)
        self.faults.on_wipe.append(self.losses.wipe)
        self.faults.on_restart.append(lambda host, forgets: self.checks.restarted(host, lost_disk=forgets))
        self.operators = Operators(world)
        self.operators.on_moved.append(self.losses.moved)
        self.clients: list[Client] = []
        self.heard: list[tuple[Host, ev.Deliver]] = []
        world.on_deliver = lambda host, delivery: self.heard.append((host, delivery))
        world.populate(places, shifts_us)

    def hosts(self, names: Collection[str]) -> list[Host]:
        """The hosts with these names, in the order of the world."""
        return [host for host in self.world.hosts if host.name in names]

    def host(self, name: str) -> Host:
        """The host with a name."""
        return self.hosts((name,))[0]

    def add_clients(self, count: int, *, rate: float = 10.0, zone: str = "", wait: int = 0) -> None:
        """Have *count* more clients write."""
        for _ in range(count):
            self.clients.append(Client(self.world, len(self.clients) + 1, rate=rate, zone=zone, wait=wait))

    def stop_clients(self) -> None:
        """Have nobody write any more."""
        for client in self.clients:
            client.stop()

    @property
    def acknowledged(self) -> int:
        """Writes that clients know to be done."""
        return sum(len(client.acks) for client in self.clients)

    def missing(self) -> Missing:
        """Acknowledged writes that are gone, or cannot be reached."""
        return self.losses.find(ack for client in self.clients for ack in client.acks)

    def agreement(self) -> list[Violation]:
        """In what the running members of the cluster differ; nothing if they agree."""
        members = [host for host in self.world.running() if len(host.node.view.nodes) > 1]
        return check_views(self.world, members)

    def violations(self, *, converges: bool) -> list[Violation]:
        """Everything that should not have been; with *converges* also that views still differ."""
        found = list(self.checks.violations)
        found += violations_of(self.world, self.missing().lost)
        return found + (self.agreement() if converges else [])

    def digest(self) -> str:
        """A number for the whole run: its trace and what went over the bus."""
        network = self.world.network
        text = "\n".join((*self.trace.lines(), f"{network.messages} {network.bytes} {self.world.sequence}"))
        return sha256(text.encode()).hexdigest()
