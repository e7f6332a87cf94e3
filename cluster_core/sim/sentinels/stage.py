"""The stage of a scenario with sentinels: its checkers, its actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from cluster_core.sentinel.events import Announced, Exit
from cluster_core.sentinel.failover import votes_needed
from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sim.checkers import VIOLATIONS_MAX, Violation
from cluster_core.sim.experiment.conditions import answers, logged, traced, within
from cluster_core.sim.faults import Faults
from cluster_core.sim.host import Host, Path
from cluster_core.sim.layouts import Place
from cluster_core.sim.operators import Operators
from cluster_core.sim.scenario.stage import ACTIONS, Stage
from cluster_core.sim.sentinels.layout import SentinelLayout, sentinel_config, sentinel_places, shard_of
from cluster_core.sim.sentinels.world import SentinelWorld, is_sentinel, sentinel_of, server_of
from cluster_core.sim.trace import Entry, Log, Trace
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from random import Random


RULE: Final = "S17"
MIXED: Final = "redis-2230"
"""Two leaders that a defect of the server allows, which this model shares."""


class SentinelChecks:
    """An observer that collects violations of S17 as they happen: votes, leaders, configuration epochs.

    A vote or a win is told without its master, so with several masters what is one an epoch is counted for each master.
    """

    def __init__(self, world: SentinelWorld) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.mixed: list[tuple[str, int]] = []
        """Elections that were won with votes of two epochs: the master and the later epoch."""
        self._votes: dict[tuple[str, int, str], str] = {}
        self._leaders: dict[tuple[str, int], str] = {}
        self._epochs: dict[tuple[str, str], tuple[int, int]] = {}
        self._current: dict[str, int] = {}
        world.observers.append(self)

    def wrong(self, text: str, rule: str = RULE) -> None:
        """Note a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(rule, self.world.now_us, text))

    def on_note(self, text: str) -> None:
        """Faults are not our business."""

    def on_effect(self, host: Host, effect: Any) -> None:
        """Look at what a sentinel announces."""
        if type(effect) is not Announced:
            return
        masters = sentinel_of(host).state.masters
        for master in masters.values():
            self._check_epochs(host, master)
        if effect.channel == "+new-epoch":
            self._current[host.id] = int(effect.text)
        elif effect.channel == "+vote-for-leader":
            leader, _, epoch = effect.text.partition(" ")
            for master in masters.values():
                if master.leader == leader and master.leader_epoch == int(epoch):
                    self._check_vote(host, master, leader, int(epoch))
        elif effect.channel == "+elected-leader":
            master = masters[effect.text.split()[1]]
            if not master.flags & Flag.FORCE_FAILOVER:
                self._check_leader(host, master)

    def _check_epochs(self, host: Host, master: Instance) -> None:
        """Epochs of a name only grow, in every sentinel, over restarts."""
        now = (master.config_epoch, master.leader_epoch)
        last = self._epochs.get((host.id, master.name), now)
        if now[0] < last[0] or now[1] < last[1]:
            self.wrong(f"epochs of {master.name} at {host.name} fell from {last} to {now}")
        self._epochs[host.id, master.name] = now

    def _check_vote(self, host: Host, master: Instance, leader: str, epoch: int) -> None:
        """One vote of a sentinel an epoch."""
        before = self._votes.setdefault((master.name, epoch, host.id), leader)
        if before != leader:
            both = f"{self.world.name_of(before)} and {self.world.name_of(leader)}"
            self.wrong(f"{host.name} votes for {both} in epoch {epoch} of {master.name}")

    def _check_leader(self, host: Host, master: Instance) -> None:
        """One leader an epoch, with the votes of a majority and of a quorum, as the server counts them.

        It counts what others have voted in its current epoch, and its own vote in the epoch of the failover.  When another
        master fails meanwhile these are two epochs: nobody has a majority in one of them then, and two leaders are possible
        (sentinelGetLeader; redis #2230).
        """
        name, mine = master.name, master.failover_epoch
        epoch = self._current.get(host.id, sentinel_of(host).state.current_epoch)
        votes = sum(
            whom == host.id and (voted, at) == (name, mine if voter == host.id else epoch)
            for (voted, at, voter), whom in self._votes.items()
        )
        needed = votes_needed(len(master.sentinels) + 1, master.quorum)
        if votes < needed:
            self.wrong(f"{host.name} leads {name} in epoch {epoch} with {votes} votes of {needed}")
        rule = RULE
        if mine != epoch:
            self.mixed.append((name, epoch))
        if (name, epoch) in self.mixed:
            rule = MIXED
        other = self._leaders.setdefault((name, epoch), host.id)
        if other != host.id:
            self.wrong(f"{self.world.name_of(other)} and {host.name} both lead {name} in epoch {epoch}", rule)


