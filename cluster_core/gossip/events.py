"""What goes into the machine (events) and what comes out (effects)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cluster_core.gossip.causes import Cause, DownReason, Field, IgnoredReason, PauseMark, Refusal, ReportEnd
from cluster_core.wire.bus import Header, Message


@dataclass(slots=True, unsafe_hash=True)
class MessageReceived:
    """A whole message arrived on a link; *peer_ip* is the other end's address.  Not frozen: that doubles its price."""

    link: int
    message: Message
    peer_ip: str = ""


@dataclass(frozen=True, slots=True)
class LinkAccepted:
    """A peer connected to us (an inbound link, R27) at our address *local_ip*."""

    link: int
    local_ip: str = ""


@dataclass(frozen=True, slots=True)
class LinkConnected:
    """Our outbound link to *node* is up (R27, R30)."""

    link: int
    node: str


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A link is gone, whoever closed it."""

    link: int


@dataclass(frozen=True, slots=True)
class PingSent:
    """A PING left, or would have left, on our outbound link to *node* (R33)."""

    node: str
    reconnected: bool = False
    """It is the first message of a new link: an older pending ping stays (R30)."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The cron ran (R28)."""


@dataclass(frozen=True, slots=True)
class MeetOrdered:
    """CLUSTER MEET (R56)."""

    ip: str
    port: int
    cport: int


@dataclass(frozen=True, slots=True)
class ForgetOrdered:
    """CLUSTER FORGET (R61)."""

    node: str


@dataclass(frozen=True, slots=True)
class ResetOrdered:
    """CLUSTER RESET; *new_id* with HARD only (R82)."""

    new_id: str = ""


@dataclass(frozen=True, slots=True)
class Restarted:
    """The process started again with what it had saved (R129)."""


@dataclass(frozen=True, slots=True)
class FailSent:
    """We broadcast FAIL about *node*: the verdict of R54 was ours."""

    node: str


@dataclass(frozen=True, slots=True)
class HeaderSent:
    """Our own header as it left: what we say of ourselves."""

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
    """Something that CLUSTER NODES prints about *node* changed; *cause* says why."""

    node: str
    what: Field
    cause: Cause


class NodeAdded(NamedTuple):
    """*node* is in the table now; *cause* says how it came."""

    node: str
    cause: Cause


class NodeRemoved(NamedTuple):
    """*node* left the table (R24)."""

    node: str
    cause: Cause


class NodeRenamed(NamedTuple):
    """The handshake *old* turned out to be *new* (R57)."""

    old: str
    new: str


class ReportAdded(NamedTuple):
    """*reporter* says that *subject* fails (R51)."""

    reporter: str
    subject: str


class ReportRemoved(NamedTuple):
    """The report of *reporter* about *subject* ended (R52)."""

    reporter: str
    subject: str
    reason: ReportEnd


class ReplyPong(NamedTuple):
    """Answer on *link* with a PONG (R41): *message* if the machine can build it, as it was when the PING was read."""

    link: int
    message: Message | None = None


class SendUpdate(NamedTuple):
    """Send *to* an UPDATE about *about* (R76, R77)."""

    to: str
    about: str


class BroadcastFail(NamedTuple):
    """Tell everybody that *node* is FAIL (R54)."""

    node: str


class CloseLink(NamedTuple):
    """Close *link*."""

    link: int


class BecameReplica(NamedTuple):
    """We replicate *master* now (R67)."""

    master: str
    cause: Cause


class EpochBumped(NamedTuple):
    """We took *epoch* as our config epoch without consensus (R79, R80)."""

    epoch: int
    cause: Cause


class SlotsLost(NamedTuple):
    """*slots* of ours went to *winner* (R70); bit s of the number is slot s."""

    winner: str
    slots: int


class VoteAsked(NamedTuple):
    """*candidate* asks for our vote in *epoch*; *refusal* is `Refusal.NONE` if R90 grants it."""

    candidate: str
    epoch: int
    refusal: Refusal


class AckHeard(NamedTuple):
    """*voter* acknowledges an election of *epoch*; *counts* if it is a voting master (R92)."""

    voter: str
    epoch: int
    counts: bool


class ManualFailoverMarked(NamedTuple):
    """A mark of a manual failover: MFSTART heard or PAUSED seen at our master (R98, R99)."""

    node: str
    mark: PauseMark
    offset: int


class StateChanged(NamedTuple):
    """The cluster state as we see it turned ok or fail (R107 to R109)."""

    ok: bool
    reason: DownReason


class Ignored(NamedTuple):
    """An event changed nothing because it makes no sense; counted by *reason*."""

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
