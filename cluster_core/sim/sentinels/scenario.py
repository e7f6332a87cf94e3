"""The words of a scenario of sentinels: its heading, what may be done, what may be expected (docs/design/simulator.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster_core.sentinel.instance import Address, Flag, Instance
from cluster_core.sim.experiment.conditions import answers, logged, traced, within
from cluster_core.sim.host import Host
from cluster_core.sim.scenario.actions import ACTIONS
from cluster_core.sim.sentinels.layout import shard_of
from cluster_core.sim.sentinels.stage import SentinelStage
from cluster_core.sim.sentinels.world import is_sentinel, sentinel_of, server_of

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
