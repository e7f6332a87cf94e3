"""Evidence of one observer: messages, connections, polls, log lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from cluster_core.formats.capture.bus_rows import Endpoint as Endpoint
from cluster_core.formats.capture.bus_rows import PacketKind
from cluster_core.gossip.view import slot_bits
from cluster_core.kinds import EventKind
from cluster_core.topology.node import Topology
from cluster_core.wire.bus import Gossip, Header, Message

SightingKind = PacketKind | Literal["message", "gap"]
"""Kind of capture evidence: a message, a packet that opens or ends a connection, or missing bytes."""
LinkChange = Literal["opened", "closed", "refused", "dropped", "gap", "unread", "read"]
"""Change of a connection; `gap`: one side's bytes are missing from the capture; `unread`: they have not arrived;
`read`: they arrived after all.
"""


class MessageSeen(NamedTuple):
    """A message *sent* or received by the observer, on a connection it opened (*outbound*) or accepted (R27)."""

    ts_ns: int
    ref: int
    connection: int
    outbound: bool
    sent: bool
    peer: Endpoint
    message: Message


class LinkSeen(NamedTuple):
    """A connection was ``opened``, ``closed`` or ``refused``; *by_us*: by the observer.

    ``gap``: bytes of its side (*by_us*) or the other are missing; ``unread``: bytes sent since *since_ns* have not arrived.
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
    """CLUSTER NODES of the observer, one entry per node; *asked_ns* is the time of the request."""

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
    """A health change of *subject*, or process start with the server's version, in the observer's log (R160).

    *kind*: ``pfail``, ``fail-decided``, ``fail-learned``, ``fail-cleared`` or ``started``.
    """

    ts_ns: int
    kind: EventKind
    subject: str


Evidence = MessageSeen | LinkSeen | NodePoll | LogSeen


def poll_of(ts_ns: int, topology: Topology) -> NodePoll:
    """Convert CLUSTER NODES (R128) to evidence; *ts_ns* is when the reply was complete."""
    nodes = (
        PolledNode(
            node.id, int(node.flags), node.master_id or "", node.config_epoch, slot_bits(node.slots.to_wire()), node.ip,
            node.port, node.cport or 0, node.hostname,
        )
        for node in topology.nodes
    )  # fmt: skip
    return NodePoll(ts_ns, tuple(nodes), ts_ns)


def readable_part(message: Message) -> Message:
    """Return the part of a message that the machine can read; a truncated gossip section counts up to its end."""
    if message.rest is not None and isinstance(message.header, Header) and isinstance(message.body, Gossip):
        return replace(message, rest=None) if message.rest.reason.endswith("were captured") else message
    return message
