"""Random scenarios: a cluster, load, overlapping faults, then a quiet period to recover.

The result is scenario text, so failures can be saved, reduced and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from cluster_core.gossip.profile import PROFILES

if TYPE_CHECKING:
    from random import Random


T = TypeVar("T")


def below(rng: Random, limit: int) -> int:
    """Return a random integer from 0 to *limit* - 1."""
    return int(rng.random() * limit)


def pick(rng: Random, choices: Sequence[T]) -> T:
    """One of *choices*."""
    return choices[below(rng, len(choices))]


class Plot:
    """Steps of a scenario; *repairs* ends remaining faults."""

    def __init__(self, rng: Random, masters: int, replicas: int, timeout_s: int) -> None:
        self.rng, self.timeout_s = rng, timeout_s
        self.masters = [f"M{number}" for number in range(1, masters + 1)]
        self.names = self.masters + [f"R{n}{'b' if k else ''}" for k in range(replicas) for n in range(1, masters + 1)]
        self.steps: list[tuple[float, str]] = []
        self.repairs: list[str] = []

    def add(self, at_s: float, text: str) -> None:
        """Add a step."""
        self.steps.append((at_s, text))

    def victim(self) -> str:
        """Return a random node to hit."""
        return pick(self.rng, self.names)

    def some(self) -> list[str]:
        """Up to half of all nodes."""
        return [name for name in self.names if self.rng.random() < 0.3][: len(self.names) // 2] or [self.victim()]

    def rest(self) -> float:
        """Return a fault's duration in seconds, below or above a node timeout."""
        return self.timeout_s * (0.1 + 4 * self.rng.random())

    def lines(self, peace_s: float) -> list[str]:
        """Return the steps in order, and those that end all faults."""
        return [
            *(f"at {at_s:.3f}s {text}" for at_s, text in sorted(self.steps, key=lambda step: step[0])),
            f"at {peace_s:.3f}s heal",
            *(f"at {peace_s:.3f}s {text}" for text in self.repairs),
        ]


def _crash(plot: Plot, at_s: float) -> None:
    """Crash a process or machine, and restart it."""
    victim = plot.victim()
    plot.add(at_s, f"{pick(plot.rng, ('crash', 'switch-off'))} {victim}")
    plot.add(at_s + plot.rest(), f"restart {victim}")


def _stop(plot: Plot, at_s: float) -> None:
    """Stop a process, and resume it."""
    victim = plot.victim()
    plot.add(at_s, f"stop {victim}")
    plot.add(at_s + plot.rest(), f"resume {victim}")
    plot.repairs.append(f"resume {victim}")


def _cut(plot: Plot, at_s: float) -> None:
    """Partition some nodes, in one or both directions."""
    one = plot.some()
    ways = "" if plot.rng.random() < 0.6 else " one-way"
    plot.add(at_s, f"cut {','.join(one)} from others{ways}")
    plot.add(at_s + plot.rest(), "heal")


def _cut_zone(plot: Plot, at_s: float) -> None:
    """Partition a zone."""
    plot.add(at_s, f"cut Z{1 + below(plot.rng, ZONES)} from others")
    plot.add(at_s + plot.rest(), "heal")


def _lose(plot: Plot, at_s: float) -> None:
    """Make paths to some nodes lossy."""
    plot.add(at_s, f"lose 0.05 between {','.join(plot.some())} and others")


ZONES: Final = 3
FIRST_FAULT_S: Final = 6.0
FAULTS_S: Final = 30.0
"""Seconds within which faults start."""


def random_scenario(rng: Random, seed: int) -> str:
    """Return a random scenario, equal for equal generators; *seed* is written to it."""
    masters, replicas = 3 + below(rng, 4), below(rng, 3)
    timeout_s = pick(rng, (1, 2, 5))
    profile = pick(rng, tuple(PROFILES))
    plot = Plot(rng, masters, replicas, timeout_s)
    while len(plot.steps) < 4 + 2 * below(rng, 5):
        pick(rng, _FAULTS)(plot, FIRST_FAULT_S + rng.random() * FAULTS_S)
    peace_s = max([at_s for at_s, _ in plot.steps] + [FIRST_FAULT_S + FAULTS_S]) + 1
    end_s = peace_s + 20 * timeout_s + 30
    lines = [
        f"title By chance, seed {seed}",
        f"cluster masters={masters} replicas={replicas} zones={ZONES}",
        f"settings profile={profile} node-timeout={timeout_s}s repl-ping-period=1",
        f"network delay={pick(rng, ('200us', '1ms', '20ms'))} jitter={pick(rng, ('50us', '1ms'))}",
        f"seed {seed}",
        f"at 3s clients {1 + below(rng, 4)} rate {pick(rng, (5, 20))}",
        *plot.lines(peace_s),
        f"at {end_s - 10:.3f}s stop-clients",
        f"end {end_s:.3f}s",
    ]
    return "\n".join((*lines, ""))


def _flap(plot: Plot, at_s: float) -> None:
    plot.add(at_s, f"flap {plot.victim()} from {','.join(plot.some())} every {plot.timeout_s * 300}ms for 5s")


def _far(plot: Plot, at_s: float) -> None:
    plot.add(at_s, f"delay {','.join(plot.some())} from others by {pick(plot.rng, (50, 300))}ms")


def _clock(plot: Plot, at_s: float) -> None:
    sign = pick(plot.rng, ("+", "-"))
    plot.add(at_s, f"jump {plot.victim()} {sign}{pick(plot.rng, (200, 1500, 20_000))}ms")


def _slow(plot: Plot, at_s: float) -> None:
    victim = plot.victim()
    plot.add(at_s, f"slow {victim} {pick(plot.rng, (1, 5))}ms")
    plot.add(at_s + plot.rest(), f"slow {victim} 0ms")


def _move(plot: Plot, at_s: float) -> None:
    one, other = pick(plot.rng, plot.masters), pick(plot.rng, plot.masters)
    if one != other:
        plot.add(at_s, f"move-slot {below(plot.rng, 16384)} from {one} to {other}")


def _switch(plot: Plot, at_s: float) -> None:
    how = pick(plot.rng, ("", "", " FORCE"))
    plot.add(at_s, f"command {plot.victim()} CLUSTER FAILOVER{how}")


_FAULTS: Final[tuple[Callable[[Plot, float], None], ...]] = (
    _crash,
    _crash,
    _stop,
    _cut,
    _cut,
    _cut_zone,
    _flap,
    _lose,
    _far,
    _clock,
    _slow,
    _move,
    _switch,
)
