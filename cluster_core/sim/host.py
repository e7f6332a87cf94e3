"""One process of a simulated cluster, on a machine of its own: its node, its clock, its streams, what its disk holds."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cluster_core.node.config_file import SavedConfig
from cluster_core.node.events import Event
from cluster_core.node.machine import Node
from cluster_core.node.settings import NodeSettings
from cluster_core.sim.network_paths import Path
from cluster_core.sim.servers.store import Store
from cluster_core.wire.bus import Message

if TYPE_CHECKING:
    from random import Random


class Host:
    """State of one process; `World` and its parts act on it.

    *shift_us* is what the host's clock adds to the world's, *drift_ppm* how much it gains.  With *inbox* set, events wait
    in it: the process is stopped, or it is slow and takes *work_us* for each event.
    """

    __slots__ = (
        "alive",
        "busy_us",
        "config_saved",
        "config_synced",
        "drift_ppm",
        "inbox",
        "index",
        "ip",
        "is_off",
        "is_stopped",
        "life",
        "name",
        "next_accepted",
        "node",
        "orphans",
        "paused_until_us",
        "paused_work",
        "rng",
        "settings",
        "shift_us",
        "store",
        "streams",
        "work_us",
        "zone",
    )

    def __init__(
        self, index: int, name: str, ip: str, zone: str, settings: NodeSettings, rng: Random, shift_us: int
    ) -> None:
        self.index, self.name, self.ip, self.zone = index, name, ip, zone
        self.settings, self.rng = settings, rng
        self.shift_us, self.drift_ppm = shift_us, 0.0
        self.node: Node = None  # type: ignore[assignment]  # `World.start` makes it
        self.store = Store(f"{index:x}" * 8)
        self.alive = False
        self.is_off = False
        self.is_stopped = False
        self.life = 0
        self.inbox: deque[Event] | None = None
        self.work_us = 0
        self.busy_us = 0
        self.streams: dict[int, Stream] = {}
        self.next_accepted = 1
        self.orphans: list[Stream] = []
        self.config_saved: str | SavedConfig = ""
        self.config_synced: str | SavedConfig = ""
        self.paused_until_us = 0
        self.paused_work: list[tuple[int, tuple[bytes, ...]]] = []

    @property
    def id(self) -> str:
        """The id of its node."""
        return self.node.view.myself.id

    @property
    def answers(self) -> bool:
        """Whether the process runs and is not stopped."""
        return self.alive and not self.is_stopped


class Stream:
    """One direction of a connection; *target_link* is how its receiver calls the link.

    *waiting* holds what was sent before the connection was up, *held* what was sent behind a wall; None if there is no such.
    """

    __slots__ = (
        "arrival_us",
        "connection",
        "held",
        "held_us",
        "is_open",
        "is_ours",
        "link",
        "path",
        "reverse",
        "source",
        "target",
        "target_link",
        "waiting",
    )

    def __init__(self, source: Host, link: int, target: Host, path: Path, *, is_ours: bool, connection: int) -> None:
        self.source, self.link, self.target, self.path = source, link, target, path
        self.target_link = -1
        self.is_ours = is_ours
        self.connection = connection
        self.is_open = False
        self.arrival_us = 0
        self.waiting: list[Message] | None = []
        self.held: list[Message | None] | None = None
        self.held_us = 0
        self.reverse: Stream | None = None
