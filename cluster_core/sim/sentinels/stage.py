"""A world with sentinels, servers, faults, operators, a trace and checkers, as `play` plays it; the trace names hosts instead of addresses and ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cluster_core.sentinel.events import Exit
from cluster_core.sim.checkers import Violation
from cluster_core.sim.faults import Faults
from cluster_core.sim.network_paths import Path
from cluster_core.sim.operators import Operators
from cluster_core.sim.scenario.stage import Stage
from cluster_core.sim.sentinels.checkers import SentinelChecks, check_agreement
from cluster_core.sim.sentinels.layout import SentinelLayout, sentinel_config, sentinel_places
from cluster_core.sim.sentinels.world import SentinelWorld
from cluster_core.sim.trace import Log

if TYPE_CHECKING:
    from random import Random

    from cluster_core.sim.host import Host
    from cluster_core.sim.layouts import Place
import re
from typing import TYPE_CHECKING, Final

from cluster_core.sentinel.events import Announced
from cluster_core.sim.trace import Entry, Trace

if TYPE_CHECKING:
    from cluster_core.sim.host import Host
    from cluster_core.sim.world import World


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
