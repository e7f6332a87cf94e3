"""Decode and encode cluster bus messages (R2 to R18, clusterMsg in cluster_legacy.h).

``encode_message(decode_message(raw)) == raw`` for every accepted input. Malformed parts of a message with a signature and
a plausible length become `Unknown` parts with raw bytes and a reason.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from cluster_core.errors import DecodeError, TruncatedError
from cluster_core.wire.bus_message import (
    GOSSIP_TYPES,
    HEADER_BYTES,
    LIGHT_HEADER_BYTES,
    LIGHT_TYPES,
    SLOT_BITMAP_BYTES,
    TYPE_NAMES,
    VERSION,
    Body,
    Empty,
    Extension,
    Fail,
    Gossip,
    GossipEntry,
    Header,
    LightHeader,
    Message,
    MessageFlag,
    MessageType,
    Module,
    PartialHeader,
    Publish,
    Unknown,
    Update,
    decode_extensions,
    encode_extension,
    type_name,
)

__all__ = [
    "GOSSIP_BYTES",
    "GOSSIP_TYPES",
    "HEADER_BYTES",
    "IP_BYTES",
    "LIGHT_BIT",
    "LIGHT_HEADER_BYTES",
    "LIGHT_TYPES",
    "NODE_ID_BYTES",
    "SIGNATURE",
    "SLOT_BITMAP_BYTES",
    "TYPE_NAMES",
    "VERSION",
    "Body",
    "Empty",
    "Extension",
    "Fail",
    "Gossip",
    "GossipEntry",
    "Header",
    "LightHeader",
    "Message",
    "MessageFlag",
    "MessageType",
    "Module",
    "PartialHeader",
    "Publish",
    "Unknown",
    "Update",
    "decode_body",
    "decode_gossip",
    "decode_header",
    "decode_message",
    "decode_partial",
    "drop_reason",
    "encode_message",
    "sized",
    "type_name",
]

SIGNATURE = b"RCmb"
LIGHT_BIT = 0x8000
GOSSIP_BYTES = 104
NODE_ID_BYTES = 40
IP_BYTES = 46
UPDATE_BYTES = 8 + NODE_ID_BYTES + SLOT_BITMAP_BYTES
MODULE_BYTES = 13

_HEAD = struct.Struct(">4sIHHHH")
_HEADER = struct.Struct(">4sIHHHHQQQ40s2048s40s46sH30sHHHB3s")
_PEEK = struct.Struct(">QQQ40s")
_MIDDLE = struct.Struct(">2048s40s46sH30s")
_ENDING = struct.Struct(">HHHB3s")
_GOSSIP = struct.Struct(">40sII46sHHHHH")
_PUBLISH = struct.Struct(">II")
_UPDATE = struct.Struct(">Q40s2048s")
_MODULE = struct.Struct(">8sIB")
_EXT_DATA = int(MessageFlag.EXT_DATA)
_ENTRIES_CACHED = 1 << 15
"""Cached gossip entries, some hundred bytes each: nodes repeat each other's entries within a second."""
_EXTENSIONS_BYTES_CACHED = 512
"""Maximum cached extension, to bound memory taken by hostile senders."""


def decode_message(raw: bytes, *, offset: int = 0, source: str = "<bytes>") -> Message:
    """Decode one message, header and body (R3 to R15); the inverse of `encode_message`.

    Raises `TruncatedError` if *raw* is shorter than its header or ``totlen``, `DecodeError` without the signature or
    with ``totlen`` below the header size; *offset* and *source* locate these errors.
    """
    raw = bytes(raw)
    if len(raw) < LIGHT_HEADER_BYTES:
        raise TruncatedError(f"{len(raw)} bytes hold no bus header", offset=offset, source=source)
    signature, totlen, ver, notused1, kind, notused2 = _HEAD.unpack_from(raw)
    if signature != SIGNATURE:
        raise DecodeError(f"signature is {signature!r}", offset=offset, source=source)
    start = LIGHT_HEADER_BYTES if kind & LIGHT_BIT else HEADER_BYTES
    if totlen < start:
        raise DecodeError(f"totlen {totlen} is below the {start} bytes of its header", offset=offset, source=source)
    if totlen > len(raw):
        raise TruncatedError(f"totlen {totlen} is beyond the {len(raw)} bytes", offset=offset, source=source)
    light = LightHeader(totlen, ver, notused1, kind ^ LIGHT_BIT, notused2) if kind & LIGHT_BIT else None
    header = light or decode_header(raw)
    body, end, reason = decode_body(header, raw, totlen)
    if end == len(raw) and not reason:
        return Message(header, body)
    return Message(header, body, Unknown(raw[end:], reason or f"{len(raw) - end} bytes behind the body"))


