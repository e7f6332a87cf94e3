"""A world with sentinels, servers, faults, operators, a trace and checkers, in the form that `play` plays."""

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
from cluster_core.sim.sentinels.trace import SentinelTrace
from cluster_core.sim.sentinels.world import SentinelWorld
from cluster_core.sim.trace import Log

if TYPE_CHECKING:
    from random import Random

    from cluster_core.sim.host import Host
    from cluster_core.sim.layouts import Place


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
