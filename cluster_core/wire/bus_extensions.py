"""Ping extensions: the records that follow the gossip entries of PING, PONG and MEET (R15).

A record is kept as its type and its raw data, padding included, so that it is written back byte for byte;
`value` reads it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

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
