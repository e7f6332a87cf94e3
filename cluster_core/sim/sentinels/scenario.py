"""The words of a scenario of sentinels: its heading, what may be done, what may be expected (docs/sentinel.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster_core.sentinel.instance import O_DOWN, S_DOWN, Address, Instance
from cluster_core.sim.host import Host
from cluster_core.sim.scenario.forms import ACTIONS
from cluster_core.sim.sentinels.layout import shard_of
from cluster_core.sim.sentinels.stage import SentinelStage
from cluster_core.sim.sentinels.world import is_sentinel, sentinel_of, server_of

OF_CLUSTERS: Final = frozenset(("=limit-sendbuf", "=clients", "=stop-clients", "=meet", "=move-slot", "=migrate-keys"))
"""First words of actions that only clusters have a use for."""
SENTINEL_ACTIONS: Final = tuple(form for form in ACTIONS if form.split()[0] not in OF_CLUSTERS)


def holds_of_sentinels(stage: SentinelStage, form: str, values: tuple[Any, ...]) -> bool:
    """Whether the condition of *form* with *values* holds now."""
    return _CONDITIONS[form](stage, *values)


def _hosts(stage: SentinelStage, names: tuple[str, ...]) -> list[Host]:
    return [host for host in stage.world.hosts if host.name in names]


def _place(stage: SentinelStage, name: str) -> Address:
    host = _hosts(stage, (name,))[0]
    return Address(host.ip, host.settings.port)


def _is_master(stage: SentinelStage, names: tuple[str, ...], verb: str, word: str) -> bool:
    return all(host.alive and server_of(host).master is None for host in _hosts(stage, names))


def _is_replica(stage: SentinelStage, names: tuple[str, ...], verb: str, word: str, master: str = "") -> bool:
    servers = [server_of(host) for host in _hosts(stage, names) if host.alive]
    wanted = _place(stage, master) if master else None
    return len(servers) == len(names) and all(
        server.master is not None and wanted in (None, server.master) for server in servers
    )


def _held(host: Host, name: str) -> Instance | None:
    """The master that a sentinel watches for the shard of the server *name*."""
    return sentinel_of(host).state.masters.get(shard_of(name)) if is_sentinel(host) and host.alive else None


def _holds(stage: SentinelStage, names: tuple[str, ...], verb: str, name: str) -> bool:
    wanted = _place(stage, name)
    masters = [_held(host, name) for host in _hosts(stage, names)]
    return all(master is not None and master.address == wanted for master in masters)


def _sees(stage: SentinelStage, names: tuple[str, ...], verb: str, targets: tuple[str, ...], word: str) -> bool:
    return all(_health(stage, host, target) == word for host in _hosts(stage, names) for target in targets)


def _health(stage: SentinelStage, host: Host, target: str) -> str:
    """What a sentinel believes of a server or of another sentinel: up, sdown, odown, gone."""
    wanted = _place(stage, target)
    state = sentinel_of(host).state
    for master in state.masters.values():
        for each in (master, *master.replicas.values(), *master.sentinels.values()):
            if each.address == wanted:
                return "odown" if each.flags & O_DOWN else "sdown" if each.flags & S_DOWN else "up"
    return "gone"


def _knows(kind: str) -> Callable[..., bool]:
    def holds(stage: SentinelStage, names: tuple[str, ...], verb: str, count: int) -> bool:
        masters = [m for host in _hosts(stage, names) for m in sentinel_of(host).state.masters.values()]
        return all(len(getattr(master, kind)) == count for master in masters)

    return holds


def _is_tilted(stage: SentinelStage, names: tuple[str, ...], verb: str) -> bool:
    return all(sentinel_of(host).state.tilt for host in _hosts(stage, names))


def _answers(stage: SentinelStage, names: tuple[str, ...], verb: str, text: str, words: tuple[str, ...]) -> bool:
    return all(text in stage.operators.command(host, words) for host in _hosts(stage, names))


def _epoch(stage: SentinelStage, name: str, wanted: tuple[int, int]) -> bool:
    masters = sentinel_of(_hosts(stage, (name,))[0]).state.masters.values()
    return all(wanted[0] <= master.config_epoch <= wanted[1] for master in masters)


def _trace(stage: SentinelStage, text: str, wanted: tuple[int, int]) -> bool:
    return wanted[0] <= sum(text in entry.text for entry in stage.trace.entries) <= wanted[1]


def _mixed(stage: SentinelStage, wanted: tuple[int, int]) -> bool:
    return wanted[0] <= len(stage.watch.mixed) <= wanted[1]


def _logged(stage: SentinelStage, name: str, text: str, wanted: tuple[int, int]) -> bool:
    found = sum(host == name and text in line for host, line in stage.log.lines)
    return wanted[0] <= found <= wanted[1]


_CONDITIONS: Final[Mapping[str, Callable[..., bool]]] = {
    "nodes =is|are =master|masters": _is_master,
    "nodes =is|are =replica|replicas": _is_replica,
    "nodes =is|are =replica|replicas =of node": _is_replica,
    "nodes =hold|holds node =for =master": _holds,
    "nodes =see|sees nodes =up|sdown|odown|gone": _sees,
    "nodes =know|knows count =replicas": _knows("replicas"),
    "nodes =know|knows count =sentinels": _knows("sentinels"),
    "nodes =is|are =in =tilt": _is_tilted,
    "=everyone =agrees": lambda stage: not stage.agreement(),
    "=everyone =differs": lambda stage: bool(stage.agreement()),
    "nodes =answer|answers text =to rest": _answers,
    "node =epoch range": _epoch,
    "node =logged text range": _logged,
    "=trace text range": _trace,
    "=elections =of =mixed =epochs range": _mixed,
}
SENTINEL_CONDITIONS: Final = tuple(_CONDITIONS)
