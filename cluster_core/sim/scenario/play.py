"""Play a scenario: run its steps, check its conditions, return the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cluster_core.sim.checkers import Violation
from cluster_core.sim.layouts import places_of
from cluster_core.sim.scenario.stage import ACTIONS, MEASURED_BY_CLIENTS, Stage, holds_of_cluster
from cluster_core.sim.scenario.text import Scenario, Step, settings_of

if TYPE_CHECKING:
    from random import Random

LOOK_US: Final = 20_000
"""Interval of checks of a pending or lasting condition."""


@dataclass(frozen=True, slots=True)
class Played:
    """Result of a scenario: trace, failed expectations, violated rules, and the final stage."""

    trace: tuple[str, ...]
    failures: tuple[str, ...]
    violations: tuple[Violation, ...]
    stage: Stage

    @property
    def is_fine(self) -> bool:
        """Return whether nothing failed."""
        return not self.failures and not self.violations


def play(
    scenario: Scenario,
    make_rng: Callable[[str], Random],
    *,
    seed: int | None = None,
    prepare: Callable[[Stage], None] | None = None,
) -> Played:
    """Play *scenario*, optionally with another *seed*; *prepare* gets the stage before the first event."""
    chosen = scenario.seed if seed is None else seed
    places = places_of(scenario.layout, lambda name: settings_of(scenario, name), make_rng(f"{chosen}/places"))
    stage = Stage(make_rng, chosen, places, path=scenario.path)
    if prepare is not None:
        prepare(stage)
    failures: list[str] = []
    since_us = 0
    for step in scenario.steps:
        failures += _take(stage, step, since_us)
        since_us = step.time_us
    stage.world.run_to(scenario.end_us)
    failures += [_failed(stage, step) for step in scenario.after if not holds_of_cluster(stage, step.what, step.values)]
    found = stage.violations(converges=scenario.converges)
    broken = [violation for violation in found if violation.rule not in scenario.breaks]
    unbroken = [rule for rule in scenario.breaks if all(violation.rule != rule for violation in found)]
    failures += [f"{rule} was to be broken and was not" for rule in unbroken]
    lines = [line for line in stage.trace.lines() if not any(word in line for word in scenario.hidden)]
    return Played(tuple(lines), tuple(failures), tuple(broken), stage)


def _take(stage: Stage, step: Step, since_us: int) -> list[str]:
    world = stage.world
    act = ACTIONS.get(step.what)
    if act is not None:
        if step.when == "at":
            world.run_to(step.time_us)
        world.note(step.text.split(maxsplit=2 if step.when == "at" else 1)[-1])
        act(stage, *step.values)
        return []
    if step.when == "at":
        world.run_to(step.time_us)
        return [] if holds_of_cluster(stage, step.what, step.values) else [_failed(stage, step)]
    while world.now_us < step.time_us:
        world.run_to(min(world.now_us + LOOK_US, step.time_us))
        held = holds_of_cluster(stage, step.what, step.values)
        if held == (step.when == "by"):
            break
    else:
        held = step.when == "until" or holds_of_cluster(stage, step.what, step.values)
    return [] if held else [f"{_failed(stage, step)} (looked at {world.now_us / 1e6:.3f} s)"]


def _failed(stage: Stage, step: Step) -> str:
    unmeasured = step.what in MEASURED_BY_CLIENTS and not stage.clients
    return f"line {step.line}: {step.text}{': not measured, there are no clients' if unmeasured else ''}"
