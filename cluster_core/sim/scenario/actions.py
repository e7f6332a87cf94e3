"""What may be done in a scenario: the words of each action, and what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster_core.sim.host import Host
from cluster_core.sim.operators import Operators
from cluster_core.sim.scenario.stage import Stage


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
