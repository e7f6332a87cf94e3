"""Events that a driver passes to a node, and effects it carries out (contract: docs/design/node.md).

Messages and links use the events of `cluster_core.gossip.events`; view changes are its effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from cluster_core.gossip import events as belief
from cluster_core.gossip.causes import Refusal
from cluster_core.gossip.events import CloseLink, LinkAccepted, LinkClosed, MessageReceived, Tick
from cluster_core.wire.bus import Message


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """The connection of an `OpenLink` is established (R30)."""

    link: int


@dataclass(frozen=True, slots=True)
class ReplicationUp:
    """Replication from our master is in sync (R85)."""


@dataclass(frozen=True, slots=True)
class ReplicationDown:
    """Replication from our master is disconnected (R85)."""


@dataclass(frozen=True, slots=True)
class ReplicationOffset:
    """A master's offset, or a replica's processed offset; a replica's also shows that its master is alive (P9, P11)."""

    offset: int


@dataclass(frozen=True, slots=True)
class ClientCommand:
    """A client sent a command: arguments, name first; *asking* after ASKING (R120)."""

    client: int
    arguments: tuple[bytes, ...]
    asking: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """An operator changes the state of the node, a `NodeState`."""

    apply: Callable[[Any], object]


Event = (
    MessageReceived
    | LinkAccepted
    | LinkOpened
    | LinkClosed
    | Tick
    | ReplicationUp
    | ReplicationDown
    | ReplicationOffset
    | ClientCommand
    | Change
)


class OpenLink(NamedTuple):
    """Connect to the bus port of *node*, as link number *link*."""

    link: int
    node: str
    ip: str
    cport: int


@dataclass(slots=True)
class SendMessage:
    """Queue *message* on *link*."""

    link: int
    message: Message


class SaveConfig(NamedTuple):
    """Write nodes.conf before the following effects, with *fsync* durably (R95)."""

    fsync: bool


class StartReplication(NamedTuple):
    """Replicate *node* from its client port; *full_sync* forbids partial resynchronization (R67)."""

    node: str
    ip: str
    port: int
    full_sync: bool


class PromoteMyself(NamedTuple):
    """Stop replication, keep the data and become a master (R93, P5)."""


class PauseClients(NamedTuple):
    """Pause clients' writes until *until_ms* at the latest (R98)."""

    until_ms: int


class ResumeClients(NamedTuple):
    """Resume clients' writes (R100)."""


class DropKeys(NamedTuple):
    """Delete the keys in *slots* (bit s is slot s), now owned by another master (R74)."""

    slots: int


class Reply(NamedTuple):
    """Reply to *client* with a value of `cluster_core.wire.resp`."""

    client: int
    value: Any


class Execute(NamedTuple):
    """Execute a command on local data and reply to *client*."""

    client: int
    arguments: tuple[bytes, ...]


class LogLine(NamedTuple):
    """A log line in the server's format; *level* is one of ``.-*#`` (R160)."""

    level: str
    text: str


class ElectionStep(NamedTuple):
    """A step of our election in *epoch* (R86 to R94): scheduled, ranked, started, vote, won, expired, reset, stalled."""

    step: str
    epoch: int
    detail: str


class VoteCast(NamedTuple):
    """We voted for *candidate* in *epoch*, or refused with *refusal* (R90)."""

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
    | Reply
    | Execute
    | LogLine
    | ElectionStep
    | VoteCast
)
