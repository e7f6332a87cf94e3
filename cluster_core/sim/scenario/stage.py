"""Stage of a scenario: world, checkers, actions and conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cluster_core.gossip.flags import FAIL, HANDSHAKE, MASTER, PFAIL
from cluster_core.sim.checkers import Checks, Violation, check_views
from cluster_core.sim.clients import Client, LossWatch, Missing, violations_of
from cluster_core.sim.faults import Faults
from cluster_core.sim.host import Host, Path
from cluster_core.sim.layouts import Place
from cluster_core.sim.servers.store import WRITE_BYTES
from cluster_core.sim.trace import Log, Trace
from cluster_core.sim.world import World
from cluster_core.wire.bus import TYPE_NAMES
from cluster_core.wire.resp import RespError

if TYPE_CHECKING:
    from random import Random


STEP_US: Final = 20_000
"""Time between two commands of a tool."""
_NAME: Final = re.compile(r"@([A-Za-z0-9]+)")


class Operators:
    """Issues commands; *on_moved* is called for keys moved to another master."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.on_moved: list[Callable[[int, Host], None]] = []

    def command(self, host: Host, words: tuple[str, ...]) -> str:
        """Return the reply of *host*; ``@M1`` stands for the id of M1. Empty without a reply."""
        named = tuple(_NAME.sub(self._id_of, word) for word in words)
        reply = self.world.ask(host, tuple(word.encode() for word in named))
        self.world.names[host.id] = host.name
        return "" if reply is None else text_of(reply)

    def _id_of(self, match: re.Match[str]) -> str:
        host = self.world.find(match[1])
        return host.id if host is not None else match[0]

    def meet(self, host: Host, other: Host) -> str:
        """CLUSTER MEET."""
        return self.command(host, ("CLUSTER", "MEET", other.ip, str(other.settings.port)))

    def move_slot(self, slot: int, source: Host, target: Host) -> None:
        """Move one slot like redis-cli: marks, keys, new owner at both ends (R123, R124).

        It stops at the first refused step, and does nothing if *source* does not own the slot.
        """
        if source is target or not source.answers or not source.node.view.myself.slots >> slot & 1:
            return
        number = str(slot)
        steps: list[Callable[[], bool]] = [
            lambda: self._set_slot(target, number, "IMPORTING", source),
            lambda: self._set_slot(source, number, "MIGRATING", target),
            lambda: self.migrate_keys(slot, source, target),
            lambda: self._set_slot(target, number, "NODE", target),
            lambda: self._set_slot(source, number, "NODE", target),
        ]
        self._go_on(steps)

    def _set_slot(self, host: Host, slot: str, action: str, other: Host) -> bool:
        return self.command(host, ("CLUSTER", "SETSLOT", slot, action, f"@{other.name}")) == "OK"

    def _go_on(self, steps: list[Callable[[], bool]], _: Any = None) -> None:
        if steps and steps[0]():
            self.world.call_at(self.world.now_us + STEP_US, self._go_on, steps[1:])

    def migrate_keys(self, slot: int, source: Host, target: Host) -> bool:
        """MIGRATE all keys of a slot; False if an end is down or must not write."""
        if not source.answers or not target.answers:
            return False
        if not source.node.view.myself.flags & target.node.view.myself.flags & MASTER:
            return False
        for key, value in list(source.store.held.get(slot, {}).items()):
            self.world.replication.write(target, key, value, WRITE_BYTES)
            self.world.replication.write(source, key, None, WRITE_BYTES)
        for heard in self.on_moved:
            heard(slot, target)
        return True


def text_of(value: Any) -> str:
    """Format a reply as one line."""
    if isinstance(value, RespError):
        return value.text
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


