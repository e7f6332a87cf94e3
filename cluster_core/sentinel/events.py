"""What a driver tells a sentinel, and what a sentinel wants of its driver; docs/design/sentinel.md is the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Tick:
    """The timer (sentinelTimer); the next one comes `Sentinel.tick_ms` after this one was handled."""


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The connection of an `OpenLink` is up; *local_ip* is our end of it, which hello messages name (S3)."""

    link: int
    local_ip: str


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A connection ended, or could not be made; never for those that the sentinel closed."""

    link: int


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole value of `cluster_core.wire.resp` came in on *link*."""

    link: int
    value: Any


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client of ours sent a command: its words, the name first."""

    client: int
    words: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ClientClosed:
    """A client went away; what it had subscribed to is forgotten."""

    client: int


Event = Tick | LinkOpened | LinkClosed | Answered | ClientCommand | ClientClosed


class OpenLink(NamedTuple):
    """Connect to a server's or a sentinel's port; commands may follow before it is up."""

    link: int
    ip: str
    port: int


class CloseLink(NamedTuple):
    """Close a connection; no report."""

    link: int


class SendCommand(NamedTuple):
    """Send a command, behind what waits there; the answers are expected in the same order."""

    link: int
    words: tuple[bytes, ...]


class SaveConfig(NamedTuple):
    """Write `Sentinel.config_text()`, durably, before the effects that follow (sentinelFlushConfig)."""


class Reply(NamedTuple):
    """Send *client* a value of `cluster_core.wire.resp`; a `Push` is what it has subscribed to."""

    client: int
    value: Any


class LogLine(NamedTuple):
    """A line for the log in the server's words; *level* is one of ``.-*#``."""

    level: str
    text: str


class Announced(NamedTuple):
    """An event of the sentinel's own channel: it has been logged and sent to subscribers already."""

    channel: str
    text: str


class Exit(NamedTuple):
    """End the process with *code*: a simulated failure was asked for, or SHUTDOWN."""

    code: int


Effect = OpenLink | CloseLink | SendCommand | SaveConfig | Reply | LogLine | Announced | Exit
