"""Values of the cluster bus: message types, headers, bodies by type (R3 to R15, clusterMsg in
cluster_legacy.h).

Every field of the wire is kept, also the ones that servers ignore.  Fixed-size texts (node ids, addresses)
are Latin-1 strings without their trailing NULs, which loses nothing: they are padded again.
`cluster_core.wire.bus` reads and writes them.

A record is kept as its type and its raw data, padding included, so that it is written back byte for byte;
`value` reads it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import lru_cache
from typing import NamedTuple

from cluster_core.slots.slot_set import SlotSet

HOSTNAME = 0
HUMAN_NODENAME = 1
FORGOTTEN_NODE = 2
SHARD_ID = 3
CLIENT_IPV4 = 4
CLIENT_IPV6 = 5

EXTENSION_NAMES: tuple[str, ...] = (
    "hostname",
    "human-nodename",
    "forgotten-node",
    "shard-id",
    "client-ipv4",
    "client-ipv6",
)
"""Words for the types of R15; the code is the index."""

RECORD_HEADER_BYTES = 8
RECORD_ALIGNMENT_BYTES = 8
NODE_ID_BYTES = 40

_RECORD = struct.Struct(">IHH")
_FORGOTTEN = struct.Struct(">40sQ")
_TEXT_TYPES = (HOSTNAME, HUMAN_NODENAME, CLIENT_IPV4, CLIENT_IPV6)


class ForgottenNode(NamedTuple):
    """A node that CLUSTER FORGET removed elsewhere: its id and how long it stays on the blacklist."""

    node: str
    ttl_s: int


@dataclass(frozen=True, slots=True)
class Extension:
    """One record: *type*, *data* without the 8-byte record header but with its padding, and the raw *unused*
    field.
    """

    type: int
    data: bytes
    unused: int = 0

    @property
    def name(self) -> str:
        """The word for the type, ``type-N`` for one that is not in R15."""
        return extension_name(self.type)

    @property
    def value(self) -> str | ForgottenNode | None:
        """What the record says: text, a shard id, a forgotten node; None for a type or a size that is not
        known.
        """
        if self.type in _TEXT_TYPES:
            return self.data.partition(b"\0")[0].decode("utf-8", "replace")
        if self.type == SHARD_ID and len(self.data) >= NODE_ID_BYTES:
            return self.data[:NODE_ID_BYTES].decode("latin-1")
        if self.type == FORGOTTEN_NODE and len(self.data) >= _FORGOTTEN.size:
            node, ttl_s = _FORGOTTEN.unpack_from(self.data)
            return ForgottenNode(node.decode("latin-1"), ttl_s)
        return None


def extension_name(number: int) -> str:
    """The word for an extension type.

    >>> extension_name(3), extension_name(9)
    ('shard-id', 'type-9')
    """
    return EXTENSION_NAMES[number] if number < len(EXTENSION_NAMES) else f"type-{number}"


def text_extension(number: int, text: str) -> Extension:
    """Make a hostname, human nodename or client address record: NUL-terminated and padded to 8 bytes (R15)."""
    return Extension(number, _pad(text.encode() + b"\0"))


def shard_id_extension(shard_id: str) -> Extension:
    """Make the shard id record of 48 bytes (R15)."""
    return Extension(SHARD_ID, _pad(shard_id.encode("latin-1")))


def forgotten_node_extension(node: str, ttl_s: int) -> Extension:
    """Make the forgotten-node record of 56 bytes (R15)."""
    return Extension(FORGOTTEN_NODE, _FORGOTTEN.pack(node.encode("latin-1"), ttl_s))


def decode_extensions(raw: bytes, start: int, end: int, count: int) -> tuple[tuple[Extension, ...], int, str]:
    """Read at most *count* records between *start* and *end* of *raw*.

    Returns the records, where reading stopped, and why it stopped early (an empty text when all were read).
    A record whose length is no multiple of 8 or overruns is not read: the server drops the whole message then
    (R18).
    """
    found: list[Extension] = []
    at = start
    for index in range(count):
        if end - at < RECORD_HEADER_BYTES:
            return (tuple(found), at, f"extension {index} of {count} is beyond the message")
        length, number, unused = _RECORD.unpack_from(raw, at)
        if length < RECORD_HEADER_BYTES or length % RECORD_ALIGNMENT_BYTES or length > end - at:
            return (tuple(found), at, f"extension {index} of {count} claims {length} bytes")
        found.append(Extension(number, raw[at + RECORD_HEADER_BYTES : at + length], unused))
        at += length
    return tuple(found), at, ""


def encode_extension(extension: Extension) -> bytes:
    """Write one record; its length is that of its data plus the 8-byte record header."""
    length = RECORD_HEADER_BYTES + len(extension.data)
    return _RECORD.pack(length, extension.type, extension.unused) + extension.data


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % RECORD_ALIGNMENT_BYTES)


VERSION = 1
HEADER_BYTES = 2256
LIGHT_HEADER_BYTES = 16
SLOT_BITMAP_BYTES = 2048
SLOT_SETS_CACHED = 4096


class MessageType(IntEnum):
    """Types of R5; a header may hold others, so `Header.type` is a plain integer."""

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
"""Words of CLUSTER INFO's counters (R5); the code is the index."""

