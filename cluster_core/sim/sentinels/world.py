"""A world of masters, replicas and sentinels in the place of cluster nodes; time, network and faults are the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_core.node.state import random_id
from cluster_core.sentinel.machine import Sentinel
from cluster_core.sentinel.settings import SentinelSettings
from cluster_core.sim.host import Host
from cluster_core.sim.network_paths import Path
from cluster_core.sim.sentinels.actor import SentinelActor
from cluster_core.sim.sentinels.layout import SentinelLayout, sentinel_config
from cluster_core.sim.sentinels.server import ServerActor
from cluster_core.sim.world import World

if TYPE_CHECKING:
    from random import Random

    from cluster_core.sim.layouts import Place


class SentinelWorld(World):
    """Hosts are told apart by their names: S… are sentinels, all others servers."""

    def __init__(
        self,
        make_rng: Callable[[str], Random],
        seed: int | str,
        *,
        path: Path | None,
        layout: SentinelLayout,
        masters: list[Place],
    ) -> None:
        super().__init__(make_rng, seed, path=path)
        self.layout, self.masters = layout, masters

    def start(self, host: Host, config: Any = "", *, my_id: str = "", shard_id: str = "") -> None:
        """Start the process of *host* from the configuration on its disk; without one as it was at the beginning."""
        host.alive, host.is_off, host.is_stopped = True, False, False
        host.inbox = deque() if host.work_us else None
        host.life += 1
        host.paused_until_us, host.paused_work = 0, []
        actor = self._sentinel(host, config) if is_sentinel(host) else self._server(host, config)
        host.node = actor  # type: ignore[assignment]  # it keeps the part of the contract that the world uses
        host.config_saved = host.config_synced = config
        self.names[host.id] = self.names[f"{host.ip}:{host.settings.port}"] = host.name
        for effect in actor.start_effects() if isinstance(actor, ServerActor) else ():
            self._replicate(host, effect)
        self.call_at(self.now_us + int(host.rng.random() * self.tick_us), self._tick, host, host.life)
        if not is_sentinel(host):
            self.replication.start(host)

    def _sentinel(self, host: Host, config: str) -> SentinelActor:
        text = config or sentinel_config(self.layout, "", self.masters)
        settings = SentinelSettings(port=host.settings.port)
        return SentinelActor(host, Sentinel(settings, host.rng, self.wall_ms(host), config=text))

    def _server(self, host: Host, config: str) -> ServerActor:
        return ServerActor(self, host, random_id(host.rng), config)

    def plan_tick(self, host: Host) -> None:
        """The next timer comes when the process wants it."""
        actor: Any = host.node
        wait_us = actor.tick_us + int(host.rng.random() * self.tick_jitter_us)
        self.call_at(self.now_us + wait_us, self._tick, host, host.life)


def is_sentinel(host: Host) -> bool:
    """Whether *host* runs a sentinel."""
    return host.name.startswith("S")


def sentinel_of(host: Host) -> Sentinel:
    """The sentinel that *host* runs."""
    actor: Any = host.node
    return actor.sentinel  # type: ignore[no-any-return]


def server_of(host: Host) -> ServerActor:
    """The server that *host* runs."""
    actor: Any = host.node
    return actor  # type: ignore[no-any-return]
