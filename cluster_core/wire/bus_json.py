"""A decoded message as a JSON object and back, nothing lost.

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
"""

from __future__ import annotations

import base64
import struct
from dataclasses import MISSING, fields
from typing import Any

from cluster_core.errors import DecodeError
from cluster_core.slots.slot_set import SlotSet
from cluster_core.wire import bus_message as wire
from cluster_core.wire.bus import decode_message, decode_partial, encode_message, peek_header
from cluster_core.wire.bus_extensions import Extension, ForgottenNode

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