def decode_partial(raw: bytes) -> Message:
    """Decode the captured beginning of a truncated message: its complete fields and gossip entries.

    Under 2256 bytes the header is a `PartialHeader`; incomplete parts are `Message.rest`. Raises `TruncatedError` under 16
    bytes and `DecodeError` without the signature.
    """
    if len(raw) < LIGHT_HEADER_BYTES:
        raise TruncatedError(f"{len(raw)} bytes hold no bus header", offset=0)
    signature, totlen, ver, notused1, kind, notused2 = _HEAD.unpack_from(raw)
    if signature != SIGNATURE:
        raise DecodeError(f"signature is {signature!r}", offset=0)
    reason = f"{len(raw)} of {totlen} bytes were captured"
    if kind & LIGHT_BIT:
        header = LightHeader(totlen, ver, notused1, kind ^ LIGHT_BIT, notused2)
        return Message(header, Unknown(raw[LIGHT_HEADER_BYTES:], reason))
    if len(raw) < HEADER_BYTES:
        partial = PartialHeader(bytes(raw), kind)
        if len(raw) >= LIGHT_HEADER_BYTES + _PEEK.size:
            current, config, offset, sender = _PEEK.unpack_from(raw, LIGHT_HEADER_BYTES)
            partial = PartialHeader(bytes(raw), kind, current, config, offset, _text(sender))
        return Message(partial, Unknown(b"", reason))
    full = decode_header(raw)
    body, end, _ = decode_body(full, raw, len(raw))
    if isinstance(body, Unknown):
        body = Unknown(body.raw, reason)
    return Message(full, body, Unknown(raw[end:], reason))


def decode_header(raw: bytes) -> Header:
    """Decode the full header from the first 2256 bytes of *raw*; the caller checks the length (R3)."""
    fields = list(_HEADER.unpack_from(raw))
    fields[9], fields[11], fields[12] = (_text(fields[9]), _text(fields[11]), _text(fields[12]))
    return Header(*fields[1:])


def decode_body(header: Header | LightHeader, raw: bytes, end: int) -> tuple[Body, int, str]:
    """Return the body between the header and *end*, its end, and the reason for an early end; invalid ones are `Unknown`."""
    light = isinstance(header, LightHeader)
    start = LIGHT_HEADER_BYTES if light else HEADER_BYTES
    kind = header.type
    if kind >= len(TYPE_NAMES):
        return Unknown(raw[start:end], f"type {kind} is not known"), end, ""
    if isinstance(header, LightHeader) and kind not in LIGHT_TYPES:
        return (Unknown(raw[start:end], f"{type_name(kind)} under a light header"), end, "")
    if isinstance(header, Header) and kind in GOSSIP_TYPES:
        return decode_gossip(header, raw, end)
    body, stop = _BODY_READERS[kind](raw, start, end)
    if body is None:
        return (Unknown(raw[start:end], f"{end - start} bytes are no body of {type_name(kind)}"), end, "")
    return body, stop, ""


def encode_message(message: Message) -> bytes:
    """Encode a message with its stored lengths and counts (R3 to R15); `sized` computes these."""
    rest = message.rest.raw if message.rest is not None else b""
    return _encode_header(message.header) + _encode_body(message.body) + rest


def sized(message: Message) -> Message:
    """Return the message with ``totlen``, ``count``, ``extensions`` and EXT_DATA set from its parts."""
    header, body = message.header, message.body
    if isinstance(header, PartialHeader):
        return message
    if isinstance(header, Header) and isinstance(body, Gossip):
        flags = header.mflags[0] | (MessageFlag.EXT_DATA if body.extensions else 0)
        mflags = bytes((flags,)) + header.mflags[1:]
        header = replace(header, count=len(body.entries), extensions=len(body.extensions), mflags=mflags)
    size = len(encode_message(replace(message, header=header)))
    return replace(message, header=replace(header, totlen=size))


def drop_reason(message: Message) -> str | None:
    """Return why a server would drop this message unprocessed, None if it would not (R18, clusterIsValidPacket)."""
    if isinstance(message.header, PartialHeader):
        return None
    if message.header.ver != VERSION:
        return f"version {message.header.ver}"
    if message.rest is not None:
        return message.rest.reason
    if isinstance(message.body, Unknown) and message.header.type < len(TYPE_NAMES):
        return message.body.reason
    return None


@lru_cache(maxsize=_ENTRIES_CACHED)
def _decode_entry(raw: bytes) -> GossipEntry:
    node, ping, pong, ip, port, cport, flags, pport, notused1 = _GOSSIP.unpack(raw)
    return GossipEntry(sys.intern(_text(node)), ping, pong, _text(ip), port, cport, flags, pport, notused1)


