"""Plays a scenario: does its steps at their times, looks whether what it expects is so, and returns what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cluster_core.sim.checkers import Violation
from cluster_core.sim.experiment.conditions import MEASURED_BY_CLIENTS
from cluster_core.sim.experiment.conditions import holds as holds_of_cluster
from cluster_core.sim.host import Host
from cluster_core.sim.layouts import Place, places_of
from cluster_core.sim.scenario.format import Scenario, Step
from cluster_core.sim.scenario.stage import Stage
from cluster_core.sim.scenario.text import settings_of
from cluster_core.sim.sentinels.scenario import holds_of_sentinels
from cluster_core.sim.sentinels.stage import SentinelStage

if TYPE_CHECKING:
    from random import Random

LOOK_US: Final = 20_000
"""How often a condition is looked at while it may come true, or must stay so."""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a scenario: its trace, expectations that failed, rules that broke, and the stage as it was at the end."""

    trace: tuple[str, ...]
    failures: tuple[str, ...]
    violations: tuple[Violation, ...]
    stage: Stage

    @property
    def is_fine(self) -> bool:
        """Whether all went as it should."""
        return not self.failures and not self.violations


def play(
    scenario: Scenario,
    make_rng: Callable[[str], Random],
    *,
    seed: int | None = None,
    prepare: Callable[[Stage], None] | None = None,
) -> Played:
    """Play *scenario*, with another *seed* if one is given; *prepare* sees the stage before the first event."""
    chosen = scenario.seed if seed is None else seed
    places = scenario.places or places_of(
        scenario.layout, lambda name: settings_of(scenario, name), make_rng(f"{chosen}/places")
    )
    stage = _set_up(scenario, make_rng, chosen, places)
    if prepare is not None:
        prepare(stage)
    failures: list[str] = []
    since_us = 0
    for step in scenario.steps:
        failures += _take(stage, step, since_us)
        since_us = step.time_us
    stage.world.run_to(scenario.end_us)
    failures += [_failed(stage, step) for step in scenario.after if not holds(stage, step.what, step.values)]
    found = stage.violations(converges=scenario.converges)
    broken = [violation for violation in found if violation.rule not in scenario.breaks]
    unbroken = [rule for rule in scenario.breaks if all(violation.rule != rule for violation in found)]
    failures += [f"{rule} was to be broken and was not" for rule in unbroken]
    lines = [line for line in stage.trace.lines() if not any(word in line for word in scenario.hidden)]
    return Played(tuple(lines), tuple(failures), tuple(broken), stage)


def _set_up(scenario: Scenario, make_rng: Callable[[str], Random], seed: int, places: Sequence[Place]) -> Stage:
    """A cluster, or masters with sentinels."""
    if scenario.sentinels is None:
        return Stage(make_rng, seed, places, path=scenario.path)
    zones = scenario.layout.zones
    return SentinelStage(make_rng, seed, places, scenario.sentinels, zones=zones, path=scenario.path)


def holds(stage: Stage, form: str, values: tuple[Any, ...]) -> bool:
    """Whether the condition of *form* holds now, in the sense that it has on this stage."""
    if isinstance(stage, SentinelStage):
        return holds_of_sentinels(stage, form, values)
    return holds_of_cluster(stage, form, values)


def _take(stage: Stage, step: Step, since_us: int) -> list[str]:
    world = stage.world
    act = _ACTS.get(step.what)
    if act is not None:
        if step.when == "at":
            world.run_to(step.time_us)
        world.note(step.text.split(maxsplit=2 if step.when == "at" else 1)[-1])
        act(stage, *step.values)
        return []
    if step.when == "at":
        world.run_to(step.time_us)
        return [] if holds(stage, step.what, step.values) else [_failed(stage, step)]
    while world.now_us < step.time_us:
        world.run_to(min(world.now_us + LOOK_US, step.time_us))
        held = holds(stage, step.what, step.values)
        if held == (step.when == "by"):
            break
    else:
        held = step.when == "until" or holds(stage, step.what, step.values)
    return [] if held else [f"{_failed(stage, step)} (looked at {world.now_us / 1e6:.3f} s)"]


def _failed(stage: Stage, step: Step) -> str:
    unmeasured = step.what in MEASURED_BY_CLIENTS and not stage.clients
    return f"line {step.line}: {step.text}{': not measured, there are no clients' if unmeasured else ''}"


# -- what each action does ---------------------------------------------------------------------------------------------


def _hosts(stage: Stage, names: tuple[str, ...]) -> list[Host]:
    return [host for host in stage.world.hosts if host.name in names]


def _host(stage: Stage, name: str) -> Host:
    return _hosts(stage, (name,))[0]


def _each(action: Callable[..., Any]) -> Callable[..., None]:
    def act(stage: Stage, names: tuple[str, ...], *values: Any) -> None:
        for host in _hosts(stage, names):
            action(stage, host, *values)

    return act


def _restart(*, config: bool, data: bool) -> Callable[..., None]:
    return _each(lambda stage, host: stage.faults.restart(host, config=config, data=data))


def _cut(*, both_ways: bool) -> Callable[..., None]:
    def act(stage: Stage, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        stage.faults.cut(_hosts(stage, one), _hosts(stage, other), both_ways=both_ways)

    return act


def _flap(stage: Stage, one: tuple[str, ...], other: tuple[str, ...], every_us: int, for_us: int) -> None:
    until_us = stage.world.now_us + for_us
    stage.faults.flap(_hosts(stage, one), _hosts(stage, other), max(every_us, 1000), until_us)


def _delay(stage: Stage, one: tuple[str, ...], other: tuple[str, ...], by_us: int) -> None:
    usual = stage.world.network.usual
    stage.faults.change_paths(_hosts(stage, one), _hosts(stage, other), delay_us=usual.delay_us + max(by_us, 0))


def _share(name: str) -> Callable[..., None]:
    def act(stage: Stage, share: float, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        stage.faults.change_paths(_hosts(stage, one), _hosts(stage, other), **{name: share})

    return act


def _clients(stage: Stage, count: int, rate: float = 10.0, wait: int = 0) -> None:
    stage.add_clients(count, rate=max(rate, 0.01), wait=wait)


def _zone_clients(stage: Stage, count: int, rate: float, zone: str) -> None:
    stage.add_clients(count, rate=max(rate, 0.01), zone=zone)


def _command(stage: Stage, host: Host, words: tuple[str, ...]) -> None:
    answer = stage.operators.command(host, words)
    if answer != "OK":
        stage.world.note(f"{host.name} answers {answer[:100]!r}")


def _limit(stage: Stage, limit_bytes: int) -> None:
    stage.world.network.sendbuf_limit_bytes = limit_bytes


def _move(stage: Stage, slot: int, source: str, target: str) -> None:
    stage.operators.move_slot(slot, _host(stage, source), _host(stage, target))


def _migrate(stage: Stage, slot: int, source: str, target: str) -> None:
    stage.operators.migrate_keys(slot, _host(stage, source), _host(stage, target))


_ACTS: Final[Mapping[str, Callable[..., None]]] = {
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
    "=clients count =rate number =zone text": _zone_clients,
    "=stop-clients": lambda stage: stage.stop_clients(),
    "=command nodes rest": _each(_command),
    "=meet node node": lambda stage, one, other: stage.operators.meet(_host(stage, one), _host(stage, other)),
    "=move-slot slot =from node =to node": _move,
    "=migrate-keys slot =from node =to node": _migrate,
    "=say rest": lambda stage, words: None,
}
