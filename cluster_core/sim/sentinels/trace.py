"""The trace of a run of sentinels: their own events with names for addresses and ids, and what servers do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from cluster_core.sentinel.events import Announced, Exit
from cluster_core.sim.trace import Entry, Trace

if TYPE_CHECKING:
    from cluster_core.sim.host import Host
    from cluster_core.sim.world import World

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
