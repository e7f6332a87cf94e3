"""Cluster bus messages: types, headers and bodies (R3 to R15, clusterMsg in cluster_legacy.h).

Fixed-size texts (node ids, addresses) are Latin-1 without trailing NULs. Extensions keep their type and raw data with
padding; `value` decodes them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import NamedTuple

HOSTNAME = 0
HUMAN_NODENAME = 1
FORGOTTEN_NODE = 2
SHARD_ID = 3
CLIENT_IPV4 = 4
CLIENT_IPV6 = 5

RECORD_HEADER_BYTES = 8
RECORD_ALIGNMENT_BYTES = 8
NODE_ID_BYTES = 40

_RECORD = struct.Struct(">IHH")
_FORGOTTEN = struct.Struct(">40sQ")
_TEXT_TYPES = (HOSTNAME, HUMAN_NODENAME, CLIENT_IPV4, CLIENT_IPV6)


class ForgottenNode(NamedTuple):
    """A node removed by CLUSTER FORGET: its id and remaining seconds on the blacklist."""

    node: str
    ttl_s: int


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension: *type*, *data* with padding and without the 8-byte record header, and the raw *unused* field."""

    type: int
    data: bytes
    unused: int = 0

    @property
    def value(self) -> str | ForgottenNode | None:
        """Return the decoded value: text, shard id or forgotten node; None for an unknown type or size."""
        if self.type in _TEXT_TYPES:
            return self.data.partition(b"\0")[0].decode("utf-8", "replace")
        if self.type == SHARD_ID and len(self.data) >= NODE_ID_BYTES:
            return self.data[:NODE_ID_BYTES].decode("latin-1")
        if self.type == FORGOTTEN_NODE and len(self.data) >= _FORGOTTEN.size:
            node, ttl_s = _FORGOTTEN.unpack_from(self.data)
            return ForgottenNode(node.decode("latin-1"), ttl_s)
        return None


def text_extension(number: int, text: str) -> Extension:
    """Return a hostname, human nodename or client address record: NUL-terminated, padded to 8 bytes (R15)."""
    return Extension(number, _pad(text.encode() + b"\0"))


def shard_id_extension(shard_id: str) -> Extension:
    """Return a shard id record of 48 bytes (R15)."""
    return Extension(SHARD_ID, _pad(shard_id.encode("latin-1")))


def forgotten_node_extension(node: str, ttl_s: int) -> Extension:
    """Return a forgotten-node record of 56 bytes (R15)."""
    return Extension(FORGOTTEN_NODE, _FORGOTTEN.pack(node.encode("latin-1"), ttl_s))


def decode_extensions(raw: bytes, start: int, end: int, count: int) -> tuple[tuple[Extension, ...], int, str]:
    """Decode at most *count* records between *start* and *end* of *raw*.

    Returns the records, the end position, and the reason for an early end, at an invalid length (R18; else empty).
    """
    extensions: list[Extension] = []
    at = start
    for index in range(count):
        if end - at < RECORD_HEADER_BYTES:
            return (tuple(extensions), at, f"extension {index} of {count} is beyond the message")
        length, number, unused = _RECORD.unpack_from(raw, at)
        if length < RECORD_HEADER_BYTES or length % RECORD_ALIGNMENT_BYTES or length > end - at:
            return (tuple(extensions), at, f"extension {index} of {count} claims {length} bytes")
        extensions.append(Extension(number, raw[at + RECORD_HEADER_BYTES : at + length], unused))
        at += length
    return tuple(extensions), at, ""


def encode_extension(extension: Extension) -> bytes:
    """Encode one record; its length is 8 bytes of header plus the data."""
    length = RECORD_HEADER_BYTES + len(extension.data)
    return _RECORD.pack(length, extension.type, extension.unused) + extension.data


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % RECORD_ALIGNMENT_BYTES)


VERSION = 1
HEADER_BYTES = 2256
LIGHT_HEADER_BYTES = 16
SLOT_BITMAP_BYTES = 2048


class MessageType(IntEnum):
    """Message types (R5); headers may hold others, so `Header.type` is a plain integer."""

    PING = 0
    PONG = 1
    MEET = 2
    FAIL = 3
    PUBLISH = 4
    AUTH_REQUEST = 5
    AUTH_ACK = 6
    UPDATE = 7
    MFSTART = 8
    MODULE = 9
    PUBLISHSHARD = 10