GOSSIP_TYPES = frozenset((MessageType.PING, MessageType.PONG, MessageType.MEET))
LIGHT_TYPES = frozenset((MessageType.PUBLISH, MessageType.PUBLISHSHARD, MessageType.MODULE))
"""Types that may travel under a light header (R7)."""


class MessageFlag(IntFlag):
    """Bits of ``mflags[0]`` (R6)."""

    PAUSED = 1
    FORCEACK = 2
    EXT_DATA = 4


@dataclass(frozen=True, slots=True)
class Header:
    """The full header of 2256 bytes, its fields in the order of the wire (R3)."""

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

    @property
    def slots(self) -> SlotSet:
        """The slots that the sender (or, for a replica, its master) claims."""
        return slots_of(self.myslots)


@dataclass(frozen=True, slots=True)
class LightHeader:
    """The header of 16 bytes that Valkey puts before PUBLISH, PUBLISHSHARD and MODULE (R7); it names no
    sender.
    """

    totlen: int = LIGHT_HEADER_BYTES
    ver: int = VERSION
    notused1: int = 0
    type: int = MessageType.PUBLISH
    notused2: int = 0


@dataclass(frozen=True, slots=True)
class PartialHeader:
    """The first bytes of a full header, at least 16, whose rest was not captured; *peek* holds what they say."""

    raw: bytes
    peek: HeaderPeek

    @property
    def type(self) -> int:
        """The type number (R5)."""
        return self.peek.type


class GossipEntry(NamedTuple):
    """What the sender says about one other node (R9); *ping_sent_s* and *pong_received_s* are epoch seconds."""

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
    """Body of PING, PONG and MEET: gossip entries (R9), then extensions (R15).  A value, like `Message`."""

    entries: tuple[GossipEntry, ...] = ()
    extensions: tuple[Extension, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """Body of FAIL: the node that failed (R10)."""

    node: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Body of PUBLISH and PUBLISHSHARD (R11)."""

    channel: bytes
    message: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Body of UPDATE: who owns *slots* under which config epoch (R12)."""

    config_epoch: int
    node: str
    myslots: bytes

    @property
    def slots(self) -> SlotSet:
        """The slots that *node* owns."""
        return slots_of(self.myslots)


@dataclass(frozen=True, slots=True)
class Module:
    """Body of MODULE (R14); *module_id* is opaque."""

    module_id: bytes
    type: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Empty:
    """Body of AUTH_REQUEST, AUTH_ACK and MFSTART: nothing (R13)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Bytes of a message that were not understood, and why."""

    raw: bytes
    reason: str


Body = Gossip | Fail | Publish | Update | Module | Empty | Unknown


@dataclass(slots=True, unsafe_hash=True)
class Message:
    """One message: header, body by type, and what stood behind the body, if anything did.

    A value that nobody changes; frozen it would take three times as long to make, and nothing is made as often.
    """

    header: Header | LightHeader | PartialHeader
    body: Body = Empty()
    rest: Unknown | None = None

    @property
    def type(self) -> int:
        """The type number without the light bit (R5)."""
        return self.header.type

    @property
    def name(self) -> str:
        """The word for the type, as in CLUSTER INFO."""
        return type_name(self.header.type)

    @property
    def sender(self) -> str | None:
        """The node id in the header; None under a light header, or where it was not captured."""
        if isinstance(self.header, PartialHeader):
            return self.header.peek.sender
        return self.header.sender if isinstance(self.header, Header) else None


class HeaderPeek(NamedTuple):
    """The header fields that filters need; None for those that the bytes at hand do not reach."""

    type: int
    light: bool
    totlen: int
    ver: int
    gossip_count: int
    current_epoch: int | None
    config_epoch: int | None
    offset: int | None
    sender: str | None
    flags: int | None
    state: int | None
    mflags: int | None


def type_name(number: int) -> str:
    """The word for a message type.

    >>> type_name(5), type_name(11)
    ('auth-req', 'type-11')
    """
    return TYPE_NAMES[number] if number < len(TYPE_NAMES) else f"type-{number}"


@lru_cache(maxsize=SLOT_SETS_CACHED)
def slots_of(bitmap: bytes) -> SlotSet:
    """The slot set of a wire bitmap (R4), cached by content: a cluster has few distinct bitmaps."""
    return SlotSet.from_wire(bitmap)
