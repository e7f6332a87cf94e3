"""State of one sentinel (struct sentinelState), and methods that append its effects."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from cluster_core.sentinel.events import Effect, EventPublished, LogLine, SendCommand
from cluster_core.sentinel.instance import (
    DEFAULT_DOWN_AFTER_MS,
    DEFAULT_FAILOVER_TIMEOUT_MS,
    DEFAULT_PARALLEL_SYNCS,
    Instance,
    InstanceLink,
)

if TYPE_CHECKING:
    from random import Random


DESYNC_MS: Final = 1000
"""Upper bound of the random election delay in ms (SENTINEL_MAX_DESYNC)."""
PENDING_COMMANDS_MAX: Final = 100
"""Pending commands per link above which only critical ones are sent (SENTINEL_MAX_PENDING_COMMANDS)."""
TICKS_PER_S: Final = 10
"""Timer rate; it varies from 10 to 19 per second to desynchronize sentinels (CONFIG_DEFAULT_HZ)."""


@dataclass(frozen=True, slots=True)
class SentinelSettings:
    """Settings of one process; *dialect* selects rules."""

    port: int = 26379
    dialect: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1"

    @property
    def keeps_opinions(self) -> bool:
        """Return whether other sentinels' opinions are kept while this one sees the master up (Valkey 9)."""
        return self.dialect == "valkey-9.1"


@dataclass(slots=True)
class Periods:
    """Protocol periods in ms; the server's defaults (S2)."""

    info_ms: int = 10_000
    ping_ms: int = 1000
    ask_ms: int = 1000
    publish_ms: int = 2000
    default_down_after_ms: int = DEFAULT_DOWN_AFTER_MS
    default_failover_timeout_ms: int = DEFAULT_FAILOVER_TIMEOUT_MS
    tilt_trigger_ms: int = 2000
    tilt_period_ms: int = 30_000
    reconf_timeout_ms: int = 10_000
    min_reconnect_ms: int = 15_000
    election_timeout_ms: int = 10_000


INSTANCES_MAX: Final = 1000
"""Maximum replicas, and other sentinels, of one master."""
EPOCH_MAX: Final = 2**62
"""Greater epochs from peers are ignored, so that epochs stay within 64 bits."""


class ReplyPurpose(Enum):
    """Purpose of a pending command."""

    DISCARD = 0
    """The reply is ignored; the next INFO shows the result."""
    PING = 1
    INFO = 2
    PUBLISH = 3
    ASK = 4


@dataclass(slots=True)
class Connection:
    """A connection, its instance and its pending commands, oldest first."""

    link: InstanceLink
    instance: Instance
    is_pubsub: bool
    awaited: deque[tuple[ReplyPurpose, Instance]] = field(default_factory=deque)


class MonitoredMaster(NamedTuple):
    """A master to monitor, with its settings."""

    name: str
    ip: str
    port: int
    quorum: int = 2
    down_after_ms: int = DEFAULT_DOWN_AFTER_MS
    failover_timeout_ms: int = DEFAULT_FAILOVER_TIMEOUT_MS
    parallel_syncs: int = DEFAULT_PARALLEL_SYNCS


class SentinelState:
    """State of the machine; functions of the package change it and append effects to *out*."""

    def __init__(self, settings: SentinelSettings, rng: Random, now_ms: int) -> None:
        self.settings, self.rng = settings, rng
        self.periods = Periods()
        self.now_ms = self.previous_ms = now_ms
        self.out: list[Effect] = []
        self.my_id = ""
        self.current_epoch = 0
        self.masters: dict[str, Instance] = {}
        self.tilt = False
        self.tilt_since_ms = 0
        self.connections: dict[int, Connection] = {}
        self.next_link = 1

    # -- events --------------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """Append a log line."""
        self.out.append(LogLine(level, text))

    def tell(self, level: str, channel: str, text: str) -> None:
        """Log an event, and announce it unless its level is debug (sentinelEvent)."""
        self.log(level, f"{channel} {text}")
        if level == ".":
            return
        self.out.append(EventPublished(channel, text))

    def announce_of(self, level: str, channel: str, instance: Instance, more: str = "") -> None:
        """Log and announce an event that starts with the title of *instance* (``%@`` of sentinelEvent)."""
        self.tell(level, channel, f"{instance.title} {more}" if more else instance.title)

    # -- commands ------------------------------------------------------------------------------------------------

    def send(self, instance: Instance, awaited: ReplyPurpose, *arguments: str) -> None:
        """Send a command to *instance*."""
        link = instance.link
        connection = self.connections[link.command]
        link.pending_commands += 1
        connection.awaited.append((awaited, instance))
        self._send(link.command, arguments)

    def send_first(self, number: int, instance: Instance, *arguments: str) -> None:
        """Send a setup command on a new connection; its reply is ignored."""
        connection = self.connections[number]
        connection.link.pending_commands += 1
        connection.awaited.append((ReplyPurpose.DISCARD, instance))
        self._send(number, arguments)

    def subscribe(self, number: int, channel: str) -> None:
        """Subscribe to *channel*; no reply is awaited."""
        self._send(number, ("SUBSCRIBE", channel))

    def _send(self, number: int, arguments: tuple[str, ...]) -> None:
        raw = tuple(word.encode("utf-8", "surrogateescape") for word in arguments)
        self.out.append(SendCommand(number, raw))

    # -- randomness and epochs -----------------------------------------------------------------------------------

    def desync_ms(self) -> int:
        """Return a random election delay in ms (S10)."""
        return int(self.rng.random() * DESYNC_MS)

    def raise_epoch(self, epoch: int) -> None:
        """Set the current epoch to a greater one (S9)."""
        self.current_epoch = epoch
        self.tell("#", "+new-epoch", str(epoch))


def random_id(rng: Random) -> str:
    """Return a random id of 40 hexadecimal digits (getRandomHexChars)."""
    return f"{rng.getrandbits(160):040x}"


def text_of(value: Any) -> str:
    """Decode a peer's bytes so that they can be encoded back unchanged."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
