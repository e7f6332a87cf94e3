"""One simulated process on its own machine: node, clock, streams, disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from cluster_core.node.config_file import SavedConfig
from cluster_core.node.events import Event
from cluster_core.node.machine import Node
from cluster_core.node.state import NodeSettings
from cluster_core.sim.servers.store import Store
from cluster_core.wire.bus import Message

if TYPE_CHECKING:
    from random import Random


RETRY_US: Final = 200_000
"""First retransmission timeout, doubled each time (RFC 6298, Linux's minimum)."""
RETRY_US_MAX: Final = 120_000_000
CONNECT_RETRY_US: Final = 1_000_000
"""Time until the first SYN is sent again (RFC 6298)."""
CONNECT_ATTEMPTS_MAX: Final = 7
"""SYNs before a connection attempt fails: 127 s, as in Linux."""


class NetworkPath:
    """One direction between two hosts; times in µs, probabilities from 0 to 1."""

    __slots__ = ("delay_us", "is_blocked", "jitter_us", "loss", "plain")

    def __init__(
        self,
        delay_us: int = 250,
        jitter_us: int = 50,
        *,
        loss: float = 0.0,
        is_blocked: bool = False,
    ) -> None:
        self.delay_us, self.jitter_us = delay_us, jitter_us
        self.loss, self.is_blocked = loss, is_blocked
        self.plain = not (loss or is_blocked)

    def copy(self, **changes: object) -> NetworkPath:
        """Return a copy with changed constructor arguments."""
        known = ("delay_us", "jitter_us", "loss", "is_blocked")
        return NetworkPath(**{name: changes.get(name, getattr(self, name)) for name in known})  # type: ignore[arg-type]

    def travel_us(self, rng: Random) -> int:
        """Return the delay of a segment, with retransmissions."""
        wait_us = self.delay_us + int(rng.random() * self.jitter_us)
        retry_us = RETRY_US
        while self.loss and rng.random() < self.loss and retry_us < RETRY_US_MAX:
            wait_us += retry_us
            retry_us *= 2
        return wait_us


def retry_after_us(held_us: int) -> int:
    """Return the sender's delay after a block of *held_us* ended, with doubled timeouts.

    >>> retry_after_us(0), retry_after_us(500_000), retry_after_us(1_000_000)
    (200000, 100000, 400000)
    """
    retry_us, next_us = RETRY_US, RETRY_US
    while next_us <= held_us:
        retry_us = min(2 * retry_us, RETRY_US_MAX)
        next_us += retry_us
    return next_us - held_us


@dataclass(slots=True, eq=False, repr=False)
class Host:
    """State of one process, changed by `World` and its parts.

    *shift_us*: offset of its clock. *inbox*, if set: events of a stopped process, or one that takes *work_us* per event.
    """

    index: int
    name: str
    ip: str
    zone: str
    settings: NodeSettings
    rng: Random
    shift_us: int
    node: Node = field(init=False)
    """Created by `World.start`."""
    store: Store = field(init=False)
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
    config_saved: SavedConfig | None = None
    config_synced: SavedConfig | None = None
    paused_until_us: int = 0
    paused_work: list[tuple[int, tuple[bytes, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(f"{self.index:x}" * 8)

    @property
    def id(self) -> str:
        """Return the node id."""
        return self.node.view.myself.id

    @property
    def answers(self) -> bool:
        """Return whether the process runs and is not stopped."""
        return self.alive and not self.is_stopped


@dataclass(slots=True, eq=False, repr=False)
class Stream:
    """One direction of a connection; *target_link* is the receiver's link number.

    *waiting*: messages before the connection was established; *held*: messages behind a block; None if none.
    *unanswered*: lost SYNs in a row and the time of the last one.
    """

    source: Host
    link: int
    target: Host
    path: NetworkPath
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
