"""Scenarios of sentinels by chance: masters, replicas, watchers, faults that overlap, then peace, in which all must agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")
FIRST_FAULT_S: Final = 14.0
FAULTS_S: Final = 40.0
"""Within so many seconds faults begin."""
PEACE_S: Final = 130.0
"""TILT takes 30 s, a lost vote two failover timeouts, an old master 20 s until it is a replica: enough for one after the other."""


def random_sentinel_scenario(rng: Random, seed: int) -> str:
    """The text of a scenario; equal generators give equal texts.  *seed* goes into it."""
    count = 3 + 2 * _below(rng, 2)
    plot = _Plot(rng, masters=1 + _below(rng, 2), replicas=1 + _below(rng, 3), sentinels=count)
    while len(plot.steps) < 3 + 2 * _below(rng, 5):
        _pick(rng, _FAULTS)(plot, FIRST_FAULT_S + rng.random() * FAULTS_S)
    peace_s = max([at_s for at_s, _ in plot.steps] + [FIRST_FAULT_S + FAULTS_S]) + 1
    lines = [
        f"title Sentinels by chance, seed {seed}",
        f"cluster masters={plot.masters} replicas={plot.replicas} zones=2",
        f"sentinels count={count} quorum={2 + _below(rng, count // 2)} down-after={_pick(rng, (1, 2, 4))}s "
        f"failover-timeout=5s parallel-syncs={1 + _below(rng, 2)}",
        f"network delay={_pick(rng, ('200us', '5ms', '50ms'))} jitter={_pick(rng, ('50us', '20ms'))}",
        f"seed {seed}",
        *(f"at {at_s:.3f}s {text}" for at_s, text in sorted(plot.steps, key=lambda step: step[0])),
        f"at {peace_s:.3f}s heal",
        *(f"at {peace_s:.3f}s {text}" for text in plot.repairs),
        f"end {peace_s + PEACE_S:.3f}s",
    ]
    return "\n".join((*lines, ""))


def _below(rng: Random, limit: int) -> int:
    return int(rng.random() * limit)


def _pick(rng: Random, choices: Sequence[T]) -> T:
    return choices[_below(rng, len(choices))]


class _Plot:
    """Steps so far; *repairs* puts right at the end what is not put right before."""

    def __init__(self, rng: Random, *, masters: int, replicas: int, sentinels: int) -> None:
        self.rng, self.masters, self.replicas = rng, masters, replicas
        letters = ("", "b", "c")[:replicas]
        self.servers = [f"M{n}" for n in range(1, masters + 1)]
        self.servers += [f"R{n}{letter}" for n in range(1, masters + 1) for letter in letters]
        self.watchers = [f"S{n}" for n in range(1, sentinels + 1)]
        self.steps: list[tuple[float, str]] = []
        self.repairs: list[str] = []

    def add(self, at_s: float, text: str) -> None:
        self.steps.append((at_s, text))

    def server(self) -> str:
        """A master as often as any replica."""
        return _pick(self.rng, self.servers[: self.masters] * 2 + self.servers)

    def anybody(self) -> str:
        return _pick(self.rng, (self.server(), _pick(self.rng, self.watchers)))

    def some(self) -> list[str]:
        """Up to half of all."""
        names = self.servers + self.watchers
        return [name for name in names if self.rng.random() < 0.3][: len(names) // 2] or [self.anybody()]

    def rest(self) -> float:
        """A time in which a failover may or may not take place."""
        return 0.3 + 14 * self.rng.random()


def _crash(plot: _Plot, at_s: float) -> None:
    victim = plot.anybody()
    plot.add(at_s, f"{_pick(plot.rng, ('crash', 'switch-off'))} {victim}")
    plot.add(at_s + plot.rest(), f"restart {victim}")


def _stop(plot: _Plot, at_s: float) -> None:
    victim = plot.anybody()
    plot.add(at_s, f"stop {victim}")
    plot.add(at_s + plot.rest(), f"resume {victim}")
    plot.repairs.append(f"resume {victim}")


def _cut(plot: _Plot, at_s: float) -> None:
    ways = "" if plot.rng.random() < 0.6 else " one-way"
    plot.add(at_s, f"cut {','.join(plot.some())} from others{ways}")
    plot.add(at_s + plot.rest(), "heal")


def _zone(plot: _Plot, at_s: float) -> None:
    plot.add(at_s, f"cut Z{1 + _below(plot.rng, 2)} from others")
    plot.add(at_s + plot.rest(), "heal")


def _lossy(plot: _Plot, at_s: float) -> None:
    plot.add(at_s, f"lose 0.05 between {','.join(plot.some())} and others")


def _clock(plot: _Plot, at_s: float) -> None:
    sign = _pick(plot.rng, ("+", "-"))
    plot.add(at_s, f"jump {_pick(plot.rng, plot.watchers)} {sign}{_pick(plot.rng, (200, 1500, 5000))}ms")


def _switch(plot: _Plot, at_s: float) -> None:
    number = 1 + _below(plot.rng, plot.masters)
    plot.add(at_s, f"command {_pick(plot.rng, plot.watchers)} SENTINEL FAILOVER shard{number}")


def _leader(plot: _Plot, at_s: float) -> None:
    """A master dies, and with it the sentinel that leads its failover."""
    victim = f"M{1 + _below(plot.rng, plot.masters)}"
    watcher = _pick(plot.rng, plot.watchers)
    when = _pick(plot.rng, ("election", "promotion"))
    plot.add(at_s, f"command {watcher} SENTINEL SIMULATE-FAILURE crash-after-{when}")
    plot.add(at_s, f"crash {victim}")
    plot.add(at_s + plot.rest(), f"restart {victim}")
    plot.repairs.append(f"restart {watcher}")


_FAULTS: Final[tuple[Callable[[_Plot, float], None], ...]] = (
    _crash,
    _crash,
    _stop,
    _cut,
    _cut,
    _zone,
    _lossy,
    _clock,
    _switch,
    _leader,
)