TYPE_NAMES: tuple[str, ...] = (
    "ping",
    "pong",
    "meet",
    "fail",
    "publish",
    "auth-req",
    "auth-ack",
    "update",
    "mfstart",
    "module",
    "publishshard",
)
"""Names in CLUSTER INFO's counters (R5), by code."""

GOSSIP_TYPES = frozenset((MessageType.PING, MessageType.PONG, MessageType.MEET))
LIGHT_TYPES = frozenset((MessageType.PUBLISH, MessageType.PUBLISHSHARD, MessageType.MODULE))
"""Types allowed with a light header (R7)."""


class MessageFlag(IntFlag):
    """Bits of ``mflags[0]`` (R6)."""

    PAUSED = 1
    FORCEACK = 2
    EXT_DATA = 4


@dataclass(frozen=True, slots=True)
class Header:
    """The full header of 2256 bytes, fields in wire order (R3)."""

    totlen: int = HEADER_BYTES
    ver: int = VERSION
    port: int = 0
    type: int = MessageType.PING
    count: int = 0
    current_epoch: int = 0
    config_epoch: int = 0
    offset: int = 0
    sender: str = ""
    myslots: bytes = bytes(SLOT_BITMAP_BYTES)
    replicaof: str = ""
    myip: str = ""
    extensions: int = 0
    notused1: bytes = bytes(30)
    pport: int = 0
    cport: int = 0
    flags: int = 0
    state: int = 0
    mflags: bytes = bytes(3)


@dataclass(frozen=True, slots=True)
class LightHeader:
    """Valkey's 16-byte header of PUBLISH, PUBLISHSHARD and MODULE (R7); it has no sender."""

    totlen: int = LIGHT_HEADER_BYTES
    ver: int = VERSION
    notused1: int = 0
    type: int = MessageType.PUBLISH
    notused2: int = 0


@dataclass(frozen=True, slots=True)
class PartialHeader:
    """The first bytes (at least 16) of a full header captured in part; fields behind them are None."""

    raw: bytes
    type: int
    current_epoch: int | None = None
    config_epoch: int | None = None
    offset: int | None = None
    sender: str | None = None


class GossipEntry(NamedTuple):
    """One node's state as seen by the sender (R9); *ping_sent_s* and *pong_received_s* are epoch seconds."""

    node: str
    ping_sent_s: int = 0
    pong_received_s: int = 0
    ip: str = ""
    port: int = 0
    cport: int = 0
    flags: int = 0
    pport: int = 0
    notused1: int = 0


@dataclass(slots=True, unsafe_hash=True)
class Gossip:
    """Body of PING, PONG and MEET: gossip entries (R9), then extensions (R15)."""

    entries: tuple[GossipEntry, ...] = ()
    extensions: tuple[Extension, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """Body of FAIL: the failed node (R10)."""

    node: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Body of PUBLISH and PUBLISHSHARD (R11)."""

    channel: bytes
    message: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Body of UPDATE: the owner of *slots* and its config epoch (R12)."""

    config_epoch: int
    node: str
    myslots: bytes


@dataclass(frozen=True, slots=True)
class Module:
    """Body of MODULE (R14); *module_id* is opaque."""

    module_id: bytes
    type: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Empty:
    """Empty body of AUTH_REQUEST, AUTH_ACK and MFSTART (R13)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Undecoded bytes of a message, and the reason."""

    raw: bytes
    reason: str


Body = Gossip | Fail | Publish | Update | Module | Empty | Unknown


@dataclass(slots=True, unsafe_hash=True)
class Message:
    """One message: header, body by type, and bytes after the body; immutable by convention, for speed."""

    header: Header | LightHeader | PartialHeader
    body: Body = Empty()
    rest: Unknown | None = None

    @property
    def type(self) -> int:
        """The type number without the light bit (R5)."""
        return self.header.type

    @property
    def name(self) -> str:
        """Return the type's name, as in CLUSTER INFO."""
        return type_name(self.header.type)

    @property
    def sender(self) -> str | None:
        """Return the node id in the header; None if not captured or under a light header."""
        if isinstance(self.header, PartialHeader):
            return self.header.sender
        return self.header.sender if isinstance(self.header, Header) else None


def type_name(number: int) -> str:
    """Return the name of a message type.

    >>> type_name(5), type_name(11)
    ('auth-req', 'type-11')
    """
    return TYPE_NAMES[number] if number < len(TYPE_NAMES) else f"type-{number}"
