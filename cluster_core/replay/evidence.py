"""What a replay is fed with: what one observer saw, was asked and wrote down."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from cluster_core.formats.capture.bus_capture import PacketKind
from cluster_core.gossip.view import slot_bits
from cluster_core.kinds import EventKind
from cluster_core.topology.node import Topology
from cluster_core.wire.bus import Gossip, Header, Message

SightingKind = PacketKind | Literal["message", "gap"]
"""What a capture shows: a whole message, a packet that opens or ends a connection, or bytes that are missing."""
LinkChange = Literal["opened", "closed", "refused", "dropped", "gap", "unread", "read"]
"""What becomes of a connection of the observer; `gap`: bytes that one side sent there are not in the capture; `unread`:
they have not arrived; `read`: they have after all."""


class Endpoint(NamedTuple):
    """An address and a port."""

    ip: str
    port: int


class MessageSeen(NamedTuple):
    """A message that the observer *sent* or received, on a connection that it opened (*outbound*) or accepted (R27)."""

    ts_ns: int
    ref: int
    connection: int
    outbound: bool
    sent: bool
    peer: Endpoint
    message: Message


class LinkSeen(NamedTuple):
    """A connection of the observer was ``opened``, ``closed`` or ``refused``; *by_us* if its side did it.

    Or *what* is ``gap``: bytes that its side (*by_us*) or the other sent there are not in the capture.  Or ``unread``: what
    a side sent at *since_ns* or later has not arrived, until ``read``.
    """

    ts_ns: int
    ref: int
    connection: int
    outbound: bool
    what: LinkChange
    by_us: bool
    peer: Endpoint
    since_ns: int = 0


class NodePoll(NamedTuple):
    """A CLUSTER NODES answer of the observer, one entry per node; *asked_ns* is when it was asked for."""

    ts_ns: int
    nodes: tuple[PolledNode, ...]
    asked_ns: int = 0


class PolledNode(NamedTuple):
    """One line of CLUSTER NODES (R128); *flags* are bits of R20, *slots* bit s for slot s."""

    node_id: str
    flags: int
    master_id: str
    config_epoch: int
    slots: int
    ip: str = ""
    port: int = 0
    cport: int = 0
    hostname: str = ""


class LogSeen(NamedTuple):
    """A line of the observer's log that names a health change, or the start of its process (R160).

    *kind* is ``pfail``, ``fail-decided``, ``fail-learned`` or ``fail-cleared``, *subject* the node; or ``started``, and *subject*
    is the server's version.
    """

    ts_ns: int
    kind: EventKind
    subject: str


Evidence = MessageSeen | LinkSeen | NodePoll | LogSeen


def poll_of(ts_ns: int, topology: Topology, asked_ns: int = 0) -> NodePoll:
    """Turn a read CLUSTER NODES answer (R128) into evidence; *ts_ns* is when the answer was complete."""
    return NodePoll(
        ts_ns,
        tuple(
            PolledNode(
                node.id,
                int(node.flags),
                node.master_id or "",
                node.config_epoch,
                slot_bits(node.slots.to_wire()),
                node.ip,
                node.port,
                node.cport or 0,
                node.hostname,
            )
            for node in topology.nodes
        ),
        asked_ns or ts_ns,
    )


def readable_part(message: Message) -> Message:
    """The message as the machine may read it: a cut gossip section counts as far as it goes."""
    if message.rest is not None and isinstance(message.header, Header) and isinstance(message.body, Gossip):
        return replace(message, rest=None) if message.rest.reason.endswith("were captured") else message
    return message