class Stage:
    """A running cluster with its actors and observers; equal arguments give equal runs.

    Without *is_told* there is no trace and no log, for large clusters.
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
        world.populate(places, shifts_us)

    def hosts(self, names: Collection[str]) -> list[Host]:
        """Return the hosts with these names, in world order."""
        return [host for host in self.world.hosts if host.name in names]

    def host(self, name: str) -> Host:
        """Return the host with a name."""
        return self.hosts((name,))[0]

    def add_clients(self, count: int, *, rate: float = 10.0, zone: str = "", wait: int = 0) -> None:
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

    def agreement(self) -> list[Violation]:
        """Return differences between views of running members."""
        members = [host for host in self.world.running() if len(host.node.view.nodes) > 1]
        return check_views(self.world, members)

    def violations(self, *, converges: bool) -> list[Violation]:
        """Return all violations; with *converges* also differing views."""
        found = list(self.checks.violations)
        found += violations_of(self.world, self.missing().lost)
        return found + (self.agreement() if converges else [])

    def digest(self) -> str:
        """Return a hash of trace and bus traffic."""
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
    "=cut nodes =from nodes": _cut(both_ways=True),
    "=cut nodes =from nodes =one-way": _cut(both_ways=False),
    "=flap nodes =from nodes =every time =for time": _flap,
    "=delay nodes =from nodes =by time": _delay,
    "=lose share =between nodes =and nodes": _share("loss"),
    "=duplicate share =between nodes =and nodes": _share("duplicate"),
    "=reorder share =between nodes =and nodes": _share("reorder"),
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
"""Actions by form (`forms`) of the line."""


MEASURED_BY_CLIENTS: Final = ("=lost range", "=unavailable range", "=acknowledged range", "=unavailable time =at =most")
"""Conditions on clients; false without clients."""


def holds_of_cluster(stage: Stage, form: str, values: tuple[Any, ...]) -> bool:
    """Return whether the condition of *form* with *values* is true now."""
    if form in MEASURED_BY_CLIENTS and not stage.clients:
        return False
    return CONDITIONS[form](stage, *values)


def _is_master(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and host.node.view.myself.flags & MASTER for host in stage.hosts(names))


def _is_replica(stage: Stage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and not host.node.view.myself.flags & MASTER for host in stage.hosts(names))


def _is_replica_of(stage: Stage, names: tuple[str, ...], verb: str, word: str, master: str) -> bool:
    master_id = stage.host(master).id
    return _is_replica(stage, names, verb, word) and all(
        host.node.view.myself.replicaof == master_id for host in stage.hosts(names)
    )


def _sees(stage: Stage, names: tuple[str, ...], verb: str, targets: tuple[str, ...], word: str) -> bool:
    ids = [host.id for host in stage.hosts(targets)]
    return all(_health(host, node_id) == word for host in stage.hosts(names) for node_id in ids if node_id != host.id)


def _health(host: Host, node_id: str) -> str:
    peer = host.node.view.nodes.get(node_id)
    if peer is None:
        return "gone"
    return "fail" if peer.flags & FAIL else "pfail" if peer.flags & PFAIL else "fine"


def _state(stage: Stage, word: str, names: tuple[str, ...] | None = None) -> bool:
    hosts = stage.world.running() if names is None else stage.hosts(names)
    return all(host.node.view.ok == (word == "ok") for host in hosts if len(host.node.view.nodes) > 1)


def _owns(stage: Stage, name: str, slot: int) -> bool:
    node_id = stage.host(name).id
    for host in stage.world.running():
        owner = host.node.view.owner_of(slot)
        if len(host.node.view.nodes) > 1 and (owner is None or owner.id != node_id):
            return False
    return True


def _knows(stage: Stage, names: tuple[str, ...], verb: str, count: int) -> bool:
    return all(
        sum(not peer.flags & HANDSHAKE for peer in host.node.view.nodes.values()) == count
        for host in stage.hosts(names)
    )


def answers(stage: Stage, names: tuple[str, ...], verb: str, text: str, words: tuple[str, ...]) -> bool:
    """Return whether all hosts answer a command with a text."""
    return all(text in stage.operators.command(host, words) for host in stage.hosts(names))


def _keys(stage: Stage, name: str, count: int) -> bool:
    return sum(len(keys) for keys in stage.host(name).store.held.values()) == count


def traced(stage: Stage, text: str, wanted: tuple[int, int]) -> bool:
    """Return whether the trace contains a text this often."""
    return within(sum(text in entry.text for entry in stage.trace.entries), wanted)


def logged(stage: Stage, name: str, text: str, wanted: tuple[int, int]) -> bool:
    """Return whether the log of a host contains a text this often."""
    return within(sum(host == name and text in line for host, line in stage.log.lines), wanted)


def _sent(stage: Stage, kind: str, wanted: tuple[int, int]) -> bool:
    if kind not in TYPE_NAMES:
        return False
    return within(sum(host.node.state.sent[TYPE_NAMES.index(kind)] for host in stage.world.hosts), wanted)


def within(value: int, wanted: tuple[int, int]) -> bool:
    """Return whether *value* is in an inclusive range."""
    return wanted[0] <= value <= wanted[1]


CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "nodes =is|are =master|masters": _is_master,
    "nodes =is|are =replica|replicas": _is_replica,
    "nodes =is|are =replica|replicas =of node": _is_replica_of,
    "nodes =see|sees nodes =fail|pfail|fine|gone": _sees,
    "=state =ok|fail": _state,
    "=state =ok|fail =at nodes": _state,
    "=everyone =agrees": lambda stage: not stage.agreement(),
    "=everyone =differs": lambda stage: bool(stage.agreement()),
    "node =owns slot": _owns,
    "node =has count =slots": lambda stage, name, count: stage.host(name).node.view.myself.slots.bit_count() == count,
    "nodes =know|knows count =nodes": _knows,
    "nodes =answer|answers text =to rest": answers,
    "node =holds count =keys": _keys,
    "node =epoch range": lambda stage, name, wanted: within(stage.host(name).node.view.myself.config_epoch, wanted),
    "node =logged text range": logged,
    "=trace text range": traced,
    "=sent text range": _sent,
    "=lost range": lambda stage, wanted: within(len(stage.missing().lost), wanted),
    "=unavailable range": lambda stage, wanted: within(len(stage.missing().unavailable), wanted),
    "=acknowledged range": lambda stage, wanted: within(stage.acknowledged, wanted),
    "=unavailable time =at =most": lambda stage, most_us: all(client.down_us <= most_us for client in stage.clients),
}
