"""Inputs of the machine (events) and its outputs (effects)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.gossip.causes import Cause, DownReason, Field, IgnoredReason, PauseMark, Refusal, ReportEnd
from cluster_core.wire.bus import Header, Message


@dataclass(slots=True, unsafe_hash=True)
class MessageReceived:
    """A complete message arrived on a link from *peer_ip*. Not frozen, which would double its cost."""

    link: int
    message: Message
    peer_ip: str = ""


@dataclass(frozen=True, slots=True)
class LinkAccepted:
    """A peer opened an inbound link to our address *local_ip* (R27)."""

    link: int
    local_ip: str = ""


@dataclass(frozen=True, slots=True)
class LinkConnected:
    """Our outbound link to *node* is established (R27, R30)."""

    link: int
    node: str


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A link closed, by either side."""

    link: int


@dataclass(frozen=True, slots=True)
class PingSent:
    """A PING was sent on our outbound link to *node* (R33); a replay assumes it."""

    node: str
    reconnected: bool = False
    """First message of a new link: an older pending ping is kept (R30)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The cron ran (R28)."""


@dataclass(frozen=True, slots=True)
class MeetOrdered:
    """CLUSTER MEET was received (R56)."""

    ip: str
    port: int
    cport: int


@dataclass(frozen=True, slots=True)
class ForgetOrdered:
    """CLUSTER FORGET was received (R61)."""

    node: str


@dataclass(frozen=True, slots=True)
class ResetOrdered:
    """CLUSTER RESET was received; *new_id* only with HARD (R82)."""

    new_id: str = ""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process restarted from nodes.conf (R129)."""


@dataclass(frozen=True, slots=True)
class FailSent:
    """We broadcast FAIL about *node*: we decided R54."""

    node: str


@dataclass(frozen=True, slots=True)
class HeaderSent:
    """Our header as sent, with our own state."""

    header: Header


Event = (
    MessageReceived
    | LinkAccepted
    | LinkConnected
    | LinkClosed
    | PingSent
    | Tick
    | MeetOrdered
    | ForgetOrdered
    | ResetOrdered
    | Restarted
    | FailSent
    | HeaderSent
)


class Changed(NamedTuple):
    """A field of *node* in CLUSTER NODES changed because of *cause*."""

    node: str
    what: Field
    cause: Cause


class NodeAdded(NamedTuple):
    """*node* was added to the table because of *cause*."""

    node: str
    cause: Cause


class NodeRemoved(NamedTuple):
    """*node* was removed from the table (R24)."""

    node: str
    cause: Cause


class NodeRenamed(NamedTuple):
    """The node in handshake *old* has the id *new* (R57)."""

    old: str
    new: str


class ReportAdded(NamedTuple):
    """*reporter* reports *subject* as failing (R51)."""

    reporter: str
    subject: str


class ReportRemoved(NamedTuple):
    """The failure report of *reporter* about *subject* ended (R52)."""

    reporter: str
    subject: str
    reason: ReportEnd


class ReplyPong(NamedTuple):
    """Reply on *link* with PONG (R41); *message* if the machine can build it, with the state when the PING was read."""

    link: int
    message: Message | None = None


class SendUpdate(NamedTuple):
    """Send *to* an UPDATE about the slots of *about* (R76, R77)."""

    to: str
    about: str


class BroadcastFail(NamedTuple):
    """Broadcast FAIL about *node* (R54)."""

    node: str


class CloseLink(NamedTuple):
    """Close *link*."""

    link: int


class BecameReplica(NamedTuple):
    """We became a replica of *master* (R67)."""

    master: str
    cause: Cause


class EpochBumped(NamedTuple):
    """We took *epoch* as config epoch without consensus (R79, R80)."""

    epoch: int
    cause: Cause


class SlotsLost(NamedTuple):
    """We lost *slots* to *winner* (R70); bit s is slot s."""

    winner: str
    slots: int


class VoteAsked(NamedTuple):
    """*candidate* requests our vote in *epoch*; *refusal* is `Refusal.NONE` if R90 grants it."""

    candidate: str
    epoch: int
    refusal: Refusal


class AckHeard(NamedTuple):
    """*voter* granted its vote in *epoch*; *counts* if it is a voting master (R92)."""

    voter: str
    epoch: int
    counts: bool


class ManualFailoverMarked(NamedTuple):
    """A sign of a manual failover: MFSTART received, or our master's PAUSED flag (R98, R99)."""

    node: str
    mark: PauseMark
    offset: int


class StateChanged(NamedTuple):
    """The cluster state changed to ok or fail (R107 to R109)."""

    ok: bool
    reason: DownReason


class Ignored(NamedTuple):
    """An event without effect, counted by *reason*."""

    reason: IgnoredReason


Effect = (
    Changed
    | NodeAdded
    | NodeRemoved
    | NodeRenamed
    | ReportAdded
    | ReportRemoved
    | ReplyPong
    | SendUpdate
    | BroadcastFail
    | CloseLink
    | BecameReplica
    | EpochBumped
    | SlotsLost
    | VoteAsked
    | AckHeard
    | ManualFailoverMarked
    | StateChanged
    | Ignored
)
