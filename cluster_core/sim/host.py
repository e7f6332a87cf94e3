"""One process of a simulated cluster, on a machine of its own: its node, its clock, its streams, what its disk holds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False, repr=False)
class Host:
    """State of one process; `World` and its parts act on it.

    *shift_us* is what the host's clock adds to the world's, *drift_ppm* how much it gains.  With *inbox* set, events wait
    in it: the process is stopped, or it is slow and takes *work_us* for each event.
    """

    index: int
    name: str
    ip: str
    zone: str
    settings: NodeSettings
    rng: Random
    shift_us: int
    node: Node = field(init=False)
    """`World.start` makes it."""
    store: Store = field(init=False)
    drift_ppm: float = 0.0
    alive: bool = False
    is_off: bool = False
    is_stopped: bool = False
    life: int = 0
    inbox: deque[Event] | None = None
    work_us: int = 0
    busy_us: int = 0
    streams: dict[int, Stream] = field(default_factory=dict)
    next_accepted: int = 1
    orphans: list[Stream] = field(default_factory=list)
    config_saved: str | SavedConfig = ""
    config_synced: str | SavedConfig = ""
    paused_until_us: int = 0
    paused_work: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(f"{self.index:x}" * 8)

    @property
    def id(self) -> str:
        """The id of its node."""
        return self.node.view.myself.id

    @property
    def answers(self) -> bool:
        """Whether the process runs and is not stopped."""
        return self.alive and not self.is_stopped


@dataclass(slots=True, eq=False, repr=False)
class Stream:
    """One direction of a connection; *target_link* is how its receiver calls the link.

    *waiting* holds what was sent before the connection was up, *held* what was sent behind a wall; None if there is no such.
    *unanswered* is how many SYNs were lost in a row, and when the last of them was sent, as long as nobody can answer.
    """

    source: Host
    link: int
    target: Host
    path: Path
    is_ours: bool
    connection: int
    target_link: int = -1
    is_open: bool = False
    arrival_us: int = 0
    waiting: list[Message] | None = field(default_factory=list)
    unanswered: tuple[int, int] | None = None
    held: list[Message | None] | None = None
    held_us: int = 0
    reverse: Stream | None = None
