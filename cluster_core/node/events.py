"""What a driver tells a node, and what a node wants of its driver; docs/design/node.md is the contract.

Messages and accepted or closed links are the events of `cluster_core.gossip.events`; what the node believes comes out as
the effects there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Refusal
from cluster_core.gossip.events import CloseLink, LinkAccepted, LinkClosed, MessageReceived, Tick
from cluster_core.wire.bus import Message


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The connection that `OpenLink` asked for is up (R30)."""

    link: int


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """The call to connect failed at once: no route, no socket (R29).  A refusal by the peer is `LinkClosed`."""

    link: int


@dataclass(frozen=True, slots=True)
class LinkOverflowed:
    """More waits to be sent on *link* than `cluster-link-sendbuf-limit` allows; the node closes it (R36)."""

    link: int


@dataclass(frozen=True, slots=True)
class ReplicationUp:
    """The link to our master is in sync (R85)."""


@dataclass(frozen=True, slots=True)
class ReplicationDown:
    """The link to our master is gone (R85)."""


@dataclass(frozen=True, slots=True)
class ReplicationOffset:
    """A master's own offset, or what a replica has processed; of a replica it says that its master was heard (P9, P11)."""

    offset: int


@dataclass(frozen=True, slots=True)
class SlotsArrived:
    """The driver has brought all keys of *slots* here, bit s for slot s: they are to be ours (R127)."""

    slots: int


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client of ours sent a command: its words, the name first; *ip* is the client's address, empty if it has none."""

    client: int
    words: tuple[bytes, ...]
    ip: str = ""


@dataclass(frozen=True, slots=True)
class ClientClosed:
    """A client went away; its READONLY, ASKING and MULTI are forgotten."""

    client: int


Event = (
    MessageReceived
    | LinkAccepted
    | LinkOpened
    | LinkClosed
    | LinkRefused
    | LinkOverflowed
    | Tick
    | ReplicationUp
    | ReplicationDown
    | ReplicationOffset
    | SlotsArrived
    | ClientCommand
    | ClientClosed
)


class OpenLink(NamedTuple):
    """Connect to the bus port of *node*; *link* is the number from now on."""

    link: int
    node: str
    ip: str
    cport: int


@dataclass(slots=True)
class SendMessage:
    """Send *message* on *link*, behind what waits there."""

    link: int
    message: Message


class SaveConfig(NamedTuple):
    """Write `Node.config_text()` to nodes.conf, durably with *fsync*, before the effects that follow (R95)."""

    fsync: bool


class StartReplication(NamedTuple):
    """Replicate *node* at its client port; *full_sync* forbids a partial one (R67)."""

    node: str
    ip: str
    port: int
    full_sync: bool


class PromoteMyself(NamedTuple):
    """Stop replicating, keep the data, be a master (R93, P5)."""


class PauseClients(NamedTuple):
    """Let clients' writes wait until *until_ms* at the latest (R98)."""

    until_ms: int


class ResumeClients(NamedTuple):
    """Let clients write again (R100)."""


class DropKeys(NamedTuple):
    """Delete the keys in *slots*, bit s for slot s: they belong to another master now (R74)."""

    slots: int


class FlushKeys(NamedTuple):
    """Delete all keys: a replica was reset (R82)."""


class Deliver(NamedTuple):
    """Hand a message to our subscribers of *channel*."""

    channel: bytes
    message: bytes
    sharded: bool


class Reply(NamedTuple):
    """Answer *client* with a value of `cluster_core.wire.resp`."""

    client: int
    value: Any


class Execute(NamedTuple):
    """Carry out a command on our data and answer *client*: its keys are served here."""

    client: int
    words: tuple[bytes, ...]


class LogLine(NamedTuple):
    """A line for the server's log in the server's words; *level* is one of ``.-*#`` (R160)."""

    level: str
    text: str


class ElectionStep(NamedTuple):
    """A step of our own election in *epoch*: ``scheduled``, ``ranked``, ``started``, ``vote``, ``won``, ``expired``,
    ``reset`` or ``stalled`` (R86 to R94).
    """

    step: str
    epoch: int
    detail: str


class VoteCast(NamedTuple):
    """We voted for *candidate* in *epoch*, or refused for the reason *refusal* (R90)."""

    candidate: str
    epoch: int
    refusal: Refusal


Effect = (
    belief.Effect
    | CloseLink
    | OpenLink
    | SendMessage
    | SaveConfig
    | StartReplication
    | PromoteMyself
    | PauseClients
    | ResumeClients
    | DropKeys
    | FlushKeys
    | Deliver
    | Reply
    | Execute
    | LogLine
    | ElectionStep
    | VoteCast
)
