"""Rows of a capture as JSON lines, and filters for them.

`docs/bus-dump.md` lists the members of a line.  Fields that are zero or empty are left out.
"""

from __future__ import annotations

import base64
import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Final

from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.wire import bus_message as wire
from cluster_core.wire.bus import encode_message, peek_header
from cluster_core.wire.bus_message import Extension, Fail, ForgottenNode, Gossip, Message, Update, type_name


def message_to_json(message: wire.Message) -> dict[str, Any]:
    """The message as an object that ``json.dumps`` takes; ``raw`` has all bytes in base64 if some were not understood."""
    members = {"type": message.name, **_header_to_json(message.header), **_body_to_json(message.body)}
    unknown = message.rest or (message.body if isinstance(message.body, wire.Unknown) else None)
    if unknown is not None:
        members["reason"] = unknown.reason
    if unknown is not None or isinstance(message.header, wire.PartialHeader):
        members["raw"] = base64.b64encode(encode_message(message)).decode()
    return members


def bytes_to_json(data: bytes) -> str | dict[str, str]:
    """Return plain ASCII as text, other bytes as ``{"base64": …}``."""
    if all(32 <= byte < 127 for byte in data):
        return data.decode("ascii")
    return {"base64": base64.b64encode(data).decode()}


def _header_to_json(header: wire.Header | wire.LightHeader | wire.PartialHeader) -> dict[str, Any]:
    if isinstance(header, wire.PartialHeader):
        peek = header.peek
        return {"totlen": peek.totlen, **({"sender": peek.sender} if peek.sender else {})}
    told: dict[str, Any] = {"light": True} if isinstance(header, wire.LightHeader) else {}
    for field in fields(header):
        value = getattr(header, field.name)
        default = None if field.default is MISSING else field.default
        if field.name == "type" or (value == default and field.name != "totlen"):
            continue
        if field.name == "myslots":
            told["slots"] = str(wire.slots_of(value))
        else:
            told[field.name] = value.hex() if isinstance(value, bytes) else value
    return told


def _body_to_json(body: wire.Body) -> dict[str, Any]:
    match body:
        case wire.Gossip():
            told: dict[str, Any] = {"gossip": [_present(entry) for entry in body.entries]}
            if body.extensions:
                told["extension_records"] = [_extension_to_json(extension) for extension in body.extensions]
            return told
        case wire.Fail():
            return {"node": body.node}
        case wire.Update():
            return {"update": {"config_epoch": body.config_epoch, "node": body.node, "slots": str(body.slots)}}
        case wire.Publish():
            return {"channel": bytes_to_json(body.channel), "message": bytes_to_json(body.message)}
        case wire.Module():
            payload = bytes_to_json(body.payload)
            return {"module_id": body.module_id.hex(), "module_type": body.type, "payload": payload}
        case _:
            return {}


def _present(entry: wire.GossipEntry) -> dict[str, Any]:
    told: dict[str, Any] = entry._asdict()
    return {name: value for name, value in told.items() if value or name == "node"}


def _extension_to_json(extension: Extension) -> dict[str, Any]:
    value = extension.value
    told: dict[str, Any] = {"type": extension.type, "name": extension.name}
    if value is not None:
        told["value"] = value._asdict() if isinstance(value, ForgottenNode) else value
    told["data"] = base64.b64encode(extension.data).decode()
    if extension.unused:
        told["unused"] = extension.unused
    return told


_DIRECTIONS = {seen.INITIATOR: "initiator", seen.ACCEPTOR: "acceptor", seen.UNSEEN: None}


def row_to_line(row: seen.Row) -> str:
    """Return the row as one line of JSON, without a line feed."""
    return json.dumps(_row_to_json(row), separators=(",", ":"))


def _row_to_json(row: seen.Row) -> dict[str, Any]:
    match row:
        case seen.CapturedMessage():
            told = {"row": "message", **_origin_to_json(row.origin), "sender": row.sender, "receiver": row.receiver}
            if not row.is_whole:
                told["captured"] = len(row.raw)
            return {**told, "message": message_to_json(row.decode())}
        case seen.CapturedUnknown():
            told = {"count": row.count, "looks_like": row.looks_like, "sample": row.sample.hex()}
            return {"row": "unknown", **_origin_to_json(row.origin), **told}
        case seen.CapturedGap():
            told = {"start": row.start, "end": row.end, "count": row.count, "reason": row.reason}
            return {"row": "gap", **_origin_to_json(row.origin), **told}
        case seen.ConnectionEvent():
            return {"row": "connection", **_origin_to_json(row.origin), "tcp_flags": row.flags, "kind": row.kind}
        case seen.SkippedPackets():
            return {"row": "skipped", **asdict(row)}
        case CaptureProblem():
            return {"row": "problem", **asdict(row)}


def _origin_to_json(origin: seen.Origin) -> dict[str, Any]:
    return {
        "ts_ns": origin.ts_ns,
        "packet": origin.packet,
        "offset": origin.offset,
        "stream": origin.stream,
        "connection_id": origin.connection,
        "direction": _DIRECTIONS[origin.direction],
        "source": list(origin.source),
        "target": list(origin.target),
    }


_FAILING: Final = NodeFlags.PFAIL | NodeFlags.FAIL


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Filter of rows; an empty field matches everything.

    *nodes*: ids or their prefixes, ports, addresses or address:port, of sender or receiver. *types*: names in CLUSTER
    INFO (``ping``, ``auth-req``, ``type-11``), and ``connection``, ``unknown``, ``gap`` for other rows. *since_ns*
    (inclusive) and *until_ns* (exclusive). *connections*: numbers. *subjects*: ids or prefixes of nodes in a FAIL,
    UPDATE or forgotten-node extension, or marked PFAIL or FAIL in gossip.
    """

    nodes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    since_ns: int | None = None
    until_ns: int | None = None
    connections: tuple[int, ...] = ()
    subjects: tuple[str, ...] = ()

    def keeps(self, row: seen.Row) -> bool:
        """Return whether *row* passes. Problems of the file always do; other rows without a time never do."""
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
    """Return the type of a message, or the name of another row."""
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
    """Return the nodes that a message is about, in order."""
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
    """Return whether *node* sent or received the row's message."""
    ids = (row.sender, row.receiver) if isinstance(row, seen.CapturedMessage) else ()
    if any(known.startswith(node) for known in ids if known):
        return True
    return any(_is_at(node, endpoint) for endpoint in (row.origin.source, row.origin.target))


def _is_at(node: str, endpoint: seen.Endpoint) -> bool:
    return node in (endpoint.ip, str(endpoint.port), f"{endpoint.ip}:{endpoint.port}")