def check_agreement(world: SentinelWorld) -> list[Violation]:
    """Once all has healed: every sentinel names the same master, which is one, and all running replicas follow it."""
    found: list[Violation] = []

    def wrong(text: str) -> None:
        found.append(Violation("converge", world.now_us, text))

    running = world.running()
    for place in world.masters:
        name = shard_of(place.name)
        views: dict[tuple[str, int, int], list[str]] = {}
        for host in running:
            master = sentinel_of(host).state.masters.get(name) if is_sentinel(host) else None
            if master is not None:
                views.setdefault((*master.address, master.config_epoch), []).append(host.name)
        if len(views) != 1:
            camps = (
                f"{','.join(who)} hold {world.name_of(f'{ip}:{port}')} in epoch {epoch}"
                for (ip, port, epoch), who in views.items()
            )
            wrong(f"{name}: {' | '.join(camps)}")
            continue
        ip, port, _ = next(iter(views))
        _check_servers(world, name, Address(ip, port), wrong)
    return found


def _check_servers(world: SentinelWorld, name: str, address: Address, wrong: Any) -> None:
    """The servers of one shard do what the sentinels believe."""
    for host in world.running():
        if is_sentinel(host) or shard_of(host.name) != name:
            continue
        server = server_of(host)
        if Address(host.ip, host.settings.port) == address:
            if server.master is not None:
                wrong(
                    f"{name}: {host.name} should be the master and follows {world.name_of(f'{server.master[0]}:{server.master[1]}')}"
                )
        elif server.master != address:
            wrong(f"{name}: {host.name} does not follow {world.name_of(str(address))}")
        elif not server.is_up:
            wrong(f"{name}: {host.name} is not in sync with {world.name_of(str(address))}")


class SentinelStage(Stage):
    """Masters and replicas of *places*, the sentinels that watch them; the same arguments give the same run."""

    def __init__(
        self,
        make_rng: Callable[[str], Random],
        seed: int | str,
        places: Sequence[Place],
        layout: SentinelLayout,
        *,
        zones: int = 1,
        path: Path | None = None,
    ) -> None:
        masters = [place for place in places if not place.master]
        self.world = world = SentinelWorld(make_rng, seed, path=path, layout=layout, masters=masters)
        self.sentinel_world = world
        self.trace = self.events = SentinelTrace(world)
        self.log = Log()
        world.observers += [self.trace, self.log, self]
        self.watch = SentinelChecks(world)
        self.faults = Faults(world)
        self.operators = Operators(world)
        self.clients, self.heard = [], []
        by_name = {place.name: place for place in places}
        for place in places:
            master = by_name.get(place.master)
            world.add(place, f"replicaof {master.ip} {master.settings.port}\n" if master is not None else "")
        for place in sentinel_places(layout, zones, make_rng(f"{seed}/sentinels")):
            world.add(place, sentinel_config(layout, place.node_id, masters))

    def on_effect(self, host: Host, effect: Any) -> None:
        """A process that wants to end does so when it has done the rest."""
        if type(effect) is Exit:
            self.world.call_at(self.world.now_us, lambda dying, _: self.faults.crash(dying), host)

    def on_note(self, text: str) -> None:
        """Not for us."""

    def agreement(self) -> list[Violation]:
        """In what sentinels and servers differ; nothing if they agree."""
        return check_agreement(self.sentinel_world)

    def violations(self, *, converges: bool) -> list[Violation]:
        """Everything that should not have been; with *converges* also that views still differ."""
        return [*self.watch.violations, *(self.agreement() if converges else ())]


_PLACE: Final = re.compile(r"(?:[0-9a-f]{40} |[0-9.]+:\d+ )?(\d+\.\d+\.\d+\.\d+)[ :](\d+)")
_ID: Final = re.compile(r"[0-9a-f]{40}")


