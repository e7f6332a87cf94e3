"""What a driver tells a sentinel, and what a sentinel wants of its driver; docs/design/sentinel.md is the contract.

Eight fields with commas, published on `HELLO_CHANNEL` of every master and replica and sent to every other sentinel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cluster_core.sentinel.text import leading_number


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
    """A client went away."""

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


class Reply(NamedTuple):
    """Send *client* a value of `cluster_core.wire.resp`."""

    client: int
    value: Any


class LogLine(NamedTuple):
    """A line for the log in the server's words; *level* is one of ``.-*#``."""

    level: str
    text: str


class Announced(NamedTuple):
    """An event of the sentinel's own channel: it has been logged already."""

    channel: str
    text: str


Effect = OpenLink | CloseLink | SendCommand | Reply | LogLine | Announced


HELLO_CHANNEL: Final = "__sentinel__:hello"
HELLO_CHARS_MAX: Final = 4096
"""A longer message is none: names and addresses of real ones take a few hundred characters."""
FIELDS: Final = 8


class Hello(NamedTuple):
    """Who speaks (address, id, epoch), and which master it holds for current, by which configuration epoch."""

    ip: str
    port: int
    runid: str
    current_epoch: int
    master_name: str
    master_ip: str
    master_port: int
    master_config_epoch: int


def parse_hello(text: str) -> Hello | None:
    """Return the message, or None for a text that has not eight fields (S3, sentinelProcessHelloMessage).

    Numbers are read as the server reads them: what does not begin with digits is 0.
    """
    tokens = text.split(",") if len(text) <= HELLO_CHARS_MAX else ()
    if len(tokens) != FIELDS:
        return None
    ip, port, runid, epoch, name, master_ip, master_port, config_epoch = tokens
    return Hello(
        ip,
        leading_number(port),
        runid,
        max(leading_number(epoch), 0),
        name,
        master_ip,
        leading_number(master_port),
        max(leading_number(config_epoch), 0),
    )


def format_hello(hello: Hello) -> str:
    """Return the text of *hello* as it is published (sentinelSendHello)."""
    return ",".join(str(field) for field in hello)
