"""Which rows of a capture somebody wants to see: by node, type, time, connection and by whom a message is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster_core.formats.capture import bus_capture as seen
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.wire.bus import peek_header
from cluster_core.wire.bus_extensions import ForgottenNode
from cluster_core.wire.bus_message import Fail, Gossip, Message, Update, type_name

ID_CHARS: Final = 40
_FAILING: Final = NodeFlags.PFAIL | NodeFlags.FAIL


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What is wanted; an empty field wants everything.

    *nodes*: ids (or their beginnings), ports, addresses, address:port, of sender or receiver.  *types*: words of CLUSTER
    INFO (``ping``, ``auth-req``, ``type-11``), and ``connection``, ``unknown``, ``gap`` for rows that are no messages.
    *since_ns* and *until_ns*: from, and to before.  *connections*: numbers.  *subjects*: ids, or their beginnings, of nodes
    that a FAIL, an UPDATE or a forgotten-node extension names, or that gossip calls PFAIL or FAIL.
    """

    nodes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    connections: tuple[int, ...] = ()
    subjects: tuple[str, ...] = ()

    def keeps(self, row: seen.Row) -> bool:
        """Whether *row* is wanted.  Problems of the file itself always are; no other row without a place in time is."""
        if not isinstance(row, seen.CapturedMessage | seen.CapturedUnknown | seen.CapturedGap | seen.ConnectionEvent):
            return True
        origin = row.origin
        if self.since_ns is not None and origin.ts_ns < self.since_ns:
            return False
        if self.until_ns is not None and origin.ts_ns >= self.until_ns:
            return False
        if self.connections and origin.connection not in self.connections:
            return False
        if self.types and word_of(row) not in self.types:
            return False
        if self.nodes and not any(_is_party(node, row) for node in self.nodes):
            return False
        return not self.subjects or (isinstance(row, seen.CapturedMessage) and self._is_about(row))

    def _is_about(self, row: seen.CapturedMessage) -> bool:
        named = subjects_of(row.decode())
        return any(subject.startswith(wanted) for subject in named for wanted in self.subjects)


def word_of(row: seen.CapturedMessage | seen.CapturedUnknown | seen.CapturedGap | seen.ConnectionEvent) -> str:
    """The type of a message, or the word for a row that is none."""
    match row:
        case seen.CapturedMessage():
            return type_name(peek_header(row.raw).type)
        case seen.CapturedUnknown():
            return "unknown"
        case seen.CapturedGap():
            return "gap"
        case seen.ConnectionEvent():
            return "connection"


def subjects_of(message: Message) -> list[str]:
    """The nodes that a message is about, in its order."""
    body = message.body
    if isinstance(body, Fail | Update):
        return [body.node]
    if not isinstance(body, Gossip):
        return []
    failing = [entry.node for entry in body.entries if entry.flags & _FAILING]
    values = (extension.value for extension in body.extensions)
    return failing + [value.node for value in values if isinstance(value, ForgottenNode)]


def _is_party(
    node: str, row: seen.CapturedMessage | seen.CapturedUnknown | seen.CapturedGap | seen.ConnectionEvent
) -> bool:
    """Whether the row's message went from or to *node*."""
    ids = (row.sender, row.receiver) if isinstance(row, seen.CapturedMessage) else ()
    if any(known.startswith(node) for known in ids if known):
        return True
    return any(_is_at(node, endpoint) for endpoint in (row.origin.source, row.origin.target))


def _is_at(node: str, endpoint: seen.Endpoint) -> bool:
    return node in (endpoint.ip, str(endpoint.port), f"{endpoint.ip}:{endpoint.port}")
