"""Events that a driver passes to a sentinel, and effects that it carries out (contract: docs/design/sentinel.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cluster_core.sentinel.instance import leading_number


@dataclass(frozen=True, slots=True)
class Tick:
    """The timer fired (sentinelTimer); schedule the next one `Sentinel.tick_ms` later."""


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The connection of an `OpenLink` is established; *local_ip* is the local address, sent in hello messages (S3)."""

    link: int
    local_ip: str


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A connection ended or failed; not sent for connections that the sentinel closed."""

    link: int


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """A complete RESP value arrived on *link*."""

    link: int
    value: Any


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client sent a command; *arguments* starts with its name."""

    client: int
    arguments: tuple[bytes, ...]


Event = Tick | LinkOpened | LinkClosed | ReplyReceived | ClientCommand


class OpenLink(NamedTuple):
    """Connect to a server or sentinel; commands may be queued before the connection is established."""

    link: int
    ip: str
    port: int


class CloseLink(NamedTuple):
    """Close a connection; no `LinkClosed` follows."""

    link: int


class SendCommand(NamedTuple):
    """Queue a command on a connection; replies arrive in the same order."""

    link: int
    arguments: tuple[bytes, ...]


class Reply(NamedTuple):
    """Send a RESP value to *client*."""

    client: int
    value: Any


class LogLine(NamedTuple):
    """A log line in the server's format; *level* is one of ``.-*#``."""

    level: str
    text: str


class EventPublished(NamedTuple):
    """An event for the sentinel's own Pub/Sub channel; already logged."""

    channel: str
    text: str


Effect = OpenLink | CloseLink | SendCommand | Reply | LogLine | EventPublished


HELLO_CHANNEL: Final = "__sentinel__:hello"
HELLO_CHARS_MAX: Final = 4096
"""Longer messages are ignored; real ones take a few hundred characters."""
FIELDS: Final = 8


class Hello(NamedTuple):
    """A hello message: the sender's address, id and epoch, and the master's address and configuration epoch."""

    ip: str
    port: int
    runid: str
    current_epoch: int
    master_name: str
    master_ip: str
    master_port: int
    master_config_epoch: int


def parse_hello(text: str) -> Hello | None:
    """Parse a hello message, with numbers as in atoi; None unless it has eight fields (sentinelProcessHelloMessage)."""
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
