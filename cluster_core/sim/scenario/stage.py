"""The stage of a scenario: a world, its checkers, and the actions that change it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cluster_core.node import events as ev
from cluster_core.sim.checkers import Checks, Violation, check_views
from cluster_core.sim.clients import Client, LossWatch, Missing, violations_of
from cluster_core.sim.faults import Faults
from cluster_core.sim.host import Host, Path
from cluster_core.sim.layouts import Place
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


def _each(action: Callable[..., Any]) -> Callable[..., None]:
    def act(stage: Stage, names: tuple[str, ...], *values: Any) -> None:
        for host in stage.hosts(names):
            action(stage, host, *values)

    return act


def _restart(*, config: bool, data: bool) -> Callable[..., None]:
    return _each(lambda stage, host: stage.faults.restart(host, config=config, data=data))


def _cut(*, both_ways: bool) -> Callable[..., None]:
    def act(stage: Stage, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        stage.faults.cut(stage.hosts(one), stage.hosts(other), both_ways=both_ways)

    return act


def _flap(stage: Stage, one: tuple[str, ...], other: tuple[str, ...], every_us: int, for_us: int) -> None:
    until_us = stage.world.now_us + for_us
    stage.faults.flap(stage.hosts(one), stage.hosts(other), max(every_us, 1000), until_us)


def _delay(stage: Stage, one: tuple[str, ...], other: tuple[str, ...], by_us: int) -> None:
    usual = stage.world.network.usual
    stage.faults.change_paths(stage.hosts(one), stage.hosts(other), delay_us=usual.delay_us + max(by_us, 0))


def _share(name: str) -> Callable[..., None]:
    def act(stage: Stage, share: float, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        stage.faults.change_paths(stage.hosts(one), stage.hosts(other), **{name: share})

    return act


def _clients(stage: Stage, count: int, rate: float = 10.0, wait: int = 0, zone: str = "") -> None:
    stage.add_clients(count, rate=max(rate, 0.01), wait=wait, zone=zone)


def _command(stage: Stage, host: Host, words: tuple[str, ...]) -> None:
    answer = stage.operators.command(host, words)
    if answer != "OK":
        stage.world.note(f"{host.name} answers {answer[:100]!r}")


def _between(act: Callable[[Operators, int, Host, Host], Any]) -> Callable[..., None]:
    def move(stage: Stage, slot: int, source: str, target: str) -> None:
        act(stage.operators, slot, stage.host(source), stage.host(target))

    return move


def _limit(stage: Stage, limit_bytes: int) -> None:
    stage.world.network.sendbuf_limit_bytes = limit_bytes


ACTIONS: Final[Mapping[str, Callable[..., None]]] = {
    "=crash nodes": _each(lambda stage, host: stage.faults.crash(host)),
    "=switch-off nodes": _each(lambda stage, host: stage.faults.switch_off(host)),
    "=restart nodes": _restart(config=True, data=True),
    "=restart nodes =without-config": _restart(config=False, data=True),
    "=restart nodes =without-data": _restart(config=True, data=False),
    "=restart nodes =without-anything": _restart(config=False, data=False),
    "=stop nodes": _each(lambda stage, host: stage.faults.stop(host)),
    "=resume nodes": _each(lambda stage, host: stage.faults.resume(host)),
    "=slow nodes time": _each(lambda stage, host, time_us: stage.faults.slow(host, max(time_us, 0))),
    "=jump nodes time": _each(lambda stage, host, time_us: stage.faults.jump(host, time_us)),
    "=drift nodes number =ppm": _each(lambda stage, host, ppm: stage.faults.drift(host, ppm)),
    "=cut nodes =from nodes": _cut(both_ways=True),
    "=cut nodes =from nodes =one-way": _cut(both_ways=False),
    "=flap nodes =from nodes =every time =for time": _flap,
    "=delay nodes =from nodes =by time": _delay,
    "=lose share =between nodes =and nodes": _share("loss"),
    "=duplicate share =between nodes =and nodes": _share("duplicate"),
    "=reorder share =between nodes =and nodes": _share("reorder"),
    "=limit-sendbuf count": _limit,
    "=heal": lambda stage: stage.faults.heal(),
    "=clients count": _clients,
    "=clients count =rate number": _clients,
    "=clients count =rate number =wait count": _clients,
    "=clients count =rate number =zone text": lambda stage, count, rate, zone: _clients(stage, count, rate, zone=zone),
    "=stop-clients": lambda stage: stage.stop_clients(),
    "=command nodes rest": _each(_command),
    "=meet node node": lambda stage, one, other: stage.operators.meet(stage.host(one), stage.host(other)),
    "=move-slot slot =from node =to node": _between(Operators.move_slot),
    "=migrate-keys slot =from node =to node": _between(Operators.migrate_keys),
    "=say rest": lambda stage, words: None,
}
"""By the row of kinds (`forms`) that its line has."""