def decode_gossip(header: Header, raw: bytes, end: int, start: int = HEADER_BYTES) -> tuple[Gossip, int, str]:
    """Decode gossip entries and extensions between *start* and *end*; returns as `decode_body`."""
    whole = min(header.count, (end - start) // GOSSIP_BYTES)
    stop = start + whole * GOSSIP_BYTES
    entries = tuple([_decode_entry(raw[at : at + GOSSIP_BYTES]) for at in range(start, stop, GOSSIP_BYTES)])
    if whole < header.count:
        return (Gossip(entries), stop, f"gossip count {header.count} overruns the message after {whole}")
    if not header.extensions:
        return Gossip(entries), stop, ""
    if not header.mflags[0] & _EXT_DATA:
        reason = f"{header.extensions} extensions without the EXT_DATA flag" if stop < end else ""
        return Gossip(entries), stop, reason
    if end - stop <= _EXTENSIONS_BYTES_CACHED:
        extensions, size, reason = _decode_extensions(raw[stop:end], header.extensions)
        return Gossip(entries, extensions), stop + size, reason
    extensions, stop, reason = decode_extensions(raw, stop, end, header.extensions)
    return Gossip(entries, extensions), stop, reason


@lru_cache(maxsize=_ENTRIES_CACHED)
def _decode_extensions(raw: bytes, count: int) -> tuple[tuple[Extension, ...], int, str]:
    """Decode extensions, cached because most messages of a node repeat them."""
    return decode_extensions(raw, 0, len(raw), count)


def _decode_publish(raw: bytes, start: int, end: int) -> tuple[Body | None, int]:
    if end - start < _PUBLISH.size:
        return None, end
    channel_bytes, message_bytes = _PUBLISH.unpack_from(raw, start)
    at = start + _PUBLISH.size
    if channel_bytes + message_bytes > end - at:
        return None, end
    middle, stop = at + channel_bytes, at + channel_bytes + message_bytes
    return Publish(raw[at:middle], raw[middle:stop]), stop


def _decode_fail(raw: bytes, start: int, end: int) -> tuple[Body | None, int]:
    stop = start + NODE_ID_BYTES
    return (Fail(_text(raw[start:stop])), stop) if stop <= end else (None, end)


def _decode_update(raw: bytes, start: int, end: int) -> tuple[Body | None, int]:
    if end - start < UPDATE_BYTES:
        return None, end
    config_epoch, node, slots = _UPDATE.unpack_from(raw, start)
    return Update(config_epoch, _text(node), slots), start + UPDATE_BYTES


def _decode_module(raw: bytes, start: int, end: int) -> tuple[Body | None, int]:
    if end - start < MODULE_BYTES:
        return None, end
    module_id, length, kind = _MODULE.unpack_from(raw, start)
    stop = start + MODULE_BYTES + length
    return (Module(module_id, kind, raw[start + MODULE_BYTES : stop]), stop) if stop <= end else (None, end)


def _decode_empty(raw: bytes, start: int, end: int) -> tuple[Body | None, int]:
    return Empty(), start


_BODY_READERS: dict[int, Callable[[bytes, int, int], tuple[Body | None, int]]] = {
    MessageType.FAIL: _decode_fail,
    MessageType.PUBLISH: _decode_publish,
    MessageType.AUTH_REQUEST: _decode_empty,
    MessageType.AUTH_ACK: _decode_empty,
    MessageType.UPDATE: _decode_update,
    MessageType.MFSTART: _decode_empty,
    MessageType.MODULE: _decode_module,
    MessageType.PUBLISHSHARD: _decode_publish,
}


def _encode_header(header: Header | LightHeader | PartialHeader) -> bytes:
    if isinstance(header, PartialHeader):
        return header.raw
    if isinstance(header, LightHeader):
        kind = header.type | LIGHT_BIT
        return _HEAD.pack(SIGNATURE, header.totlen, header.ver, header.notused1, kind, header.notused2)
    head = _HEAD.pack(SIGNATURE, header.totlen, header.ver, header.port, header.type, header.count)
    sender, replicaof = (_fixed(header.sender, NODE_ID_BYTES), _fixed(header.replicaof, NODE_ID_BYTES))
    epochs = _PEEK.pack(header.current_epoch, header.config_epoch, header.offset, sender)
    myip = _fixed(header.myip, IP_BYTES)
    middle = _MIDDLE.pack(header.myslots, replicaof, myip, header.extensions, header.notused1)
    return head + epochs + middle + _ENDING.pack(header.pport, header.cport, header.flags, header.state, header.mflags)


def _encode_body(body: Body) -> bytes:
    match body:
        case Gossip():
            entries = b"".join(map(_encode_entry, body.entries))
            return entries + b"".join(map(encode_extension, body.extensions))
        case Fail():
            return _fixed(body.node, NODE_ID_BYTES).ljust(NODE_ID_BYTES, b"\0")
        case Publish():
            return _PUBLISH.pack(len(body.channel), len(body.message)) + body.channel + body.message
        case Update():
            return _UPDATE.pack(body.config_epoch, _fixed(body.node, NODE_ID_BYTES), body.myslots)
        case Module():
            return _MODULE.pack(body.module_id, len(body.payload), body.type) + body.payload
        case Unknown():
            return body.raw
        case Empty():
            return b""


def _encode_entry(entry: GossipEntry) -> bytes:
    node, ip = _fixed(entry.node, NODE_ID_BYTES), _fixed(entry.ip, IP_BYTES)
    times = (entry.ping_sent_s, entry.pong_received_s)
    return _GOSSIP.pack(node, *times, ip, entry.port, entry.cport, entry.flags, entry.pport, entry.notused1)


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("latin-1")


def _fixed(text: str, size: int) -> bytes:
    """Encode a fixed-size text, which `struct` pads with NULs; raises ValueError if too long."""
    raw = text.encode("latin-1")
    if len(raw) > size:
        raise ValueError(f"{text!r} is longer than {size} bytes")
    return raw
