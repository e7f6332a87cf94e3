"""Scenarios of sentinels by chance: masters, replicas, watchers, faults that overlap, then peace, in which all must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from cluster_core.sim.fuzz import Plot, below, crash, cut_zone, lose, pick, stop

if TYPE_CHECKING:
    from random import Random

FIRST_FAULT_S: Final = 14.0
FAULTS_S: Final = 40.0
"""Within so many seconds faults begin."""
PEACE_S: Final = 130.0
"""TILT takes 30 s, a lost vote two failover timeouts, an old master 20 s until it is a replica: enough for one after the other."""


def random_sentinel_scenario(rng: Random, seed: int) -> str:
    """The text of a scenario; equal generators give equal texts.  *seed* goes into it."""
    count = 3 + 2 * below(rng, 2)
    plot = _SentinelPlot(rng, masters=1 + below(rng, 2), replicas=1 + below(rng, 3), sentinels=count)
    peace_s = plot.unfold(_FAULTS, 3, FIRST_FAULT_S, FAULTS_S)
    lines = [
        f"title Sentinels by chance, seed {seed}",
        f"cluster masters={plot.masters} replicas={plot.replicas} zones=2",
        f"sentinels count={count} quorum={2 + below(rng, count // 2)} down-after={pick(rng, (1, 2, 4))}s "
        f"failover-timeout=5s parallel-syncs={1 + below(rng, 2)}",
        f"network delay={pick(rng, ('200us', '5ms', '50ms'))} jitter={pick(rng, ('50us', '20ms'))}",
        f"seed {seed}",
        *plot.lines(peace_s),
        f"end {peace_s + PEACE_S:.3f}s",
    ]
    return "\n".join((*lines, ""))


class _SentinelPlot(Plot):
    """The plot of servers and those who watch them."""

    def __init__(self, rng: Random, *, masters: int, replicas: int, sentinels: int) -> None:
        self.masters, self.replicas = masters, replicas
        letters = ("", "b", "c")[:replicas]
        self.servers = [f"M{n}" for n in range(1, masters + 1)]
        self.servers += [f"R{n}{letter}" for n in range(1, masters + 1) for letter in letters]
        self.watchers = [f"S{n}" for n in range(1, sentinels + 1)]
        super().__init__(rng, self.servers + self.watchers, zones=2)

    def victim(self) -> str:
        """A server or a watcher; of the servers a master as often as any replica."""
        server = pick(self.rng, self.servers[: self.masters] * 2 + self.servers)
        return pick(self.rng, (server, pick(self.rng, self.watchers)))

    def rest(self) -> float:
        """A time in which a failover may or may not take place."""
        return 0.3 + 14 * self.rng.random()


def _cut(plot: _SentinelPlot, at_s: float) -> None:
    """A wall around some; it draws in another order than `plot.cut`, and texts of known seeds stay as they are."""
    ways = "" if plot.rng.random() < 0.6 else " one-way"
    plot.add(at_s, f"cut {','.join(plot.some())} from others{ways}")
    plot.add(at_s + plot.rest(), "heal")


def _clock(plot: _SentinelPlot, at_s: float) -> None:
    sign = pick(plot.rng, ("+", "-"))
    plot.add(at_s, f"jump {pick(plot.rng, plot.watchers)} {sign}{pick(plot.rng, (200, 1500, 5000))}ms")


def _switch(plot: _SentinelPlot, at_s: float) -> None:
    number = 1 + below(plot.rng, plot.masters)
    plot.add(at_s, f"command {pick(plot.rng, plot.watchers)} SENTINEL FAILOVER shard{number}")


def _leader(plot: _SentinelPlot, at_s: float) -> None:
    """A master dies, and with it the sentinel that leads its failover."""
    victim = f"M{1 + below(plot.rng, plot.masters)}"
    watcher = pick(plot.rng, plot.watchers)
    when = pick(plot.rng, ("election", "promotion"))
    plot.add(at_s, f"command {watcher} SENTINEL SIMULATE-FAILURE crash-after-{when}")
    plot.add(at_s, f"crash {victim}")
    plot.add(at_s + plot.rest(), f"restart {victim}")
    plot.repairs.append(f"restart {watcher}")


_FAULTS: Final[tuple[Callable[[_SentinelPlot, float], None], ...]] = (
    crash,
    crash,
    stop,
    _cut,
    _cut,
    cut_zone,
    lose,
    _clock,
    _switch,
    _leader,
)