class SentinelTrace(Trace):
    """Keeps what sentinels announce; an address, with or without the id in front of it, is the name of its host."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.announced: list[tuple[int, str, str, str]] = []
        """Time, sentinel, channel and text of every event."""

    def on_effect(self, host: Host, effect: Any) -> None:
        """Keep what is worth a line."""
        kind = type(effect)
        if kind is Announced:
            now_us = self.world.now_us
            self.announced.append((now_us, host.name, effect.channel, effect.text))
            self.entries.append(Entry(now_us, host.name, f"{effect.channel} {self.named(effect.text)}"))
        elif kind is Exit:
            self.entries.append(Entry(self.world.now_us, host.name, "ends"))
        else:
            super().on_effect(host, effect)

    def named(self, text: str) -> str:
        """*text* with the names of hosts."""
        places = _PLACE.sub(lambda found: self.world.name_of(f"{found[1]}:{found[2]}"), text)
        return _ID.sub(lambda found: self.world.name_of(found[0]), places)


OF_CLUSTERS: Final = frozenset(("=limit-sendbuf", "=clients", "=stop-clients", "=meet", "=move-slot", "=migrate-keys"))
"""First words of actions that only clusters have a use for."""
SENTINEL_ACTIONS: Final = tuple(form for form in ACTIONS if form.split()[0] not in OF_CLUSTERS)


def holds_of_sentinels(stage: SentinelStage, form: str, values: tuple[Any, ...]) -> bool:
    """Whether the condition of *form* with *values* holds now."""
    return _CONDITIONS[form](stage, *values)


def _place(stage: SentinelStage, name: str) -> Address:
    host = stage.host(name)
    return Address(host.ip, host.settings.port)


def _is_master(stage: SentinelStage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and server_of(host).master is None for host in stage.hosts(names))


def _is_replica(stage: SentinelStage, names: tuple[str, ...], verb: str, word: str, master: str = "") -> bool:
    servers = [server_of(host) for host in stage.hosts(names) if host.alive]
    wanted = _place(stage, master) if master else None
    return len(servers) == len(names) and all(
        server.master is not None and wanted in (None, server.master) for server in servers
    )


def _held(host: Host, name: str) -> Instance | None:
    """The master that a sentinel watches for the shard of the server *name*."""
    return sentinel_of(host).state.masters.get(shard_of(name)) if is_sentinel(host) and host.alive else None


def _holds(stage: SentinelStage, names: tuple[str, ...], verb: str, name: str) -> bool:
    wanted = _place(stage, name)
    masters = [_held(host, name) for host in stage.hosts(names)]
    return all(master is not None and master.address == wanted for master in masters)


def _sees(stage: SentinelStage, names: tuple[str, ...], verb: str, targets: tuple[str, ...], word: str) -> bool:
    return all(_health(stage, host, target) == word for host in stage.hosts(names) for target in targets)


def _health(stage: SentinelStage, host: Host, target: str) -> str:
    """What a sentinel believes of a server or of another sentinel: up, sdown, odown, gone."""
    wanted = _place(stage, target)
    state = sentinel_of(host).state
    for master in state.masters.values():
        for each in (master, *master.replicas.values(), *master.sentinels.values()):
            if each.address == wanted:
                return "odown" if each.flags & Flag.O_DOWN else "sdown" if each.flags & Flag.S_DOWN else "up"
    return "gone"


def _knows(kind: str) -> Callable[..., bool]:
    def holds(stage: SentinelStage, names: tuple[str, ...], verb: str, count: int) -> bool:
        masters = [m for host in stage.hosts(names) for m in sentinel_of(host).state.masters.values()]
        return all(len(getattr(master, kind)) == count for master in masters)

    return holds


def _epoch(stage: SentinelStage, name: str, wanted: tuple[int, int]) -> bool:
    masters = sentinel_of(stage.host(name)).state.masters.values()
    return all(within(master.config_epoch, wanted) for master in masters)


_CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "nodes =is|are =master|masters": _is_master,
    "nodes =is|are =replica|replicas": _is_replica,
    "nodes =is|are =replica|replicas =of node": _is_replica,
    "nodes =hold|holds node =for =master": _holds,
    "nodes =see|sees nodes =up|sdown|odown|gone": _sees,
    "nodes =know|knows count =replicas": _knows("replicas"),
    "nodes =know|knows count =sentinels": _knows("sentinels"),
    "nodes =is|are =in =tilt": lambda stage, names, verb: all(
        sentinel_of(host).state.tilt for host in stage.hosts(names)
    ),
    "=everyone =agrees": lambda stage: not stage.agreement(),
    "=everyone =differs": lambda stage: bool(stage.agreement()),
    "nodes =answer|answers text =to rest": answers,
    "node =epoch range": _epoch,
    "node =logged text range": logged,
    "=trace text range": traced,
    "=elections =of =mixed =epochs range": lambda stage, wanted: within(len(stage.watch.mixed), wanted),
}
SENTINEL_CONDITIONS: Final = tuple(_CONDITIONS)
