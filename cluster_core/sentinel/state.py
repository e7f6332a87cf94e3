"""Everything that one sentinel knows, and how its parts say what they want (struct sentinelState)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from cluster_core.sentinel.events import Announced, Effect, LogLine, SendCommand
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
"""Elections are put off by a random time below this (SENTINEL_MAX_DESYNC)."""
PENDING_COMMANDS_MAX: Final = 100
"""More unanswered commands on a link, and none that is not critical is sent (SENTINEL_MAX_PENDING_COMMANDS)."""
TICKS_PER_S: Final = 10
"""The timer runs 10 to 19 times a second, at random, so that sentinels do not keep step (CONFIG_DEFAULT_HZ)."""


@dataclass(frozen=True, slots=True)
class SentinelSettings:
    """Of one process; *dialect* says whose commands and texts a client finds."""

    port: int = 26379
    dialect: Literal["redis-7.0", "valkey-9.1"] = "valkey-9.1"

    @property
    def keeps_opinions(self) -> bool:
        """Whether what others said of a master is forgotten only while we hold it for down ourselves, as in Valkey 9."""
        return self.dialect == "valkey-9.1"


@dataclass(slots=True)
class Periods:
    """Times of the protocol in milliseconds, with the server's defaults (S2)."""

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
"""So many replicas, and so many other sentinels, of one master are kept: more than that is an attack."""
EPOCH_MAX: Final = 2**62
"""A peer that claims a greater epoch lies: no failovers lead so far, and a few more must still be numbers of 64 bits."""


class Awaited(Enum):
    """What an answer is the answer to."""

    DISCARD = 0
    """Nothing follows from it: what the command did is seen in the next INFO."""
    PING = 1
    INFO = 2
    PUBLISH = 3
    ASK = 4


@dataclass(slots=True)
class Connection:
    """One of our connections: whose it is, and what is to be answered on it, oldest first."""

    link: InstanceLink
    instance: Instance
    is_pubsub: bool
    awaited: deque[tuple[Awaited, Instance]] = field(default_factory=deque)


class Watched(NamedTuple):
    """A master to watch, and how."""

    name: str
    ip: str
    port: int
    quorum: int = 2
    down_after_ms: int = DEFAULT_DOWN_AFTER_MS
    failover_timeout_ms: int = DEFAULT_FAILOVER_TIMEOUT_MS
    parallel_syncs: int = DEFAULT_PARALLEL_SYNCS
    auth_user: str = ""
    auth_pass: str = ""


class SentinelState:
    """What the machine knows; the functions beside it change it and put effects into *out*."""

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
        self.protocols: dict[int, int] = {}
        """2 or 3, of each client that asked with HELLO."""

    # -- what it says --------------------------------------------------------------------------------------------

    def log(self, level: str, text: str) -> None:
        """A line of the log."""
        self.out.append(LogLine(level, text))

    def tell(self, level: str, channel: str, text: str) -> None:
        """An event: logged, and announced unless it is for debugging (sentinelEvent)."""
        self.log(level, f"{channel} {text}")
        if level == ".":
            return
        self.out.append(Announced(channel, text))

    def tell_of(self, level: str, channel: str, instance: Instance, more: str = "") -> None:
        """An event that begins with the title of *instance* (``%@`` of sentinelEvent)."""
        self.tell(level, channel, f"{instance.title} {more}" if more else instance.title)

    # -- what it sends -------------------------------------------------------------------------------------------

    def send(self, instance: Instance, awaited: Awaited, *words: str) -> None:
        """Send a command to *instance*."""
        link = instance.link
        connection = self.connections[link.command]
        link.pending_commands += 1
        connection.awaited.append((awaited, instance))
        self._send(link.command, words)

    def send_first(self, number: int, instance: Instance, *words: str) -> None:
        """Send what opens a connection of either kind; its answer does not matter."""
        connection = self.connections[number]
        connection.link.pending_commands += 1
        connection.awaited.append((Awaited.DISCARD, instance))
        self._send(number, words)

    def subscribe(self, number: int, channel: str) -> None:
        """Listen to *channel* on a connection; its messages answer nothing that is awaited."""
        self._send(number, ("SUBSCRIBE", channel))

    def _send(self, number: int, words: tuple[str, ...]) -> None:
        raw = tuple(word.encode("utf-8", "surrogateescape") for word in words)
        self.out.append(SendCommand(number, raw))

    # -- chance and tables ---------------------------------------------------------------------------------------

    def desync_ms(self) -> int:
        """A random time that keeps sentinels apart (S10)."""
        return int(self.rng.random() * DESYNC_MS)

    def raise_epoch(self, epoch: int) -> None:
        """Take a greater epoch for the current one (S9)."""
        self.current_epoch = epoch
        self.tell("#", "+new-epoch", str(epoch))


def random_id(rng: Random) -> str:
    """An id of 40 hexadecimal digits (getRandomHexChars)."""
    return f"{rng.getrandbits(160):040x}"


def text_of(value: Any) -> str:
    """Bytes of a peer as text that goes back to the same bytes."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
