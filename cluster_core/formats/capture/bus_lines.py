"""Bus messages as JSON and as lines of text, and which of them are wanted.

The object has ``type`` (the word of CLUSTER INFO, ``type-N`` for others), ``totlen``, and under a full header its
fields by the names of `Header`, with ``slots`` as CLUSTER NODES prints them; ``light: true`` under a light header.
Then, by type:

ping pong meet gossip: [{node, ping_sent_s, pong_received_s, ip, port, cport, flags, pport, notused1}],
extension_records: [{type, name, value, data}], data in base64; only that and type are read back fail node update
config_epoch, node, slots, inside ``update`` publish… channel, message: text, or {base64: …} when they are not plain
ASCII module module_id (hex), module_type, payload (as message)

Fields that are zero or empty may be left out. ``raw``, the whole message in base64, is there whenever the fields
alone do not give its bytes back (something was not understood, its end was not captured), and then it alone is read;
``reason`` says why. A reader may also rely on ``raw`` alone.

Every line is an object with ``row``: ``message``, ``unknown``, ``gap``, ``connection``, ``skipped`` or ``problem``.
All but the last two say where they come from: ``ts_ns`` (epoch), ``packet``, ``offset``, ``stream``,
``connection_id``, ``direction`` (``initiator``, ``acceptor`` or null: which side sends), ``source`` and ``target``
(``[address, port]``).

message sender, receiver (node ids, empty while not known), captured (bytes, when below totlen), message (see
`message_to_json`) unknown count, looks_like, sample (hex) gap start, end (sequence numbers), count (null
after a jump), reason connection tcp_flags, kind (syn, syn-ack, fin, rst; not read back) skipped reason, packets,
captured_bytes, first_offset problem offset, reason, skipped_bytes
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Final

from cluster_core.errors import DecodeError
from cluster_core.formats.capture import bus_capture as seen
from cluster_core.formats.capture.packet import CaptureProblem
from cluster_core.slots.node_flags import NodeFlags
from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire import bus_message as wire
from cluster_core.wire.bus import decode_message, decode_partial, encode_message, peek_header
from cluster_core.wire.bus_message import Extension, Fail, ForgottenNode, Gossip, Message, Update, type_name

JSON_ERRORS = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, struct.error)
"""What reading values of a wrong kind may raise; each becomes a `DecodeError`."""

_BYTES_FIELDS = ("notused1", "mflags")


def message_to_json(message: wire.Message) -> dict[str, Any]:
    """Return the message as an object that ``json.dumps`` takes."""
    told: dict[str, Any] = {"type": message.name, **_header_to_json(message.header), **_body_to_json(message.body)}
    raw = encode_message(message)
    unknown = message.rest or (message.body if isinstance(message.body, wire.Unknown) else None)
    if unknown is not None:
        told["reason"] = unknown.reason
    if unknown is not None or isinstance(message.header, wire.PartialHeader) or _rebuilt(told) != raw:
        told["raw"] = base64.b64encode(raw).decode()
    return told


def message_from_json(told: dict[str, Any], *, line: int = 0, source: str = "<json>") -> wire.Message:
    """Return the message that `message_to_json` told; raises `DecodeError`, whose offset is *line*."""
    try:
        if "raw" in told:
            raw = base64.b64decode(told["raw"], validate=True)
            return decode_message(raw) if peek_header(raw).totlen <= len(raw) else decode_partial(raw)
        return decode_message(encode_message(_built(told)))
    except JSON_ERRORS as error:
        raise DecodeError(f"not a bus message: {type(error).__name__}: {error}", offset=line, source=source) from error
    except DecodeError as error:
        raise DecodeError(f"not a bus message: {error.reason}", offset=line, source=source) from error


def bytes_to_json(data: bytes) -> str | dict[str, str]:
    """Plain ASCII as text, anything else as ``{"base64": …}``."""
    if all(32 <= byte < 127 for byte in data):
        return data.decode("ascii")
    return {"base64": base64.b64encode(data).decode()}


def bytes_from_json(told: str | dict[str, str]) -> bytes:
    """The inverse of `bytes_to_json`; raises one of `JSON_ERRORS`."""
    return told.encode("ascii") if isinstance(told, str) else base64.b64decode(told["base64"], validate=True)


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


def _rebuilt(told: dict[str, Any]) -> bytes | None:
    """The bytes that the object gives without ``raw``; None if it gives none."""
    try:
        return encode_message(_built(told))
    except JSON_ERRORS:
        return None


def _built(told: dict[str, Any]) -> wire.Message:
    """The message of an object; raises one of `JSON_ERRORS`."""
    kind = told["type"]
    number = wire.TYPE_NAMES.index(kind) if kind in wire.TYPE_NAMES else int(kind.removeprefix("type-"))
    shape = wire.LightHeader if told.get("light") else wire.Header
    values: dict[str, Any] = {"type": number}
    for field in fields(shape):
        if field.name in told and field.name != "type":
            value = told[field.name]
            values[field.name] = bytes.fromhex(value) if shape is wire.Header and field.name in _BYTES_FIELDS else value
    if shape is wire.Header and "slots" in told:
        values["myslots"] = SlotSet.parse(told["slots"]).to_wire()
    header = shape(**values)
    if isinstance(header, wire.Header) and (len(header.notused1), len(header.mflags)) != (30, 3):
        raise ValueError("notused1 has 30 bytes, mflags 3")
    return wire.Message(header, _built_body(number, told))


def _built_body(kind: int, told: dict[str, Any]) -> wire.Body:
    if kind <= wire.MessageType.MEET:
        records = told.get("extension_records", [])
        extensions = (Extension(r["type"], base64.b64decode(r["data"]), r.get("unused", 0)) for r in records)
        return wire.Gossip(tuple(wire.GossipEntry(**entry) for entry in told.get("gossip", [])), tuple(extensions))
    if kind == wire.MessageType.FAIL:
        return wire.Fail(told["node"])
    if kind == wire.MessageType.UPDATE:
        update = told["update"]
        return wire.Update(update["config_epoch"], update["node"], SlotSet.parse(update["slots"]).to_wire())
    if kind in (wire.MessageType.PUBLISH, wire.MessageType.PUBLISHSHARD):
        return wire.Publish(bytes_from_json(told["channel"]), bytes_from_json(told["message"]))
    if kind == wire.MessageType.MODULE:
        return wire.Module(bytes.fromhex(told["module_id"]), told["module_type"], bytes_from_json(told["payload"]))
    return wire.Empty()


_DIRECTIONS = {seen.INITIATOR: "initiator", seen.ACCEPTOR: "acceptor", seen.UNSEEN: None}
_NUMBERS = {word: number for number, word in _DIRECTIONS.items()}


def row_to_line(row: seen.Row) -> str:
    """Return the row as one line of JSON, without a line feed."""
    return json.dumps(_row_to_json(row), separators=(",", ":"))


def row_from_line(text: str | bytes, *, line: int = 0, source: str = "<json>") -> seen.Row:
    """Return the row that `row_to_line` told; raises `DecodeError`, whose offset is *line*."""
    try:
        return _row_from_json(json.loads(text), line, source)
    except JSON_ERRORS as error:
        reason = f"not a line of a bus capture: {type(error).__name__}: {error}"
        raise DecodeError(reason, offset=line, source=source) from error


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


def _row_from_json(told: dict[str, Any], line: int, source: str) -> seen.Row:
    """Raises one of `JSON_ERRORS`."""
    match told["row"]:
        case "message":
            raw = encode_message(message_from_json(told["message"], line=line, source=source))
            totlen = int.from_bytes(raw[4:8], "big")
            return seen.CapturedMessage(
                _origin_from_json(told), raw, totlen, str(told["sender"]), str(told["receiver"])
            )
        case "unknown":
            sample = bytes.fromhex(told["sample"])
            return seen.CapturedUnknown(_origin_from_json(told), int(told["count"]), str(told["looks_like"]), sample)
        case "gap":
            count = None if told["count"] is None else int(told["count"])
            ends = int(told["start"]), int(told["end"])
            return seen.CapturedGap(_origin_from_json(told), *ends, count, str(told["reason"]))
        case "connection":
            return seen.ConnectionEvent(_origin_from_json(told), int(told["tcp_flags"]))
        case "skipped":
            numbers = int(told["packets"]), int(told["captured_bytes"]), int(told["first_offset"])
            return seen.SkippedPackets(str(told["reason"]), *numbers)
        case "problem":
            skipped = None if told["skipped_bytes"] is None else int(told["skipped_bytes"])
            return CaptureProblem(int(told["offset"]), str(told["reason"]), skipped)
        case other:
            raise ValueError(f"row is {other!r}")


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


def _origin_from_json(told: dict[str, Any]) -> seen.Origin:
    source, target = (seen.Endpoint(str(told[name][0]), int(told[name][1])) for name in ("source", "target"))
    return seen.Origin(
        int(told["ts_ns"]),
        int(told["packet"]),
        int(told["offset"]),
        int(told["stream"]),
        int(told["connection_id"]),
        _NUMBERS[told["direction"]],
        source,
        target,
    )


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
