"""The value of a stream, whole: entries, ids, groups with their consumers and pending entries (`rdbLoadObject`, `t_stream.c`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from cluster_core.formats.rdb.grammar import F_LISTPACK
from cluster_core.formats.rdb.packed_elements import packed_elements
from cluster_core.formats.rdb.strings import length_at, string_at, string_prefix

StreamId = tuple[int, int]
"""Milliseconds and sequence."""

NOT_READ = -1
"""`StreamGroup.read` of a group whose count the server does not know (``SCG_INVALID_ENTRIES_READ``)."""

DELETED, SAME_FIELDS = 1, 2
"""Flags of an entry in a node."""

_RAW_ID = struct.Struct(">QQ")
_U64 = 1 << 64


class StreamEntry(NamedTuple):
    """One entry of a stream: its id and its words, field and value by turns."""

    id: StreamId
    words: tuple[bytes, ...]


class Pending(NamedTuple):
    """An entry that a group delivered and nobody acknowledged."""

    id: StreamId
    delivered_at_ms: int
    deliveries: int


class StreamConsumer(NamedTuple):
    """A consumer of a group: when it was last seen and last got an entry, and the ids that wait for its word."""

    name: bytes
    seen_at_ms: int
    active_at_ms: int
    pending: tuple[StreamId, ...]


class StreamGroup(NamedTuple):
    """A group: its last delivered id, how many entries it has read (`NOT_READ` if unknown), what is pending, its consumers."""

    name: bytes
    last_id: StreamId
    read: int
    pending: tuple[Pending, ...]
    consumers: tuple[StreamConsumer, ...]


class StreamValue(NamedTuple):
    """A stream: entries in order, its last id, the entries ever added, the largest id deleted, its groups."""

    entries: list[StreamEntry]
    last_id: StreamId
    added: int
    deleted_id: StreamId
    groups: list[StreamGroup]


def stream_value(generation: int, data: bytes, at: int) -> StreamValue:
    """Decode the stream whose bytes begin at *at*, in the form of its *generation* (`grammar`).

    A consumer before the third was active when it was seen; a group of the first has read an unknown number of entries: so
    does a server load them.  What those from the fourth on say of idempotent producers is left out.  Raises IndexError, ValueError or Fault where the bytes stand for nothing.
    """
    nodes, at = length_at(data, at)
    entries: list[StreamEntry] = []
    for _ in range(nodes):
        raw, at = string_at(data, at), string_end(data, at)
        node, at = string_at(data, at), string_end(data, at)
        entries += _entries(raw, packed_elements(node, F_LISTPACK))
    return StreamValue(entries, *stream_tail(generation, data, at))


def stream_tail(generation: int, data: bytes, at: int) -> tuple[StreamId, int, StreamId, list[StreamGroup]]:
    """Decode what stands behind the entries of a stream, from *at* on: last id, entries ever added, largest id deleted, groups."""
    meta = []
    for _ in range(3 if generation == 1 else 8):
        number, at = length_at(data, at)
        meta.append(number)
    added, deleted = (meta[7], (meta[5], meta[6])) if len(meta) == 8 else (meta[0], (0, 0))
    return (meta[1], meta[2]), added, deleted, _groups(generation, data, at)


def string_end(data: bytes, at: int) -> int:
    """Return the position after the string at *at*; IndexError if it ends beyond *data*."""
    start, body, _, _ = string_prefix(data, at)
    if start + body > len(data):
        raise IndexError
    return start + body


def _groups(generation: int, data: bytes, at: int) -> list[StreamGroup]:
    count, at = length_at(data, at)
    found = []
    for _ in range(count):
        name, at = string_at(data, at), string_end(data, at)
        ms, at = length_at(data, at)
        seq, at = length_at(data, at)
        read = NOT_READ
        if generation > 1:
            read, at = length_at(data, at)
            read = NOT_READ if read == _U64 - 1 else read
        pending, at = _pending(data, at)
        consumers, at = _consumers(generation, data, at)
        if generation >= 5:  # entries that were handed back and wait for any consumer
            handed_back, at = length_at(data, at)
            at += 16 * handed_back
        found.append(StreamGroup(name, (ms, seq), read, pending, consumers))
    return found


def _pending(data: bytes, at: int) -> tuple[tuple[Pending, ...], int]:
    count, at = length_at(data, at)
    found = []
    for _ in range(count):
        deliveries, after = length_at(data, at + 24)
        found.append(Pending(_raw_id(data, at), _time(data, at + 16), deliveries))
        at = after
    return tuple(found), at


def _consumers(generation: int, data: bytes, at: int) -> tuple[tuple[StreamConsumer, ...], int]:
    count, at = length_at(data, at)
    found = []
    for _ in range(count):
        name, at = string_at(data, at), string_end(data, at)
        seen = active = _time(data, at)
        at += 8
        if generation >= 3:
            active = _time(data, at)
            at += 8
        size, at = length_at(data, at)
        if at + 16 * size > len(data):
            raise IndexError
        found.append(StreamConsumer(name, seen, active, tuple(_RAW_ID.iter_unpack(data[at : at + 16 * size]))))
        at += 16 * size
    return tuple(found), at


def _raw_id(data: bytes, at: int) -> StreamId:
    if at + 16 > len(data):
        raise IndexError
    ms, seq = _RAW_ID.unpack_from(data, at)
    return ms, seq


def _time(data: bytes, at: int) -> int:
    if at + 8 > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + 8], "little", signed=True)


class NodeEntry(NamedTuple):
    """One entry as a node has it: flags, how far its id is from the node's, its words, and the number of listpack entries it says it takes and takes."""

    flags: int
    ms_delta: int
    seq_delta: int
    words: tuple[bytes, ...]
    said: int
    taken: int


def node_entries(words: list[bytes]) -> Iterator[NodeEntry]:
    """The entries of the node that is a listpack of *words*: a master entry with field names, then entries that may share them (`streamAppendItem`).

    Raises IndexError or ValueError where the words stand for nothing.
    """
    fields = _counted(words[2])
    names = words[3 : 3 + fields]
    at = 4 + fields
    while at < len(words):
        start = at
        flags, ms_delta, seq_delta = int(words[at]), int(words[at + 1]), int(words[at + 2])
        at += 3
        if flags & SAME_FIELDS:
            values = words[at : at + fields]
            pairs = tuple(word for pair in zip(names, values, strict=True) for word in pair)
            at += fields
        else:
            count = _counted(words[at])
            pairs = tuple(words[at + 1 : at + 1 + 2 * count])
            at += 1 + 2 * count
        yield NodeEntry(flags, ms_delta, seq_delta, pairs, int(words[at]), at - start)
        at += 1


def _entries(raw: bytes, words: list[bytes]) -> Iterator[StreamEntry]:
    """The entries of one node that are not deleted."""
    ms, seq = int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")
    for entry in node_entries(words):
        if not entry.flags & DELETED:
            yield StreamEntry(((ms + entry.ms_delta) % _U64, (seq + entry.seq_delta) % _U64), entry.words)


def _counted(word: bytes) -> int:
    """A count in a node of a stream; raises ValueError if it is none."""
    count = int(word)
    if count < 0:
        raise ValueError
    return count
